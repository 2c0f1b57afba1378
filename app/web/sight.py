"""How a caller sees runs: with which rights, and where it finds them.

Law of this room: a value. Each surface looks at runs through the sight of whoever asks, so that none is shown more on
one way than on another.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from app.streams.final import RUNS_URL
from app.streams.rights import Rights

if t.TYPE_CHECKING:
    from app.streams.final import Selection


@dataclass(frozen=True, slots=True)
class Sight:
    """See the module.

    :ivar runs_url: where the caller finds runs. :ivar public: it is a visitor.
    :ivar thinking: thinking may be shown, where it is asked for; ``tools``: so may calls.
    :ivar selections: what is shown of a run of which nobody knows any more what its starter selected.
    """

    runs_url: str = RUNS_URL
    public: bool = False
    thinking: bool = True
    tools: bool = True
    selections: tuple[Selection, ...] | None = None

    def rights(self, thinking: bool = False, tools: bool = False) -> Rights:
        """What is shown of what was asked for."""
        return Rights(
            thinking and self.thinking,
            tools and self.tools,
            payloads=not self.public,
            public=self.public,
        )


#: Whoever has a key, of the runs it may read at all.
KEYED = Sight()
