"""Plugs Studio into the bench that lies beside the checkout.

Law of this room: the bench is used as it is. Studio is one more entry of its list of servers, with a data
folder, a workflow and a key made for it; the C tools are built into the folder of peers, never here.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
BENCH = ROOT.parent / "shared" / "bench"
_MAIN = "import sys; from app.cli import main; sys.exit(main())"


class Missing(Exception):
    """Something the benchmark needs is not there; the message names it and the cure."""


def peers_folder() -> Path:
    """Where the peers' environments and the C tools live: ``PEERS``, else the bench's own choice."""
    return Path(os.environ.get("PEERS") or Path(tempfile.gettempdir()) / "peers")


def build_tools(peers: Path) -> None:
    """Compile the model and the load client into ``peers`` unless they are there and newer than their source.

    :raises Missing: no bench beside the checkout, or no C compiler.
    """
    if not BENCH.is_dir():
        raise Missing("no shared/bench beside the checkout; the benchmark measures Studio inside it")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise Missing("no C compiler (Debian: apt install gcc libc6-dev)")
    (peers / "log").mkdir(parents=True, exist_ok=True)
    for name in ("upstream", "load"):
        binary, source = peers / name, BENCH / f"{name}.c"
        if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
            subprocess.run([compiler, "-O2", "-o", str(binary), str(source)], check=True)


def set_up(peers: Path, names: t.Sequence[str]) -> None:
    """Install the peers that are not there yet, each into its own environment under ``peers``."""
    places = {"nginx": "nginx", "ref_raw": "ref", "ref_typed": "ref", "ref_fast": "ref", "ref_flask": "ref"}
    wanted = dict.fromkeys(places.get(name, name) for name in names if name not in ("direct", "studio"))
    absent = [name for name in wanted if name != "nginx" and not (peers / name / "bin").is_dir()]
    if "nginx" in wanted and not (shutil.which("nginx") or Path("/usr/sbin/nginx").exists()):
        absent.append("nginx")
    if absent:
        print(f"installing {', '.join(absent)} under {peers} (minutes, once)", flush=True)
        subprocess.run(
            ["bash", str(BENCH / "setup.sh"), *absent], check=True, env={**os.environ, "PEERS": str(peers)}
        )


def _cli(env: dict[str, str], *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _MAIN, *args], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Missing(f"studio {' '.join(args)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def register_studio(folder: Path, port: int) -> Path:
    """Make a data folder with the benchmark's workflow and a key; the file for the bench's ``PEERS_EXTRA``.

    :param folder: an empty folder for the data and the file.
    :param port: where Studio will listen.
    """
    own = {"STUDIO_DATA_DIR": str(folder / "data"), "BENCH_PYTHON": sys.executable}
    env = {**os.environ, **own}
    workflow = _cli(env, "workflow", "import", str(HERE / "workflow.yaml"), "--deploy")
    key = _cli(env, "key", "create", "--name", "bench")
    entry = {
        "port": port,
        "path": f"/api/workflows/{workflow}/execute",
        "body": str(HERE / "body.json"),
        "kind": "agent",
        "dir": str(HERE),
        "env": own,
        "headers": [f"X-API-Key: {key}", "X-Studio-Stream-Protocol: agent-events-v1"],
    }
    listing = folder / "extra.json"
    listing.write_text(json.dumps({"studio": entry}))
    return listing


def free_offset() -> int:
    """A shift of the bench's fixed ports under which all of them are free, so that two runs do not meet."""
    for offset in range(0, 20000, 100):
        try:
            for port in (9900, *range(9911, 9932)):
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", port + offset))
        except OSError:
            continue
        return offset
    raise Missing("no free range of ports")


class Setting(t.NamedTuple):
    """Everything a measurement runs in: the peers' folder and the environment the bench reads."""

    peers: Path
    environ: dict[str, str]


def prepare(names: t.Sequence[str], folder: Path) -> Setting:
    """Tools, peers, Studio's data and entry, and a free range of ports."""
    peers = peers_folder()
    build_tools(peers)
    set_up(peers, names)
    offset = free_offset()
    extra = register_studio(folder, 9931)
    environ = {
        "PEERS": str(peers),
        "PEERS_EXTRA": str(extra),
        "PORT_OFF": str(offset),
        "UP": str(9900 + offset),
    }
    return Setting(peers, environ)


def bench_module(setting: Setting) -> t.Any:
    """The bench's own module, imported with ``setting`` in force (it reads its environment when imported)."""
    os.environ.update(setting.environ)
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(BENCH))
    return importlib.import_module("bench")
