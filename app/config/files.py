"""Files that come with the program and are no modules of it.

Law of this room: found where the program lies, in a checkout and in a wheel.
"""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def shipped(name: str) -> Path:
    """Where one is.

    :param name: relative to the checkout; a wheel puts it under ``share/studio`` of its environment.
    """
    here = _ROOT / name
    return here if here.exists() else Path(sys.prefix) / "share" / "studio" / name
