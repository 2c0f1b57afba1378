"""Holds a family's embeddings: what it claims is recorded, and what is recorded comes out as vectors.

Law of this room: as for :mod:`plugins.conformance.check`; a family that claims embeddings shows some, and one that
claims none has none recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from plugins.conformance.calling import Broken
from plugins.conformance.recordings import Ground, Recording
from plugins.conformance.rig import IDLE_S, KEY, environment, registry_of
from plugins.conformance.scenarios import CLOSE_S, SPLITS
from plugins.conformance.server import ByteServer, Ending, answer_of, byte_server
from plugins.conformance.verdict import Claim, Outcome, Verdict
from plugins.conformance.waits import Cancelled, KitWaits, Stuck, bounded
from plugins.connections import RegistryError
from plugins.spec import ProviderFamily, ResolvedEmbedding
from plugins.wires import name_of
from providers.auth import HeaderAuth, QueryAuth
from providers.spec import Embedded, EmbeddingRequest, ProviderError

SCENARIO = "embedding"
#: Seconds that one call may take.
_CALL_S = 10.0
#: How far a number may be from what was recorded: vectors are kept in 32 bits.
_NEAR = 1e-5


def verdicts(
    family: ProviderFamily, recordings: Sequence[Recording], ground: Ground, *, complete: bool
) -> list[Verdict]:
    """One verdict for each model that embeddings are recorded of.

    :param recordings: those of the scenario ``embedding``.
    :param complete: they are all there is, so that a claim without one fails.
    """
    claims = family.embeddings is not None
    wire = name_of(family.embeddings.wire) if family.embeddings is not None else ""
    if not recordings:
        if not claims or not complete:
            return []
        missing = Outcome(SCENARIO, "missing", "claimed, not shown")
        return [Verdict(family.id, SCENARIO, wire, (missing,))]
    if not claims:
        row = Claim("embeddings", "no", "recorded", ok=False)
        return [Verdict(family.id, each, wire, (), (row,)) for each in _models(recordings)]
    return [_verdict(family, model, recordings, ground, wire) for model in _models(recordings)]


def _models(recordings: Sequence[Recording]) -> list[str]:
    return sorted({recording.model for recording in recordings})


def _verdict(
    family: ProviderFamily, model: str, recordings: Sequence[Recording], ground: Ground, wire: str
) -> Verdict:
    outcomes: list[Outcome] = []
    with byte_server(ground.routes) as server:
        try:
            resolved = registry_of(family).embedders.resolve(
                f"{family.id}/{model}", environment(family, server.base, ground), idle_s=IDLE_S
            )
        except (Broken, RegistryError) as error:
            return Verdict(family.id, model, wire, problem=str(error))
        for recording in recordings:
            if recording.model == model:
                trial = partial(_Trial, resolved, server, recording)
                for name in ("played", "cut", "stall", "cancel"):
                    title = recording.title if name == "played" else name
                    outcomes.append(_outcome(title, getattr(trial(), name)))
    return Verdict(family.id, model, wire, tuple(outcomes), (Claim("embeddings", "yes", "shown", ok=True),))


def _outcome(title: str, run: Callable[[], str]) -> Outcome:
    try:
        return Outcome(title, "passed", run())
    except (Broken, Cancelled, Stuck) as error:
        return Outcome(title, "failed", str(error) or type(error).__name__)


class _Trial:
    """One recording."""

    def __init__(self, resolved: ResolvedEmbedding, server: ByteServer, recording: Recording) -> None:
        self._resolved, self._server, self._recording = resolved, server, recording

    def played(self) -> str:
        """The vectors are those that were recorded, however the bytes come."""
        wanted = self._recording.vectors
        for split in SPLITS:
            self._server.plan = answer_of(self._recording, split)
            try:
                found = self._call(KitWaits())
            except ProviderError as error:
                raise Broken(f"{error.code}: {error.detail or error.message}") from error
            if not _near(found, wanted):
                raise Broken(f"other vectors than recorded ({split or 'whole'}): {found.vectors!r:.200}")
            self._check_usage(found)
        auth = self._resolved.family.auth
        keyed = self._resolved.family.connection.key_required and isinstance(auth, (HeaderAuth, QueryAuth))
        if keyed and KEY.encode() not in self._server.exchanges[-1].head:
            raise Broken("the request does not carry the key")
        return "as recorded, whole, 1, 7, 333 bytes"

    def cut(self) -> str:
        """The connection ends inside the answer."""
        try:
            self._call(KitWaits(), "torn")
        except ProviderError as error:
            if error.code not in ("provider_bad_stream", "provider_unavailable"):
                raise Broken(f"told as {error.code}") from error
            return f"told as {error.code}"
        raise Broken("half an answer was taken for a whole one")

    def stall(self) -> str:
        """The vendor falls silent inside the answer."""
        waits = KitWaits()
        try:
            self._call(waits, "silent", waits.fall_silent)
        except ProviderError as error:
            if error.code != "provider_idle":
                raise Broken(f"told as {error.code}, not provider_idle") from error
            return self._left("after the idle limit")
        raise Broken("half an answer was taken for a whole one")

    def cancel(self) -> str:
        """Stop while the vendor is silent."""
        waits = KitWaits()
        try:
            self._call(waits, "silent", waits.cancel)
        except Cancelled:
            return self._left("while it waits")
        except ProviderError as error:
            raise Broken(f"the cancellation was swallowed; the call ended with {error.code}") from error
        raise Broken("the cancellation was swallowed")

    def _call(
        self, waits: KitWaits, ending: Ending = "whole", silence: Callable[[], None] | None = None
    ) -> Embedded:
        if ending != "whole":
            body = b"".join(self._recording.pieces)
            half = replace(self._recording, pieces=(body[: len(body) // 2],))
            self._server.plan = answer_of(half, ending=ending, silence=silence)
        texts = tuple(f"Text number {number}." for number in range(len(self._recording.vectors)))
        request = EmbeddingRequest(self._resolved.model, texts, "document", self._resolved.dialect)
        with bounded(_CALL_S):
            return self._resolved.wire.embed(request, self._resolved.connection, waits)

    def _check_usage(self, found: Embedded) -> None:
        for name, count in (self._recording.usage or {}).items():
            stated = getattr(found.usage, name, None)
            if stated != count:
                raise Broken(f"usage.{name}: recorded {count}, told {stated}")

    def _left(self, when: str) -> str:
        if not self._server.exchanges[-1].left.wait(CLOSE_S):
            raise Broken(f"the connection stays open {when}")
        return when


def _near(found: Embedded, wanted: Sequence[Sequence[float]]) -> bool:
    return [len(vector) for vector in found.vectors] == [len(vector) for vector in wanted] and all(
        abs(is_ - was) <= _NEAR * max(1.0, abs(was))
        for vector, other in zip(found.vectors, wanted, strict=True)
        for is_, was in zip(vector, other, strict=True)
    )
