"""Runs the scenarios of a family and makes the verdicts.

Law of this room: a family cannot pass by showing less. What its capabilities claim has to be recorded, and what is
recorded has to be claimed.
"""

from __future__ import annotations

import os
import typing as t
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from plugins.conformance import claims as claimed
from plugins.conformance import embeddings, scenarios
from plugins.conformance.calling import Broken, Heard
from plugins.conformance.recordings import Ground, Recording, RecordingInvalid, load, load_ground
from plugins.conformance.rig import Rig
from plugins.conformance.server import byte_server
from plugins.conformance.verdict import Claim, Outcome, Verdict
from plugins.conformance.waits import Cancelled, Stuck
from plugins.connections import RegistryError
from plugins.spec import Capabilities, ProviderFamily


def check(
    family: ProviderFamily,
    recordings: Sequence[Recording] | str | os.PathLike[str] | None = None,
    *,
    model: str | None = None,
    environ: Mapping[str, str] | None = None,
    routes: Mapping[str, t.Any] | None = None,
) -> list[Verdict]:
    """Run every scenario against ``family``.

    :param recordings: recorded answers, or the folder they are in; default: ``family.recordings``.
    :param model: ask this model whatever the recordings name; default: each recorded model.
    :param environ: variables beside address and key, over those of the folder's ``kit.json``; an empty one takes
        away what the kit sets by itself.
    :param routes: JSON answers by path, over those of ``kit.json``.
    :returns: one verdict a model; one that says so when nothing is recorded. The models of a wire that reads no bytes
        are taken together, since each plays one part. Models that make vectors have verdicts of their own; claimed
        ones without a recording fail where ``recordings`` are a folder, or the family's.
    """
    try:
        found, ground = _recorded(family, recordings)
    except RecordingInvalid as error:
        return [Verdict(family.id, model or "?", _wire_name(family), problem=str(error))]
    complete = not isinstance(recordings, (list, tuple))  # a folder shows all that a family can show
    embedded = [recording for recording in found if recording.scenario == embeddings.SCENARIO]
    found = [recording for recording in found if recording.scenario != embeddings.SCENARIO]
    ground = Ground({**ground.environ, **(environ or {})}, {**ground.routes, **(routes or {})})
    others = embeddings.verdicts(family, embedded, ground, complete=complete and bool(found or embedded))
    if others and not found:
        return others
    return [*_models(family, found, ground, model), *others]


def _models(
    family: ProviderFamily, found: list[Recording], ground: Ground, model: str | None
) -> list[Verdict]:
    if not found:
        cure = "give ProviderFamily(recordings=...) the folder of its recordings"
        return [Verdict(family.id, model or "?", _wire_name(family), problem=f"nothing is recorded; {cure}")]
    if not any(recording.pieces for recording in found):
        return [_Trial(family, found[0].model, found, ground).verdict()]
    models = [model] if model else sorted({recording.model for recording in found})
    return [
        _Trial(
            family, each, [replace(r, model=each) for r in found if model or r.model == each], ground
        ).verdict()
        for each in models
    ]


def _recorded(
    family: ProviderFamily, given: Sequence[Recording] | str | os.PathLike[str] | None
) -> tuple[list[Recording], Ground]:
    folder = family.recordings if given is None else given
    if folder is None:
        return [], Ground()
    if isinstance(folder, (str, os.PathLike)):
        return load(folder), load_ground(folder)
    return list(folder), Ground()


def _wire_name(family: ProviderFamily) -> str:
    return family.wire if isinstance(family.wire, str) else family.wire.name


class _Trial:
    """One model under trial."""

    def __init__(
        self, family: ProviderFamily, model: str, recordings: list[Recording], ground: Ground
    ) -> None:
        self.family = family
        self.model = model
        self.recordings = recordings
        self.ground = ground
        self.outcomes: list[Outcome] = []
        self.heard: dict[str, list[Heard]] = {}
        self.signed = False

    def verdict(self) -> Verdict:
        with byte_server(self.ground.routes) as server:
            try:
                rig = Rig(self.family, self.model, server, self.ground)
            except (Broken, RegistryError) as error:
                return Verdict(self.family.id, self.model, _wire_name(self.family), problem=str(error))
            rig.speaks = any(recording.pieces for recording in self.recordings)
            claims = rig.resolved.capabilities
            self._recorded_scenarios(rig, claims)
            self._made_scenarios(rig, claims)
            rows = claimed.earned(claims, self.heard, self.recordings, self.signed)
            rows += self._asked(rig, claims)
            outcomes = tuple(self.outcomes)
            return Verdict(self.family.id, self.model, rig.resolved.wire.name, outcomes, tuple(rows))

    def _recorded_scenarios(self, rig: Rig, claims: Capabilities) -> None:
        wanted = _wanted(claims)
        for scenario in ("text", "thinking", "tool", "parallel", "no-arguments", "error"):
            of_it = [recording for recording in self.recordings if recording.scenario == scenario]
            if not of_it:
                missing = "claimed, not shown" if scenario in wanted else "not claimed"
                self.outcomes.append(
                    Outcome(scenario, "missing" if scenario in wanted else "absent", missing)
                )
            for recording in of_it:
                self._try(recording.title, partial(self._play, rig, recording))

    def _play(self, rig: Rig, recording: Recording) -> str:
        self.heard[recording.title] = scenarios.played(rig, recording)
        return scenarios.tried(rig)

    def _made_scenarios(self, rig: Rig, claims: Capabilities) -> None:
        text = self._first("text")
        if text is None:
            return  # missing already, and everything else is made from it
        if rig.speaks:
            for scenario in (scenarios.cut, scenarios.stall, scenarios.cancel):
                self._try(scenario.__name__, partial(scenario, rig, text))
        else:
            self.outcomes += [Outcome(name, "unfit", "no bytes to tear") for name in ("cut", "stall")]
            self._try("cancel", partial(scenarios.cancel_directly, rig, text))
        turns = [r for r in self.recordings if r.title in self.heard and r.error is None]
        for recording in turns:
            if recording.calls or recording.replay or recording.signature or recording is text:
                self._try("replay", partial(self._replay, rig, recording, text))

    def _replay(self, rig: Rig, recording: Recording, text: Recording) -> str:
        said = scenarios.replay(rig, recording, text)
        self.signed = self.signed or bool(recording.signature)
        return said

    def _asked(self, rig: Rig, claims: Capabilities) -> list[Claim]:
        text = self._first("text")
        if text is None or text.title not in self.heard or not rig.speaks:
            return []
        try:
            return claimed.asked_for(rig, claims, text)
        except (Broken, Cancelled, Stuck) as error:
            self.outcomes.append(Outcome("request", "failed", str(error)))
            return []

    def _first(self, scenario: str) -> Recording | None:
        return next((recording for recording in self.recordings if recording.scenario == scenario), None)

    def _try(self, title: str, run: Callable[[], str]) -> None:
        try:
            self.outcomes.append(Outcome(title, "passed", run()))
        except (Broken, Cancelled, Stuck) as error:
            self.outcomes.append(Outcome(title, "failed", str(error) or type(error).__name__))


def _wanted(claims: Capabilities) -> set[str]:
    """The scenarios that a model with these claims has to show."""
    wanted = {"text", "error"}
    if claims.thinking != "none":
        wanted.add("thinking")
    if claims.tools != "none":
        wanted |= {"tool", "no-arguments"}
    if claims.tools == "parallel":
        wanted.add("parallel")
    return wanted
