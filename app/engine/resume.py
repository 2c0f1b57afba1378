"""From what is stored of a durable run to one that goes on in this process.

Law of this room: whatever is stored, a run comes of it that has an end: one that cannot go on fails, with the reason,
and lets go of its thread.
"""

from __future__ import annotations

import logging
import typing as t
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields

import msgspec

from app import encoding
from app import events as ev
from app.engine import budgets, envelopes
from app.engine.checkpoints import NEAR, RESERVE
from app.engine.giving_way import give_way
from app.engine.recompiled import documents_of, workflow_of
from app.engine.resumption import Resumption, cannot
from app.engine.run import Run
from app.engine.run_request import RunRequest
from app.errors import RunError, StudioError
from app.redaction import policy
from app.state import InvariantBroken
from app.store.checkpoints import Checkpoint, Claim, DecisionRow
from app.store.sealing import SecretsLocked
from app.store.threads import ThreadRow
from app.workflows.compiled import CompiledWorkflow, Region, WorkflowSettings
from app.workflows.selectors import Selection

if t.TYPE_CHECKING:
    from app.engine.services import Services
    from app.store.sealing import Box

log = logging.getLogger("studio.runs")

#: Envelopes, or batches of them, that are looked at in one turn of the hub.
_SLICE = 500
#: Of a request, what its row does not hold.
_STARTED = (
    "timeout_s",
    "on_disconnect",
    "disconnect_grace_s",
    "show_thinking",
    "public",
    "traceparent",
    "draft",
    "stop_after",
)
#: Of its row, what a request has.
_ROW = ("workflow_id", "version", "key_id", "conversation_id", "input", "origin")
#: Of these, what the row has as it may be shown.
_MASKED = ("conversation_id", "input")
#: Where the rest stands, sealed; and, beside the documents, something that shows whether a key opens it.
_SEALED, PROBE = "sealed", "probe"


def started_of(request: RunRequest, box: Box | None = None) -> tuple[dict[str, t.Any], dict[str, t.Any]]:
    """What a durable run can be started again with, beside its row: how it was started, and what it runs; JSON.

    :param box: seals what its row may not show.
    """
    started: dict[str, t.Any] = {name: getattr(request, name) for name in _STARTED}
    if request.thread is not None:
        started["thread"] = {each.name: getattr(request.thread, each.name) for each in fields(ThreadRow)}
    if request.selections is not None:
        started["selections"] = [[each.block, list(each.path)] for each in request.selections]
    if request.budgets:
        started["budgets"] = budgets.stored(request.budgets)
    if request.redact is not None:
        started["redact"] = policy.stored(request.redact)
    documents = documents_of(request.workflow)
    if box is not None:
        hidden = {name: getattr(request, name) for name in _MASKED}
        started[_SEALED] = box.seal(encoding.dumps(hidden)).decode()
        documents[PROBE] = box.seal(b"").decode()
    return started, documents


def _hidden(services: Services, started: Mapping[str, t.Any]) -> tuple[dict[str, t.Any], Box | None]:
    """What of a request its row may not show, and what opened it.

    :raises StudioError: it was sealed with a key that is not here.
    """
    sealed = started.get(_SEALED)
    if sealed is None:
        return {}, None
    box = services.store.secrets.box(to_open=True)
    return encoding.loads(box.open(sealed.encode())), box


def locked(services: Services, documents: Mapping[str, t.Any]) -> str | None:
    """Why this process cannot open what is stored of a run; None: it can, or need not.

    :param documents: as of :func:`started_of`.
    """
    probe = documents.get(PROBE)
    try:
        if probe is not None:
            services.store.secrets.box(to_open=True).open(probe.encode())
    except SecretsLocked as error:
        return error.message
    return None


def resumed(services: Services, claim: Claim, on_end: Callable[[Run], None], halt: str | None = None) -> Run:
    """The run of a claim, ready to be started.

    :param halt: why it ends as soon as something would have to run anew.
    :raises StoreFailed: it could not be stored that it goes on here; the claim is good for another try.
    """
    services.store.generation()  # secrets may be stored that no request of this process has heard of
    request, box, doom = _request(services, claim)
    resumption = _resumption(services, claim)
    resumption.box = box
    resumption.halt = halt
    resumption.doom = resumption.doom or doom
    run = Run(services, request, on_end, resumption)
    resumption.restore(run)
    # Before anything is told: its numbers are its own from now on, and so is the time that people took.
    first = Checkpoint(seq_reserved=resumption.reserved, human_wait_ms=resumption.human_wait_ms)
    services.store.durable.save(run.id, claim.owner, claim.epoch, first).wait()
    return run


def _request(services: Services, claim: Claim) -> tuple[RunRequest, Box | None, RunError | None]:
    row, started = claim.row, claim.started or {}
    doom: RunError | None = None
    workflow, box = _NOTHING, None
    hidden: dict[str, t.Any] = {}
    try:
        if claim.started is None or claim.documents is None:
            raise cannot("what it was started with is lost")
        workflow = workflow_of(claim.documents, services.compiler)
        if not workflow.durable:
            raise cannot("what it was started with is not what it would be now")
        hidden, box = _hidden(services, started)
    except RunError as error:
        workflow, doom = _NOTHING, error
    except StudioError as error:
        doom = cannot(f"its workflow cannot run any more ({error.message})")
    except Exception:
        log.exception("run %s: its documents cannot be compiled", row["id"])
        doom = cannot("its workflow cannot be read any more")
    selections = started.get("selections")
    thread = started.get("thread")
    request = RunRequest(
        run_id=row["id"],
        workflow=workflow,
        thread=None if thread is None else ThreadRow(**thread),
        budgets=budgets.restored(started.get("budgets", ())),
        redact=policy.restored(started.get("redact")),
        selections=None if selections is None else tuple(Selection(b, tuple(path)) for b, path in selections),
        **{name: row[name] for name in _ROW} | hidden,
        **{"timeout_s": workflow.settings.timeout_s, **{k: started[k] for k in _STARTED if k in started}},
    )
    return request, box, doom


def _resumption(services: Services, claim: Claim) -> Resumption:
    row, now = claim.row, services.clock.now_ms()
    said, doom = _said(claim)
    last = claim.logs[-1].last if claim.logs else 0  # also of what cannot be read
    start = last if claim.clean else max(last, claim.seq_reserved)
    waited = None if claim.paused_at is None else max(0, _accepted(claim.decisions, now) - claim.paused_at)
    human = (row["human_wait_ms"] or 0) + (waited or 0)
    active = _active(row, claim, said, human)
    made = Resumption(
        claim.epoch,
        claim.seq_reserved if start + NEAR <= claim.seq_reserved else start + RESERVE,
        start,
        row["created_at"],
        active,
        max(0, now - row["created_at"] - active - human),
        human,
        waited,
        claim.steps,
        claim.decisions,
        said,
        doom,
        unread=bool(claim.logs and not said),
    )
    try:
        for place, envelope in enumerate(said, 1):
            made.log.append(envelope)
            made.state.apply(envelope)
            if not place % _SLICE:
                give_way()  # other runs go on meanwhile, however long this one is
    except InvariantBroken as error:
        made.doom = made.doom or cannot(f"what it said is not in order ({error})")
    return made


def _said(claim: Claim) -> tuple[list[ev.Envelope], RunError | None]:
    said: list[ev.Envelope] = []
    try:
        for place, batch in enumerate(claim.logs, 1):
            said += envelopes.unpacked(batch.data)
            if not place % _SLICE:
                give_way()
    except msgspec.MsgspecError:
        log.exception("run %s: what it said cannot be read", claim.row["id"])
        return said, cannot("what it said cannot be read")
    return said, None


def _accepted(decisions: Sequence[DecisionRow], now: int) -> int:
    """When the first of the answers came that it goes on with."""
    new = [row.answered_at for row in decisions if row.answered_at is not None and row.taken_at is None]
    return min(new, default=now)


def _active(row: Mapping[str, t.Any], claim: Claim, said: Sequence[ev.Envelope], human: int) -> int:
    """For how long it has been active: as of its pause, else as of the last that is known of it."""
    known: int = row["active_ms"] or 0
    if claim.paused_at is not None or not said:
        return known
    began: int = row["created_at"]
    return max(known, said[-1].ts - began - (row["queued_ms"] or 0) - human)


_NOTHING = CompiledWorkflow(
    name="",
    document={},
    blocks={},
    edges=(),
    incoming={},
    outgoing={},
    entry="",
    variables={},
    settings=WorkflowSettings(durable=True),
    inside={},
    regions={None: Region((), {}, {}, ())},
)
