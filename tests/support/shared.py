"""Finds the material that lies beside the checkout: recordings, the bench, the design.

Law of this room: nothing of it is copied into the project; a test that needs it says so loudly when it is
missing, and on CI that is a failure.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import types
import typing as t
from functools import cache
from pathlib import Path

import pytest

#: The checkout.
ROOT = Path(__file__).resolve().parents[2]


def find_shared() -> Path | None:
    """The folder ``shared`` beside the checkout, or None."""
    folder = ROOT.parent / "shared"
    return folder if folder.is_dir() else None


def shared_path(*parts: str) -> Path:
    """``shared/<parts>`` beside the checkout.

    Skips the test (or the module, at import) when it is absent; on CI fails instead.
    """
    folder = find_shared()
    path = folder.joinpath(*parts) if folder else None
    if path is not None and path.exists():
        return path
    reason = f"no {'/'.join(('shared', *parts))} beside the checkout"
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)


@cache
def recordings() -> dict[str, dict[str, t.Any]]:
    """Every recorded case as ``{"family/case": entry}`` of ``recordings/index.json``."""
    index = json.loads(shared_path("recordings", "index.json").read_text())
    return {f"{entry['family']}/{entry['case']}": entry for entry in index["cases"]}


@cache
def shared_module(*parts: str) -> types.ModuleType:
    """The program ``shared/<parts>`` as a module, loaded once."""
    path = shared_path(*parts)
    spec = importlib.util.spec_from_file_location(f"studio_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
