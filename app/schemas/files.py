"""What comes with an upload beside its bytes.

Law of this room: as for :mod:`app.schemas.requests`; these are parameters of a query.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

#: Shortest and longest time one may ask for; the settings may allow less.
LEAST_S, MOST_S = 60, 315_360_000


@dataclass(frozen=True, slots=True)
class UploadQuery:
    """Query of ``POST /api/files``."""

    name: str = dataclasses.field(
        default="file",
        metadata={"doc": "What the file is called. Default: what the part of a form says.", "most": 255},
    )
    expires_in_seconds: int | None = dataclasses.field(
        default=None,
        metadata={
            "key": "expiresInSeconds",
            "doc": "How long it is kept. Default, and at most: STUDIO_FILES_S.",
            "low": LEAST_S,
            "high": MOST_S,
        },
    )
