"""What a block type is, and what it may use while it runs."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from plugins.spec.budget import BudgetMeter
from plugins.spec.decisions import Answer, Ask
from plugins.spec.detectors import Detector
from plugins.spec.families import ResolvedEmbedding, ResolvedModel
from plugins.spec.journal import BlockJournal
from plugins.spec.memory import Memory
from plugins.spec.observer import CallObserver
from plugins.spec.tools import Tool
from providers.spec import Waits

_T = t.TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document that a search found.

    :ivar source: the document's name inside its collection.
    :ivar start: with ``end``, which characters of the document's text it is: ``document[start:end] == text``.
    :ivar score: higher is better; compare it with scores of the same search only.
    """

    document_id: str
    source: str
    title: str | None
    start: int
    end: int
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that was uploaded."""

    name: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class BodyResult:
    """What one run through a body came to.

    :ivar outputs: those of its last blocks, by id. :ivar leaves: the handles that led out of it.
    """

    outputs: Mapping[str, Mapping[str, t.Any]] = field(default_factory=dict)
    leaves: frozenset[str] = frozenset()


class BlockContext(t.Protocol):
    """The door between a block and the engine.

    :ivar run_id: id of the run, ``run_…``. :ivar name: what the document calls the block, for messages.
    :ivar block: instance path, the ``block`` field of every event.
    :ivar execution: from 1; counts how often this instance ran.
    :ivar attempt: from 1; counts the tries of this execution, by ``retries``; a resumed run begins anew.
    :ivar waits: guards every blocking step of the block.
    :ivar show_thinking: someone may see thinking in this run.
    :ivar predecessors: ids of the blocks with an edge into this one, in document order; those that ran are in
        ``variables()["blocks"]``.
    :ivar settings: the configuration object of the app.
    :ivar conversation: an opaque name of the conversation this block takes part in, the same in every run of it.
    """

    run_id: str
    block: str
    name: str
    execution: int
    attempt: int
    waits: Waits
    show_thinking: bool
    predecessors: t.Sequence[str]
    settings: t.Any

    @property
    def conversation(self) -> str:
        """See the class."""

    def memory(self, key: str | None = None) -> Memory:
        """What this block remembers of the conversation.

        :param key: a memory that several blocks of the workflow share; default: the block's own.
        """

    def emit(self, event: t.Any) -> None:
        """Put a run event into the stream. Never switches greenlets."""

    def flush(self) -> None:
        """Hand what was emitted to the clients; call once per batch of events."""

    def take(self, *handles: str) -> None:
        """Leave by these handles instead of the plain edge."""

    def body(
        self,
        handle: str,
        *,
        loop: Mapping[str, t.Any] | None = None,
        index: int | None = None,
        waits: Waits | None = None,
    ) -> BodyResult:
        """Run the body behind ``handle`` once, to its end.

        :param loop: what templates in it see as ``loop``; default: what this block sees itself.
        :param index: one of several that run at once; the ids of its blocks end in ``[index]``.
        :param waits: those of a job of :meth:`gather`.
        :raises BlockError: a block in it failed; everything else in it has ended.
        """

    def expect(self, bodies: t.Sequence[tuple[str, int | None]], max_concurrency: int) -> None:
        """Say which bodies (handle, index) will run, in order: a stop then names what of them would have come next.

        Without it, a stopped block that nothing goes on in is named itself, as one that decides anew after each body.

        :param max_concurrency: most that run at the same time.
        """

    def child(self, given: t.Any) -> t.Any:
        """Run the workflow this block's config names to its end, inside this block.

        :param given: its input. :returns: its output.
        :raises BlockError: a block of it failed, or it took longer than its own ``timeout_s``.
        """

    def leads_on(self, handle: str) -> bool:
        """Whether an edge leaves this block by ``handle``, other than back to the block in whose body it lies."""

    def leaves_by(self, handle: str) -> bool:
        """Whether any edge leaves this block by ``handle``."""

    @property
    def answers(self) -> bool:
        """Whether a ``response`` block hands this block's ``content`` on to the reader."""

    def render(self, template: str, **extra: t.Any) -> str:
        """Render a sandboxed template over ``input``, ``blocks``, ``vars`` and ``extra``.

        :raises RunError: ``template_failed``.
        """

    def variables(self) -> Mapping[str, t.Any]:
        """What templates see."""

    def secrets(self) -> Mapping[str, str]:
        """Stored secrets by name, for headers and the like: never put one into an event, an output or an error.

        Asking for one that is not stored raises ``BlockError`` ``secret_unknown``. Call it where it is needed, from
        the block's own greenlet: it asks the store whether anything has changed.
        """

    def resolve_model(self, model: str, idle_s: float | None = None) -> ResolvedModel:
        """The family, wire, connection and capabilities behind ``<family>/<model>``.

        :param idle_s: longest silence of the vendor, in seconds; default: the app's.
        :raises RunError: ``provider_not_configured``, ``model_unknown``.
        """

    def resolve_embedding(self, model: str) -> ResolvedEmbedding:
        """What makes vectors behind ``<family>/<model>``.

        :raises RunError: ``provider_not_configured``, ``model_unknown``.
        """

    def tool(self, name: str) -> Tool | None:
        """A registered tool by name."""

    def mcp(
        self, server: str | Mapping[str, t.Any], waits: Waits, *, fresh: bool = False
    ) -> tuple[Tool, ...]:
        """The tools of an MCP server, under its own names; asked for once, then kept while they are the same.

        :param server: a configured name, or a server written out as in a tool entry's ``mcp``.
        :param waits: end the wait for it. :param fresh: do not trust what was kept.
        :raises ToolFailed: it cannot be reached.
        """

    def detector(self, name: str) -> Detector | None:
        """A detector of personal data by name."""

    def search(
        self,
        collection: str,
        query: str,
        limit: int,
        *,
        mode: t.Literal["text", "embedding"] = "text",
        model: str | None = None,
    ) -> t.Sequence[Passage]:
        """The best passages of a collection of documents, at most ``limit``, best first; interruptible.

        :param mode: ``text`` searches by words, ``embedding`` by vectors.
        :param model: what makes the vectors, as ``<family>/<model>``; None: the collection's own.
        :raises BlockError: ``collection_unknown``, ``search_failed``; of an ``embedding`` search also
            ``embedding_model_missing``, ``embedding_model_differs``, ``embeddings_missing``.
        :raises RunError: the embedding model cannot be called, or failed.
        """

    def file(self, file_id: str) -> StoredFile | None:
        """A file that was uploaded by who started the run; interruptible. None: there is none such."""

    def now_ms(self) -> int:
        """Epoch milliseconds of the run's clock."""

    def new_id(self, prefix: str) -> str:
        """A fresh id of the run's clock."""

    def sleep(self, seconds: float) -> None:
        """Wait, interruptibly, by the run's clock."""

    def slot(self, model: ResolvedModel | ResolvedEmbedding) -> AbstractContextManager[int]:
        """One of the family's ``max_concurrency`` places; entering waits for it and gives the milliseconds it took."""

    def limited(self, seconds: float, make: Callable[[], BaseException]) -> AbstractContextManager[t.Any]:
        """While open, ``seconds`` are all there is; then the block's wait raises what ``make`` makes."""

    def gather(self, jobs: t.Sequence[Callable[[Waits], None]]) -> None:
        """Run jobs concurrently, each with its own waits; returns when all ended; cancels all when cancelled."""

    def at_once(self, jobs: t.Sequence[Callable[[BlockContext], None]]) -> None:
        """Run jobs concurrently, each with this context bound to waits of its own; see :meth:`gather`.

        For jobs that call models: each counts as something that runs, where the run's time in line is told.
        """

    def bounded(self, waits: Waits, seconds: float, fn: Callable[[Waits], _T]) -> _T:
        """The result of ``fn`` with waits that end after ``seconds``.

        :raises TimeoutError: the time was up.
        """

    def run_blocking(self, fn: Callable[[], _T], waits: Waits) -> _T:
        """The result of blocking or CPU work, done in the tool threads; one that comes after cancellation is dropped.

        What ``fn`` raises is raised here.
        """

    @property
    def observer(self) -> CallObserver | None:
        """Who is told of model calls; None: nobody looks."""

    @property
    def budget(self) -> BudgetMeter | None:
        """What limits the run's use of models; None: nothing does."""

    @property
    def journal(self) -> BlockJournal:
        """The run's journal, bound to this block instance and execution."""

    def tell(self, key: str, *events: t.Any) -> None:
        """Emit what no earlier attempt of this execution has told: after a restart a block runs again from its
        beginning, and its readers have heard it.

        :param key: names it among what is told of the execution.
        """

    def commit(self) -> None:
        """Wait until everything written to the journal is durable, where the run is. Never inside a wait.

        :raises StoreFailed: it could not be stored.
        """

    @property
    def can_ask(self) -> bool:
        """Whether people can be asked in this run."""

    def approve(self, subject: str) -> None:
        """Take down that a person has approved what ``subject`` names for the rest of the thread, or of a run in none:
        :meth:`decide` asks nobody about it any more.
        """

    def decide(self, asks: t.Sequence[Ask]) -> t.Sequence[Answer]:
        """Put questions to people and wait until at least one of them is answered; the answers there are, in order.

        The questions are stored and told before this waits. Answers come once each over all calls of an execution: ask
        again with those that are left. When nothing else in the run can move, it pauses here and goes on from the
        block's beginning, maybe in another process, with the journal as it was.

        :raises BlockError: ``approval_unavailable``: nobody can be asked in this run.
        :raises RunError: ``journal_mismatch``: a stored question of this key asks something else.
        """


@dataclass(frozen=True, slots=True)
class Use:
    """Something outside of the document that a config names, checked before a run and told apart by ``kind``.

    :ivar path: keys and indexes that lead to it inside the config.
    :ivar value: ``model``: its id. ``tool``: an entry as of an agent's ``tools``. ``detector``: its name.
        ``workflow``: a :class:`Child`. ``embedding``: a :class:`VectorSearch`. ``collection``: its name.
    """

    kind: t.Literal["model", "tool", "detector", "workflow", "embedding", "collection"]
    path: tuple[str | int, ...]
    value: t.Any


@dataclass(frozen=True, slots=True)
class Child:
    """A workflow that a block runs. ``version`` None: the one that is live when the run begins."""

    workflow_id: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class VectorSearch:
    """A search by vectors.

    :ivar collection: where; None: not known before the run.
    :ivar model: what makes the vectors, as ``<family>/<model>``; None: the collection's own.
    """

    collection: str | None
    model: str | None


@dataclass(frozen=True, slots=True)
class BlockType:
    """A kind of block.

    :ivar type_name: ``type`` in the document.
    :ivar config: frozen dataclass; each field's metadata holds ``doc`` and optionally ``field`` (a marshmallow field),
        ``template`` (True: a Jinja2 template) and ``advanced``. Schema, form and reference page derive from it. A
        field that holds an agent's config, or a list of them, has ``agents``: the names its templates see beside the
        usual ones.
    :ivar run: ``run(context, config) -> output`` mapping; raises ``app.errors.BlockError``.
    :ivar outputs: names of the fields its output can have, for selectors; None when it can have any.
    :ivar repeats: those of them that only repeat what others hold. What a loop or parallel block collects is without:
        it would double with each of several inside one another.
    :ivar handles: source handles its outgoing edges may use; the empty string is the plain edge.
    :ivar entry: a workflow has exactly one block of an entry type.
    :ivar check: extra validation of a config: ``check(config, path) -> list of (path, message)``.
    :ivar summary: one sentence for the reference.
    :ivar bodies: of a type that runs other blocks, the handles behind which they hang, by config;
        ``context.body(handle)`` runs one.
    :ivar returns: handles whose bodies' last blocks lead back to this block: the only legal cycles.
    :ivar uses: what a config names beside ``model`` and ``fallbacks``, by config; at most one ``workflow``.
    :ivar needs: handles that an edge has to leave by, by config.
    :ivar fails_without: handles that fail the block where no edge leaves by them: it never ends a run by one.
    :ivar answers: its output's ``content`` is text for the reader, settled (``AnswerSettled``) once it is final.
    :ivar named: handles that depend on the config, e.g. a router's ``route:<name>``; ``handles`` then has ``route:``.
    """

    type_name: str
    config: type
    run: Callable[[BlockContext, t.Any], Mapping[str, t.Any]]
    summary: str
    handles: tuple[str, ...] = ("", "error")
    entry: bool = False
    check: Callable[[t.Any, str], list[tuple[str, str]]] | None = None
    outputs: tuple[str, ...] | None = None
    repeats: tuple[str, ...] = ()
    bodies: Callable[[t.Any], tuple[str, ...]] | None = None
    returns: tuple[str, ...] = ()
    named: Callable[[t.Any], tuple[str, ...]] | None = None
    answers: bool = False
    needs: Callable[[t.Any], tuple[str, ...]] | None = None
    fails_without: tuple[str, ...] = ()
    uses: Callable[[t.Any], tuple[Use, ...]] | None = None
