"""Deltas that may be no deltas: pieces that say again all that was said before.

Law of this room: MiniMax documents its pieces as cumulative and sends them either way, so each channel is told by
its own second piece. A piece that does not begin with all before it settles that the channel is incremental.
"""

from __future__ import annotations

import typing as t

#: Shorter beginnings are repeated by chance ("a", "and").
_TELLING = 3


class Snapshots:
    """What is new in each piece of a channel. Holds the text of a channel only until its kind is known."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}
        self._cumulative: dict[str, bool] = {}

    def cumulative(self, channel: str) -> bool:
        """Whether the channel's pieces repeat what came before."""
        return self._cumulative.get(channel, False)

    def news(self, channel: str, text: str) -> str:
        """The part of ``text`` that was not said before on ``channel``; empty when nothing is new."""
        kind = self._cumulative.get(channel)
        if kind is False:
            return text
        said = self._said.get(channel, "")
        repeats = text.startswith(said)
        if kind is None and len(said) >= _TELLING:
            self._cumulative[channel] = repeats and len(text) > len(said)
            repeats = self._cumulative[channel]
        elif kind is None:
            repeats = False
        if not repeats:
            self._said[channel] = said + text if channel not in self._cumulative else ""
            return text
        self._said[channel] = text
        return text[len(said) :]

    def details(self, details: list[t.Any]) -> list[t.Any]:
        """``reasoning_details`` with only what is new in their texts."""
        fresh: list[t.Any] = []
        for detail in details:
            text = detail.get("text") if isinstance(detail, dict) else None
            if isinstance(text, str) and text:
                news = self.news("reasoning_details", text)
                fresh.append({**detail, "text": news})
            else:
                fresh.append(detail)
        return fresh
