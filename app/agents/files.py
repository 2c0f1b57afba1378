"""Files that an agent shows its model.

Law of this room: gathered once an execution and held in memory only for it. Addresses are fetched through
``app.net`` with its guard, inside waits; what a file is, its bytes say; a model gets no kind it does not take.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import unquote, urlsplit

from app.agents import templates
from app.agents.config import AgentConfig
from app.errors import RunError
from app.net import client as net
from app.workflows.file_entries import (
    MAX_BYTES,
    MAX_FILES,
    SOURCES,
    Entry,
    FileRefused,
    InvalidEntry,
    content_of,
    entry_of,
    sniff,
)
from plugins.spec import BlockContext, ResolvedModel, ToolFailed
from providers.spec import FilePart

INVALID = "files_invalid"
NOT_SUPPORTED = "files_not_supported"


class Shown:
    """The files of one execution, gathered for the first model that is asked.

    :ivar parts: what was gathered; empty before that.
    """

    __slots__ = ("_config", "_context", "_gathered", "parts")

    def __init__(self, context: BlockContext, config: AgentConfig) -> None:
        self._context, self._config = context, config
        self._gathered = False
        self.parts: tuple[FilePart, ...] = ()

    def fit(self, model: ResolvedModel) -> None:
        """See that ``model`` takes them.

        :raises RunError: see :func:`gather` and :func:`check`.
        """
        if not self._gathered:
            self.parts = gather(self._context, self._config)
            self._gathered = True
        check(model, self.parts)


def gather(context: BlockContext, config: AgentConfig) -> tuple[FilePart, ...]:
    """The files of one execution, fetched and checked.

    :raises RunError: ``files_invalid``: an entry is none, cannot be fetched or read, or there is too much of it.
    """
    entries = _entries(context.variables(), config)
    if len(entries) > MAX_FILES:
        raise RunError(
            INVALID, f"The agent got {len(entries)} files; at most {MAX_FILES} are taken. Send fewer."
        )
    left, found = MAX_BYTES, []
    for index, raw in enumerate(entries):
        part = _part(context, raw, f"files[{index}]", left)
        left -= len(part.data)
        if left < 0:
            raise RunError(INVALID, _too_much(f"files[{index}]"))
        found.append(part)
    return tuple(found)


def check(model: ResolvedModel, files: Iterable[FilePart]) -> None:
    """See that ``model`` takes the kinds of ``files``; text goes into any prompt.

    :raises RunError: ``files_not_supported``, naming what it takes.
    """
    takes = model.capabilities.inputs
    refused = sorted({file.kind for file in files if file.kind != "text" and file.kind not in takes})
    if refused:
        raise RunError(NOT_SUPPORTED, refusal(f"{model.family.id}/{model.model}", refused, takes))


def refusal(model: str, refused: Sequence[str], takes: Sequence[str]) -> str:
    """The sentence that says what a model does not take, and what it does."""
    return (
        f"{model} takes no {' and no '.join(refused)} files; it takes: {', '.join(takes)}. "
        "Leave them out or choose a model that takes them."
    )


def _entries(variables: Mapping[str, t.Any], config: AgentConfig) -> list[t.Any]:
    """The entries as values: those of ``files``, else those that came with the message the agent answers."""
    if config.files is None:
        given = variables.get("input")
        if isinstance(given, Mapping) and _answers_message(config.prompt) and _are_files(given.get("files")):
            return list(given["files"])
        return []
    rendered = templates.render_value(config.files, variables)
    listed = rendered if isinstance(rendered, (list, tuple)) else [rendered]
    found: list[t.Any] = []
    for item in listed:
        found.extend(item if isinstance(item, (list, tuple)) else [item])
    return [item for item in found if not _is_missing(item)]


def _is_missing(item: t.Any) -> bool:
    """Whether an entry has no content because what its template names was not given."""
    if isinstance(item, Mapping):
        given = [item[key] for key in SOURCES if key in item]
        return bool(given) and all(value in (None, "") for value in given)
    return item in (None, "")


def _answers_message(prompt: str | None) -> bool:
    """Whether the agent reads the message that files came with: by default, or by its template."""
    return prompt is None or "input.message" in prompt


def _are_files(value: t.Any) -> bool:
    """Whether an input's ``files`` are what chats send; another workflow may call something else so."""
    return isinstance(value, (list, tuple)) and all(
        isinstance(item, Mapping) and any(isinstance(item.get(key), str) for key in SOURCES) for item in value
    )


def _part(context: BlockContext, raw: t.Any, path: str, left: int) -> FilePart:
    try:
        entry = entry_of(raw, path)
        if entry.url is not None:
            data, stated, name = _fetched(context, entry.url, left)
        elif entry.file is not None:
            data, stated, name = _uploaded(context, entry.file)
        else:
            (data, stated), name = content_of(entry), ""
        kind, media_type, data = sniff(data, entry.media_type or stated)
    except InvalidEntry as invalid:
        raise RunError(INVALID, f"A file cannot be used: {invalid}") from None
    except FileRefused as refused:
        raise RunError(INVALID, f"{path} {refused}.") from None
    except ToolFailed as failed:
        raise RunError(INVALID, f"{path} could not be fetched: {failed}") from None
    return FilePart(kind, media_type, data, _name(entry, name))


def _uploaded(context: BlockContext, file_id: str) -> tuple[bytes, str, str]:
    """The bytes of a file that was uploaded, what it is, and its name.

    :raises FileRefused: it is not there, or not the caller's: both say the same.
    """
    from app.store.errors import StoreFailed  # here: checking a document needs no database

    try:
        found = context.file(file_id)
    except StoreFailed as failed:
        raise FileRefused(f"names a file that could not be read: {failed.message}") from None
    if found is None:
        raise FileRefused(f"names the file {file_id[:100]}, which is not there for who started this run")
    return found.data, found.media_type, found.name


def _fetched(context: BlockContext, url: str, left: int) -> tuple[bytes, str, str]:
    """The bytes behind an address, the media type its server states, and a name.

    :raises ToolFailed: see :func:`app.net.client.fetch`, and for any status but success.
    """
    settings = context.settings
    answer = net.fetch(
        "GET",
        url,
        timeout_s=settings.tool_timeout_s,
        waits=context.waits,
        allow=settings.http_allow,
        max_bytes=left,
    )
    if not 200 <= answer.status < 300:
        raise ToolFailed(f"its server answers with HTTP status {answer.status}")
    return answer.body, answer.headers.get("content-type", ""), unquote(urlsplit(url).path).rpartition("/")[2]


def _name(entry: Entry, fetched: str) -> str:
    printable = "".join(c for c in entry.name or fetched if c.isprintable())
    return printable[:255]


def _too_much(path: str) -> str:
    return f"{path} is too much: files may have {MAX_BYTES // 1024 // 1024} MiB together. Send less."
