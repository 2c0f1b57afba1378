"""``studio workflow import | list | show | validate | export | delete``; versions are in :mod:`app.cli.versions`.

Law of this room: a document is stored only when it would run; what is wrong is listed whole. These
commands write the store under STUDIO_DATA_DIR, whether or not a server is running on it.
"""

from __future__ import annotations

import typing as t

import click

from app.cli.context import (
    CLI,
    load_plugins,
    note,
    note_of,
    on_one_line,
    open_store,
    read_document,
    table,
    warn,
)
from app.clock import rfc3339
from app.errors import Problem, ValidationFailed
from app.workflows import ids

if t.TYPE_CHECKING:
    from app.store import Store, WorkflowRow
    from app.store.writer import Note
    from plugins.registry import Registry


class Parts(t.NamedTuple):
    """See ``app.engine.catalog.Parts``."""

    store: Store
    plugins: Registry


@click.group()
def workflow() -> None:
    """Import, check, deploy and look at workflows."""


@workflow.command(name="import")
@click.argument("file")
@click.option("--deploy", is_flag=True, help="Make it the live version at once.")
@click.option("--id", "workflow_id", help="Store it under this id, replacing the draft that is there.")
def import_(file: str, deploy: bool, workflow_id: str | None) -> None:
    """Store the workflow in FILE (JSON or YAML, - for standard input) and print its id.

    Without --id every import makes a new workflow; with it the stored draft is replaced and versions
    that were deployed stay as they are.
    """
    if workflow_id is not None and not ids.ID.fullmatch(workflow_id):
        raise click.BadParameter("1 to 64 letters, digits, - and _", param_hint="--id")
    plugins = load_plugins()
    document, name = _checked(file, plugins)
    with open_store() as store:
        problem = None if workflow_id is None else ids.id_problem(workflow_id)
        # One that is stored under a word that is reserved now can still be changed.
        if problem is not None and store.workflows.get(str(workflow_id)) is None:
            raise click.BadParameter(problem, param_hint="--id")
        check_stored(Parts(store, plugins), workflow_id or "", document, deploy)
        tell = note_of(store, lambda saved: ("workflow.import", f"workflow:{saved}", {"name": name}))
        saved = store.workflows.save(document, name, workflow_id, tell)
        if deploy:
            store.workflows.deploy(saved, by=CLI, note=deploy_note(store, saved))
            warn_of_chats(Parts(store, plugins), saved)
    click.echo(saved)


@workflow.command()
@click.argument("file")
def validate(file: str) -> None:
    """Check the workflow in FILE against what this installation offers; list every problem."""
    _checked(file, load_plugins())
    click.echo("valid", err=True)


@workflow.command(name="list")
def list_() -> None:
    """List workflows: id, name, live version, last change."""
    with open_store() as store:
        rows = [(w.id, w.name, w.live_version, rfc3339(w.updated_at)) for w in store.workflows.list()]
    table(rows, ("ID", "NAME", "LIVE", "CHANGED"))


@workflow.command()
@click.argument("workflow_id")
def show(workflow_id: str) -> None:
    """Say what a workflow is made of."""
    with open_store() as store:
        row = known(store, workflow_id)
    for line in _told(row):
        click.echo(on_one_line(line))


def _told(row: WorkflowRow) -> t.Iterator[str]:
    yield f"id       {row.id}"
    yield f"name     {row.name}"
    yield f"live     {'none' if row.live_version is None else f'version {row.live_version}'}"
    yield f"created  {rfc3339(row.created_at)}"
    yield f"changed  {rfc3339(row.updated_at)}"
    for block in _objects(row.document.get("blocks")):
        model = (block.get("config") or {}).get("model") if isinstance(block.get("config"), dict) else None
        yield f"block    {block.get('id')}: {block.get('type')}" + (f", {model}" if model else "")
    for edge in _objects(row.document.get("edges")):
        handle = f" ({edge['source_handle']})" if edge.get("source_handle") else ""
        yield f"edge     {edge.get('source')}{handle} -> {edge.get('target')}"


@workflow.command()
@click.argument("workflow_id")
@click.option("--version", type=click.IntRange(min=1), help="A deployed version; default: the draft.")
def export(workflow_id: str, version: int | None) -> None:
    """Print a workflow as YAML that import takes back."""
    from app.workflows import document

    with open_store() as store:
        stored = known(store, workflow_id).document
        if version is not None:
            deployed = store.workflows.version(workflow_id, version)
            if deployed is None:
                raise click.UsageError(f"'{workflow_id}' has no version {version}.")
            stored = deployed.document
    click.echo(document.export(stored), nl=False)


@workflow.command()
@click.argument("workflow_id")
@click.option("--chats", is_flag=True, help="Remove the chats that serve it, too.")
def delete(workflow_id: str, chats: bool) -> None:
    """Remove a workflow and its versions. What its runs have left stays."""
    from app.store.workflows import HasChats

    with open_store() as store:
        row = known(store, workflow_id)
        told = note(store, "workflow.delete", f"workflow:{row.id}", {"name": row.name})
        try:
            store.workflows.remove(row.id, row.revision, chats, told)
        except HasChats as kept:
            raise click.UsageError(f"{kept.message} Give --chats to remove them, too.") from None


def _objects(value: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """The parts of a draft that are objects; it may be of any shape."""
    yield from (item for item in (value if isinstance(value, list) else ()) if isinstance(item, dict))


def _checked(file: str, plugins: Registry) -> tuple[dict[str, t.Any], str]:
    """The document in ``file``, sure to compile, and its name; warnings go to standard error."""
    from app.engine.recompiled import compiled

    document = read_document(file)
    workflow = compiled(document, plugins)
    warn(workflow.warnings)
    return document, workflow.name


def deploy_note(store: Store, workflow_id: str) -> Note:
    """What a deploy says in the audit log: nothing where no version was made."""

    def tell(live: tuple[int, bool]) -> tuple[t.Any, ...] | None:
        number, is_new = live
        return ("workflow.deploy", f"workflow:{workflow_id}", {"version": number}) if is_new else None

    return note_of(store, tell)


def check_stored(parts: Parts, workflow_id: str, document: dict[str, t.Any], deploy: bool) -> None:
    """See that the workflows and secrets a document uses are there. A draft may name those that are still to come,
    and documents may come at any time.

    :raises ValidationFailed: one runs this one, they nest too deeply, or one is missing and this is to be deployed.
    """
    from app.engine.catalog import Catalog, ChildUnavailable
    from app.web.catalog import missing_collections, missing_secrets

    try:
        found = Catalog(parts).of(workflow_id, document)
        warn(missing_secrets(found.secrets, parts.store))
        warn(missing_collections(found.workflow, parts.store))
    except ChildUnavailable as missing:
        if deploy:
            raise
        warn(missing.details)


def warn_of_chats(parts: Parts, workflow_id: str) -> None:
    """Say which chats lack something in what is live now."""
    if not parts.store.chats.list(None, 1, workflow_id)[0]:
        return  # nor are the rooms of chats imported
    from app.engine.catalog import Catalog
    from app.web.chat_fit import lacking

    warn(lacking(parts.store, Catalog(parts), workflow_id))


def known(store: Store, workflow_id: str) -> WorkflowRow:
    """The workflow with its draft.

    :raises ValidationFailed: there is none.
    """
    row = store.workflows.get(workflow_id)
    if row is None:
        raise ValidationFailed(
            [Problem("", f"There is no workflow '{workflow_id}'. See: studio workflow list")]
        )
    return row
