"""Starts a real nginx with the very file that the project hands out.

Law of this room: the configuration is the printed one; only the port, the address behind it and the length
of time-outs are replaced, and a replacement that finds nothing fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.servers import end, free_port, tail, wait_until
from tests.support.shared import ROOT

_MAIN = """
{user}
worker_processes 1;
daemon off;
error_log {folder}/error.log warn;
pid {folder}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
  access_log {folder}/access.log;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  include {folder}/studio.conf;
}}
"""


def nginx_binary() -> str:
    """Where nginx is; skips when there is none (on CI that fails the run)."""
    found = shutil.which("nginx", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
    if found is None:
        pytest.skip("no nginx here (Debian: apt install nginx-light)")
    return found


def render(port: int, behind: int, replaced: Mapping[str, str]) -> str:
    """``deploy/nginx.conf`` for these ports, with further exact replacements."""
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    wanted = {
        "listen 80;": f"listen 127.0.0.1:{port};",
        "127.0.0.1:8000;": f"127.0.0.1:{behind};",
        **replaced,
    }
    for old, new in wanted.items():
        assert text.count(old) == 1, f"deploy/nginx.conf has {text.count(old)} of {old!r}"
        text = text.replace(old, new)
    return text


@contextmanager
def nginx(folder: Path, behind: int, replaced: Mapping[str, str] | None = None) -> Iterator[int]:
    """nginx in front of port ``behind``; yields its own port.

    :param replaced: exact texts of the file and what stands there instead, e.g. shorter times.
    """
    binary, port = nginx_binary(), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "studio.conf").write_text(render(port, behind, replaced or {}))
    # Started by root, workers would be somebody else, who cannot write below pytest's folder.
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(_MAIN.format(folder=folder, user=user))
    process = subprocess.Popen(
        [binary, "-p", str(folder), "-c", str(folder / "nginx.conf")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def ready() -> bool:
        assert process.poll() is None, f"nginx ended:\n{tail(folder / 'error.log')}"
        return (folder / "nginx.pid").exists()

    try:
        wait_until(ready, "nginx runs", 10)
        yield port
    finally:
        end(process)
