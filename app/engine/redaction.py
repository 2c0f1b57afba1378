"""What is masked in one run: personal data where a policy says so, stored secrets everywhere.

Law of this room: a run has it from the beginning or has none at all, and pays nothing then. Where a detector fails,
nothing more is let through: the run ends with ``redaction_failed``, and whoever asks is given nothing.
"""

from __future__ import annotations

import hmac
import logging
import typing as t
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from app.engine.run_request import RunRequest
from app.redaction import log_lines
from app.redaction.finders import DetectorFailed, Finder, finders_of
from app.redaction.known import KnownValues, known_values
from app.redaction.masking import AskedMasking, Masking
from app.redaction.policy import Part, Policy, strictest
from app.workflows.redact import block_policy, whole_policy

if t.TYPE_CHECKING:
    from app.engine.services import Services
    from app.workflows.compiled import CompiledWorkflow

log = logging.getLogger("studio.runs")

#: Code of a run that could not be redacted; cause of its cancellation as well.
FAILED: t.Final = "redaction_failed"
MESSAGE = (
    "What the run says could not be searched for personal data, so it was ended and nothing more of it is told; see "
    "the server's log."
)
#: Type of the block that gives a run's input on.
START: t.Final = "start"
#: What stands where nothing may stand.
WITHHELD = "[withheld]"
_NOTHING = Masking(())


@dataclass(frozen=True, slots=True)
class Rules:
    """What is masked of one block. A :class:`Masking` is None where nothing is.

    :ivar answer: in its text and its output. :ivar thinking: in its thinking. :ivar tools: in names, arguments and
        results of tools. :ivar asked: in what was asked. :ivar rest: in whatever else may quote it, such as errors.
    :ivar holds_answer: its text is told once it is whole. :ivar holds_thinking: so is its thinking.
    """

    answer: Masking | None
    thinking: Masking | None
    tools: Masking | None
    asked: Masking | None
    rest: Masking | None
    holds_answer: bool
    holds_thinking: bool


class Secrets(t.Protocol):
    """The stored secrets; see :class:`app.store.secrets.Secrets`."""

    def known(self) -> tuple[str, ...]:
        """All values."""

    def opened(self) -> tuple[str, ...]:
        """Those that were used in this process; touches no database."""


class KnownSecrets:
    """The finder of all stored secrets; made anew when they have changed."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._values: tuple[str, ...] = ()
        self._finder: KnownValues | None = None

    def finder(self) -> KnownValues | None:
        """None while none is stored.

        :raises StoreFailed: the database cannot be read.
        """
        self._secrets.known()
        return self.current()

    def current(self) -> KnownValues | None:
        """The same with those that were used since; touches no database, so that it never switches greenlets."""
        values = self._secrets.opened()
        if values is not self._values:
            made = known_values(values) if values else None
            self._finder = made if made else None
            self._values = values
        return self._finder


class Redaction:
    """See the module.

    :param cancel: ends the run, for a reason.
    :ivar policy: the strictest of all that hold somewhere in the run. :ivar broken: a detector has failed.
    """

    def __init__(self, services: Services, request: RunRequest, cancel: Callable[[str], object]) -> None:
        self._request = request
        self._detectors = services.plugins.detectors
        self._known = services.known
        self._secrets = services.known.finder()
        self._cancel = cancel
        self._rules: dict[str, Rules] = {}
        self._run: Rules | None = None
        self.policy = strictest((request.redact, whole_policy(request.workflow)))
        self.broken = False

    # -- which rules ---------------------------------------------------------------------------

    def of(self, block: str) -> Rules:
        """The rules of a block, by its instance path.

        :raises DetectorFailed: a detector of its policy is not there.
        """
        rules = self._rules.get(block)
        if rules is None:
            rules = self._rules[block] = self._of(block)
        return rules

    def _of(self, block: str) -> Rules:
        workflow = self._request.workflow
        found = workflow.find(block)
        if found is not None and found.type.type_name == START:  # its output is what the run was asked
            run = self.of_run()
            return replace(run, answer=run.asked)
        return self._made(strictest((self._request.redact, block_policy(workflow, block))))

    def of_run(self) -> Rules:
        """The rules of what belongs to no block.

        :raises DetectorFailed: see :meth:`of`.
        """
        if self._run is None:
            self._run = self._made(self.policy)
        return self._run

    def renew(self) -> None:
        """Look whether other secrets were used by now: a value nobody has used nobody can say."""
        finder = self._known.current()
        if finder is not self._secrets:
            self._secrets = finder
            self._rules = {}
            self._run = None

    def _made(self, policy: Policy | None) -> Rules:
        always: Sequence[Finder] = () if self._secrets is None else (self._secrets,)
        found: Sequence[Finder] = () if policy is None else finders_of(policy, self._detectors)
        everything = _masking((*always, *found))
        other = _masking(always)

        def part(name: Part) -> Masking | None:
            return everything if policy is not None and name in policy.applies else other

        strict = policy is not None and policy.mode == "strict"
        return Rules(
            part("answer"),
            part("thinking"),
            part("tools"),
            None if (asked := part("input")) is None else AskedMasking(asked.finders),
            everything,
            strict and policy is not None and "answer" in policy.applies,
            strict and policy is not None and "thinking" in policy.applies,
        )

    # -- for whoever tells something that is no event ------------------------------------------

    def fail(self, error: DetectorFailed) -> None:
        """Nothing more is let through."""
        if not self.broken:
            self.broken = True
            with log_lines.unfiltered():  # it names the detector, and quotes nothing
                log.error("run %s: %s; it ends, and nothing more of it is told", self._request.run_id, error)
            self._cancel(FAILED)

    def asked(self, value: t.Any, block: str | None = None) -> t.Any:
        """What was asked, of the run or of one of its agents."""
        return self._masked(value, block, lambda rules: rules.asked)

    def answer(self, value: t.Any, block: str | None = None) -> t.Any:
        """What was answered."""
        return self._masked(value, block, lambda rules: rules.answer)

    def tools(self, value: t.Any, block: str | None = None) -> t.Any:
        """What a tool was given, or gave."""
        return self._masked(value, block, lambda rules: rules.tools)

    def other(self, value: t.Any, block: str | None = None) -> t.Any:
        """What is none of these, or all."""
        return self._masked(value, block, lambda rules: rules.rest)

    def begun(self, text: str) -> str:
        """Any text that was cut off; see :meth:`app.redaction.masking.Masking.begun`."""
        return str(self._masked(text, None, lambda rules: rules.rest, Masking.begun))

    def text(self, text: str, block: str | None = None) -> str:
        """Any text, such as an error or a line of the log."""
        return str(self.other(text, block))

    def _masked(
        self,
        value: t.Any,
        block: str | None,
        which: Callable[[Rules], Masking | None],
        how: Callable[[Masking, t.Any], t.Any] = Masking.value,
    ) -> t.Any:
        if not self.broken:
            try:
                self.renew()
                rules = self.of_run() if block is None else self.of(block)
                return how(which(rules) or _NOTHING, value)
            except DetectorFailed as error:
                self.fail(error)
        return WITHHELD if isinstance(value, str) else None


def kept_name(services: Services, workflow: CompiledWorkflow, deployment: Policy | None, name: str) -> str:
    """What a caller calls a conversation, as it may be kept: the same for the same name, another for another.

    :param deployment: the policy of what is called. :raises StoreFailed: see :func:`redaction_of`.
    """
    request = RunRequest("", "", None, workflow, None, 0.0, redact=deployment)
    redaction = redaction_of(services, request, lambda cause: None)
    shown = name if redaction is None else redaction.asked(name)
    if shown == name:
        return name
    key = services.store.secrets.derived("names of conversations")[0]
    # In letters, which no detector takes for a number.
    digest = hmac.digest(key, name.encode("utf-8", "surrogatepass"), "sha256")[:12]
    return f"{shown} ~{''.join(chr(97 + half) for byte in digest for half in divmod(byte, 16))}"


def _masking(finders: Sequence[Finder]) -> Masking | None:
    return Masking(finders) if finders else None


def redaction_of(
    services: Services, request: RunRequest, cancel: Callable[[str], object]
) -> Redaction | None:
    """What is masked in a run; None where nothing is.

    :raises StoreFailed: whether secrets are stored cannot be read.
    """
    wanted = request.redact is not None or whole_policy(request.workflow) is not None
    if not wanted and services.known.finder() is None:
        return None
    return Redaction(services, request, cancel)
