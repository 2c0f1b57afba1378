"""Fresh environments of Python, for what has to be installed as a user would.

Law of this room: no network. An environment is new and empty but for a link to the packages of the one that runs the
tests, Studio among them; what is installed into it is built from a folder.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path


def _run(*command: str | Path) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, f"{command} gave {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Environment:
    """A virtual environment in ``folder``."""

    folder: Path

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "bin" / "python")

    def install(self, source: Path) -> Path:
        """Build the wheel of the package in ``source`` and install it; the wheel."""
        wheels = self.folder / "wheels"
        before = set(wheels.glob("*.whl"))
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        copy = self.folder / "sources" / source.name
        # A build leaves folders beside the sources; those of the checkout stay as they are.
        _run("cp", "-r", source, _made(copy.parent))
        _run(*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", wheels, copy)
        (wheel,) = set(wheels.glob("*.whl")) - before
        _run(*pip, "--python", self.python, "install", "--no-deps", "--no-index", wheel)
        return wheel


def fresh(folder: Path) -> Environment:
    """A new environment in ``folder`` in which Studio is installed, and nothing else that the tests brought."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    made = Environment(folder)
    site = Path(_run(made.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    ours = sysconfig.get_path("purelib")
    (site / "studio_beside.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    return made


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
