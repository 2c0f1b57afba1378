"""Which addresses outbound HTTP of tools may reach.

Law of this room: pure; an address is judged by what it stands for, however it is written.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def refused(address: Address, allow: Sequence[Network] = ()) -> bool:
    """Whether tools may not reach ``address``: everything that is not public, unless a network of ``allow`` has it.

    An IPv4 address inside an IPv6 one (mapped, 6to4, Teredo, NAT64) is judged as itself.
    """
    inner = _embedded(address)
    if inner is not None:
        return refused(inner, allow)
    if any(address in network for network in allow if network.version == address.version):
        return False
    special = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_link_local
    site_local = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
    return not address.is_global or special or site_local


def _embedded(address: Address) -> ipaddress.IPv4Address | None:
    if not isinstance(address, ipaddress.IPv6Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or (int(address) >> 32 == 0 and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None
