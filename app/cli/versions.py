"""``studio workflow deploy | undeploy | rollback | versions | diff``.

Law of this room: as over HTTP, only what would run becomes live, and nothing that runs is touched. A command judges and
writes one revision; where somebody changes the workflow in between, it says so.
"""

from __future__ import annotations

import typing as t

import click

from app import encoding
from app.cli.context import CLI, load_plugins, note, note_of, on_one_line, open_store, table
from app.cli.workflows import Parts, check_stored, deploy_note, known, warn_of_chats
from app.clock import rfc3339

if t.TYPE_CHECKING:
    from app.store import Store, WorkflowRow
    from app.workflows.diff import Change, DocumentDiff

DRAFT = "draft"
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}
#: Most characters of a value in a line of a diff.
_SHOWN = 60


@click.command()
@click.argument("workflow_id")
@click.option("--name", help="What the version is called.")
@click.option("--description", help="What is new in it.")
def deploy(workflow_id: str, name: str | None, description: str | None) -> None:
    """Make the draft live, as a new version; print the live version's number.

    Where the live version says the same, none is made.
    """
    plugins = load_plugins()
    with open_store() as store:
        row = known(store, workflow_id)
        check_stored(Parts(store, plugins), row.id, row.document, deploy=True)
        told = deploy_note(store, row.id)
        number, _ = store.workflows.deploy(row.id, name, description, CLI, row.revision, told)
        warn_of_chats(Parts(store, plugins), row.id)
    click.echo(number)


@click.command()
@click.argument("workflow_id")
def undeploy(workflow_id: str) -> None:
    """Let nobody run a workflow any more. Runs that go on are left alone, and its versions stay."""
    with open_store() as store:
        row = known(store, workflow_id)
        subject = f"workflow:{row.id}"
        store.workflows.versions.undeploy(
            row.id, note=note_of(store, lambda was: _told_undeploy(subject, was))
        )


def _told_undeploy(subject: str, was: int | None) -> tuple[t.Any, ...] | None:
    return None if was is None else ("workflow.undeploy", subject, {"version": was})


@click.command()
@click.argument("workflow_id")
@click.option("--version", type=click.IntRange(min=1), help="Default: the one before the live one.")
@click.option("--draft", is_flag=True, help="The draft becomes what that version says, too.")
def rollback(workflow_id: str, version: int | None, draft: bool) -> None:
    """Make an earlier version live again; print its number."""
    plugins = load_plugins()
    with open_store() as store:
        row = known(store, workflow_id)
        number = _earlier(store, row) if version is None else version
        check_stored(Parts(store, plugins), row.id, _document(store, row, str(number)), deploy=True)
        told = note(store, "workflow.rollback", f"workflow:{row.id}", {"version": number, "draft": draft})
        store.workflows.versions.rollback(row.id, number, row.revision, draft, told)
        warn_of_chats(Parts(store, plugins), row.id)
    click.echo(number)


@click.command()
@click.argument("workflow_id")
def versions(workflow_id: str) -> None:
    """List versions, newest first."""
    rows: list[tuple[t.Any, ...]] = []
    before: int | None = None
    with open_store() as store:
        row = known(store, workflow_id)
        while True:
            page, before = store.workflows.versions.page(row.id, before, 100)
            rows += [
                (
                    each.version,
                    "live" if each.version == row.live_version else "",
                    each.name,
                    rfc3339(each.created_at),
                    each.created_by,
                )
                for each in page
            ]
            if before is None:
                break
    table(rows, ("VERSION", "STATE", "NAME", "DEPLOYED", "BY"))


@click.command()
@click.argument("workflow_id")
@click.option("--from", "earlier", metavar="VERSION", help="A version, or draft; default: the live version.")
@click.option("--to", "later", metavar="VERSION", default=DRAFT, show_default=True, help="The same.")
def diff(workflow_id: str, earlier: str | None, later: str) -> None:
    """Say what has changed from one version to another, or to the draft, a line each."""
    from app.workflows.diff import diff as difference

    with open_store() as store:
        row = known(store, workflow_id)
        if earlier is None and row.live_version is None:
            raise click.UsageError("No version is live; give --from.")
        found = difference(
            _document(store, row, earlier or str(row.live_version)), _document(store, row, later)
        )
    for line in _lines(found):
        click.echo(on_one_line(line))


def _document(store: Store, row: WorkflowRow, name: str) -> dict[str, t.Any]:
    """:raises click.UsageError: there is no such version."""
    if name == DRAFT:
        return row.document
    number = int(name) if name.isascii() and name.isdigit() and len(name) < 10 else 0
    version = store.workflows.version(row.id, number)
    if version is None:
        raise click.UsageError(f"'{row.id}' has no version {name}. See: studio workflow versions {row.id}")
    return version.document


def _earlier(store: Store, row: WorkflowRow) -> int:
    """:raises click.UsageError: no version is live, or none is before it."""
    if row.live_version is None:
        raise click.UsageError("No version is live; give --version.")
    number = store.workflows.versions.before(row.id, row.live_version)
    if number is None:
        raise click.UsageError(f"There is no version before {row.live_version}, which is live.")
    return number


def _lines(found: DocumentDiff) -> t.Iterator[str]:
    yield from map(_line, found.document)
    for block in found.blocks:
        if block.kind == "changed":
            yield from map(_line, block.changes)
        else:
            yield f"{_SIGNS[block.kind]} blocks[{block.at}]: {_short(block.block)}"
    if found.blocks_reordered:
        yield "~ blocks: in another order"
    for edge in found.edges:
        yield f"{_SIGNS[edge.kind]} edges[{edge.at}]: {_short(edge.edge)}"
    if found.edges_reordered:
        yield "~ edges: in another order"
    yield from map(_line, found.variables)
    yield from map(_line, found.settings)


def _line(change: Change) -> str:
    from app.schemas.paths import join

    before = "" if change.kind == "added" else _short(change.before)
    after = "" if change.kind == "removed" else _short(change.after)
    arrow = " -> " if change.kind == "changed" else ""
    return f"{_SIGNS[change.kind]} {join('', *change.at)}: {before}{arrow}{after}"


def _short(value: t.Any) -> str:
    text = encoding.dumps(value).decode()
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


#: Of the group ``studio workflow``.
COMMANDS = (deploy, undeploy, rollback, versions, diff)
