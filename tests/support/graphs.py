"""Documents in few words, and scripts to play in them."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from app import events as ev
from app.agents.checks import checker
from app.engine.services import Services
from app.errors import ValidationFailed
from app.workflows.validation import compile_document
from tests.support.engine import Recorder, services, start


def edge(text: str) -> dict[str, str]:
    """``a > b``, or ``a -handle> b``."""
    left, target = (part.strip() for part in text.split(">"))
    source, _, handle = left.partition(" -")
    return {"source": source.strip(), "target": target, **({"source_handle": handle} if handle else {})}


def graph(blocks: Sequence[tuple[str, str, Mapping[str, t.Any]]], *edges: str) -> dict[str, t.Any]:
    """A document of a start block and ``(id, type, config)``; the edges as of :func:`edge`."""
    placed = [{"id": name, "type": kind, "config": dict(config)} for name, kind, config in blocks]
    return {
        "name": "test",
        "blocks": [{"id": "start", "type": "start"}, *placed],
        "edges": [edge(text) for text in edges],
    }


def alone(kind: str, config: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """A document of a start block and one more, which is called ``it``."""
    return graph([("it", kind, config)], "start > it")


def ended(made: Services, document: Mapping[str, t.Any], given: t.Any = None) -> tuple[t.Any, Recorder]:
    """The terminal of a run of ``document``, and all that it told."""
    run, recorder = start(made, document, given)
    assert run.done.wait(60)
    return recorder.envelopes[-1].event, recorder


@contextmanager
def playing(
    folder: Path, scripts: Mapping[str, t.Any], plugins: tuple[object, ...] = ()
) -> Iterator[Services]:
    """Services with scripts by name: a text to say, a list of texts by turn, or what a script's file says."""
    place = folder / "scripts"
    place.mkdir()
    for name, says in scripts.items():
        (place / f"{name}.yaml").write_text(yaml.safe_dump(script(says)))
    with services(folder, {"STUDIO_SCRIPTS_DIR": str(place)}, plugins) as made:
        yield made


def script(says: t.Any) -> dict[str, t.Any]:
    """What a script's file says, for ``says`` as of :func:`playing`."""
    if isinstance(says, Mapping):
        return dict(says)
    texts = [says] if isinstance(says, str) else says
    return {"turns": [{"steps": [{"text": text}]} for text in texts]}


def told(made: Services, document: t.Any) -> tuple[dict[str, str], dict[str, str]]:
    """What is wrong with a document, and what it is warned of: messages by path."""
    plugins = made.plugins
    try:
        workflow = compile_document(
            document,
            plugins.block_types,
            plugins.check_model,
            frozenset(plugins.tools),
            check_agent=checker(plugins.capabilities_of),
        )
    except ValidationFailed as failed:
        return {problem.path: problem.message for problem in failed.details}, {}
    return {}, {warning.path: warning.message for warning in workflow.warnings}


class When:
    """A reader that acts once, at the first event that fits.

    :param fits: judges an event. :param act: what is done then.
    """

    def __init__(self, fits: t.Callable[[ev.RunEvent], bool], act: t.Callable[[], object]) -> None:
        self._fits = fits
        self._act: t.Callable[[], object] | None = act

    def deliver(self, envelope: ev.Envelope) -> None:
        """See ``app.engine.emitter.Subscriber``."""
        if self._act is not None and self._fits(envelope.event):
            act, self._act = self._act, None
            act()

    def flush(self) -> None:
        """Nothing to send."""


def stopped(
    made: Services, document: Mapping[str, t.Any], fits: t.Callable[[ev.RunEvent], bool], given: t.Any = None
) -> Recorder:
    """What a run told that was stopped at the first event that fits."""
    run, recorder = start(made, document, given)
    run.attach(When(fits, lambda: run.cancel("stop_requested")))
    assert run.done.wait(60)
    assert isinstance(recorder.envelopes[-1].event, ev.RunCancelled)
    return recorder
