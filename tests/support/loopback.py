"""The kill-switch: tests may reach this machine and nothing else.

Law of this room: a test that would leave the machine fails at once, with the address it tried, whether
or not there is a network.
"""

from __future__ import annotations

import ipaddress
import socket
import typing as t

import gevent.socket


class LeftTheMachine(AssertionError):
    """A test tried to connect to an address that is not this machine's loopback."""


def is_local(host: str) -> bool:
    """``host`` is a loopback address or the name of one."""
    if host in ("", "localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def close_the_door() -> None:
    """From now on refuse to connect anywhere but loopback, and to look up any other name."""
    kind = t.cast(t.Any, gevent.socket.socket)
    connect, connect_ex, lookup = kind.connect, kind.connect_ex, socket.getaddrinfo

    def check(sock: t.Any, address: t.Any) -> None:
        if sock.family in (socket.AF_INET, socket.AF_INET6) and not is_local(str(address[0])):
            raise LeftTheMachine(f"a test tried to connect to {address[0]}:{address[1]}")

    def guarded_connect(self: t.Any, address: t.Any) -> t.Any:
        check(self, address)
        return connect(self, address)

    def guarded_connect_ex(self: t.Any, address: t.Any) -> t.Any:
        check(self, address)
        return connect_ex(self, address)

    def guarded_lookup(host: t.Any, *args: t.Any, **kwargs: t.Any) -> t.Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name is not None and not _is_address(name) and not is_local(name):
            raise socket.gaierror(socket.EAI_NONAME, f"a test tried to look up {name}")
        return lookup(host, *args, **kwargs)

    kind.connect, kind.connect_ex = guarded_connect, guarded_connect_ex
    socket.getaddrinfo = gevent.socket.getaddrinfo = guarded_lookup


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
