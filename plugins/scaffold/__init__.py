"""Writes the beginnings of a plugin's package: a family with recordings, a tool, and tests that pass.

Law of this room: what is written passes the conformance kit as it is, so that whoever changes it sees at once what a
change broke. The files are those of ``template/``, with the words between ``@`` replaced.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from plugins.connections import variable_prefix

_NAME = re.compile(r"[a-z](?:[a-z0-9]|-(?=[a-z0-9])){1,39}")
_WORD = re.compile(r"@(name|module|tool|title|VARIABLE)@")
_ENDING = ".tmpl"


class Refused(Exception):
    """Nothing was written; the message says why and what to do."""


def scaffold(name: str, into: Path, taken: frozenset[str] = frozenset()) -> Path:
    """Write the package ``studio-<name>`` into the folder ``into``.

    :param name: lower-case letters, digits and single hyphens, 2 to 40 characters; also the family's id.
    :param taken: family ids that are in use.
    :returns: the new folder.
    :raises Refused: the name cannot be used, or the folder exists.
    """
    _check_name(name, taken)
    folder = into / f"studio-{name}"
    if not into.is_dir():
        raise Refused(f"there is no folder {into}; make it first, or give another by --into")
    try:
        folder.mkdir()
    except FileExistsError:
        raise Refused(f"{folder} exists already; choose another name, or remove it first") from None
    except OSError as error:
        raise Refused(f"{folder} cannot be made: {error.strerror}") from None
    module = "studio_" + name.replace("-", "_")
    words = {
        "name": name,
        "module": module,
        "tool": name.replace("-", "_") + "_words",
        "title": name.replace("-", " ").capitalize(),
        "VARIABLE": name.replace("-", "_").upper(),
    }
    for place, source in _templates(files("plugins.scaffold") / "template", PurePosixPath()):
        parts = ["src", module, *place.parts[1:]] if place.parts[0] == "module" else place.parts
        target = folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_filled(source.read_text(encoding="utf-8"), words), encoding="utf-8")
    return folder


def _check_name(name: str, taken: frozenset[str]) -> None:
    if not _NAME.fullmatch(name):
        raise Refused(
            f'"{name}" cannot be a name: use 2 to 40 lower-case letters, digits and single hyphens, a letter first, '
            "for example acme or acme-labs"
        )
    if keyword.iskeyword(name) or name in sys.stdlib_module_names or name in ("studio", "plugin"):
        raise Refused(f'"{name}" means something else already; choose another, for example {name}-models')
    for other in taken:
        if variable_prefix(other) == variable_prefix(name):  # the same id, or one with the same variables
            raise Refused(f'Studio has a family "{other}" already; choose another, for example my-{name}')


def _templates(folder: Traversable, place: PurePosixPath) -> Iterator[tuple[PurePosixPath, Traversable]]:
    """Every template below ``folder``, with where it goes."""
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            yield from _templates(entry, place / entry.name)
        elif entry.name.endswith(_ENDING):
            yield place / entry.name.removesuffix(_ENDING), entry


def _filled(text: str, words: Mapping[str, str]) -> str:
    return _WORD.sub(lambda match: words[match[1]], text)
