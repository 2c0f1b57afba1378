"""What commands share: the settings, the store, the plugins.

Law of this room: a command opens what it needs and closes it, whatever happens in between. A data
folder that was never used is made ready on the spot; one of an older version is left to
``studio migrate``.
"""

from __future__ import annotations

import os
import sys
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from app import __version__, config
from app.errors import Problem, ValidationFailed

if t.TYPE_CHECKING:
    from app.store import Store
    from app.store.writer import Note
    from plugins.registry import Registry


#: Who changes something by a command, for the record.
CLI = "cli"


def settings() -> config.Settings:
    """The settings of this process's environment.

    :raises app.config.ConfigError: naming every variable that cannot be used.
    """
    return config.load(os.environ)


@contextmanager
def open_store() -> Iterator[Store]:
    """The store of the environment's settings, ready to use; closed afterwards.

    :raises app.errors.StudioError: it was made by another version; the message says what to do.
    """
    from app.store import Store

    store = Store(settings())
    if store.is_new():
        store.migrate()
    store.open()
    try:
        store.check_revision()
        yield store
    finally:
        store.close()


def note(store: Store, action: str, subject: str, details: t.Mapping[str, t.Any] | None = None) -> Note:
    """What a command changes, for the method of the store that changes it; see :func:`app.store.audit.told`."""
    from app.store.audit import told

    return store.audit.note(CLI, told(action, subject, details))


def note_of(store: Store, tell: t.Callable[[t.Any], tuple[t.Any, ...] | None]) -> Note:
    """The same, where what is said depends on what came of it.

    :param tell: the arguments of :func:`note`, by what the method returns; None: nothing was changed.
    """
    from app.store.audit import Entry

    def entry(outcome: t.Any) -> Entry | None:
        said = tell(outcome)
        return None if said is None else Entry(*said)

    return store.audit.note(CLI, entry)


def load_plugins() -> Registry:
    """What the built-in and the installed plugins offer."""
    from app import builtins

    return builtins.registry(settings(), __version__)


def read_document(path: str) -> dict[str, t.Any]:
    """The workflow document in a JSON or YAML file; ``-`` reads standard input.

    :raises ValidationFailed: it is neither, or no workflow document by its shape.
    """
    from app.workflows import document

    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValidationFailed([Problem(path, f"not UTF-8: {error}; save the file as UTF-8")]) from None
    except OSError as error:
        raise ValidationFailed([Problem(path, f"{error.strerror}; give a readable file, or -")]) from None
    return document.parse(text)


def on_one_line(text: str) -> str:
    """``text`` with what breaks lines, or what a terminal would obey, spelled out: names may hold anything."""
    from app import encoding

    return encoding.CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def warn(warnings: t.Iterable[Problem]) -> None:
    """Say what may be a mistake."""
    for warning in warnings:
        click.echo(on_one_line(f"warning: {warning.path}: {warning.message}"), err=True)


def table(rows: t.Sequence[t.Sequence[t.Any]], head: t.Sequence[str], *, head_always: bool = False) -> None:
    """Print rows in columns; through a pipe as tab-separated values, without a head unless ``head_always``."""
    cells = [["" if value is None else on_one_line(str(value)) for value in row] for row in rows]
    if not sys.stdout.isatty():
        for line in [list(head), *cells] if head_always else cells:
            click.echo("\t".join(line))
        return
    widths = [max(len(line[i]) for line in [list(head), *cells]) for i in range(len(head))]
    for line in [list(head), *cells]:
        click.echo("  ".join(value.ljust(width) for value, width in zip(line, widths, strict=True)).rstrip())
