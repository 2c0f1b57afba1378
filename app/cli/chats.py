"""``studio chat list | show | create | update | delete``.

Law of this room: what the API refuses is refused here, by the same judge and in the same words
(:mod:`app.web.chat_deployments`). A password comes in by standard input or a prompt, never as an argument (other users
of the host see those), and goes out nowhere.
"""

from __future__ import annotations

import sys
import typing as t
from collections.abc import Callable

import click

from app.cli.context import CLI, load_plugins, on_one_line, open_store, read_document, settings, table
from app.clock import SystemClock, rfc3339
from app.errors import Problem, ValidationFailed

if t.TYPE_CHECKING:
    from app.store import Store
    from app.store.chats import ChatRow
    from app.web.chat_deployments import Deployments

_PAGE = 200
_AUTH = ("public", "password", "email", "sso")


@click.group()
def chat() -> None:
    """Deploy workflows as chats for people."""


def _described(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a chat; each stands for a member of the API's body."""
    for option in reversed(
        (
            click.option("--title", help="What visitors see above it."),
            click.option("--description", help="What it is for."),
            click.option("--welcome-message", help="What it says before anybody asks."),
            click.option("--auth", "auth_type", type=click.Choice(_AUTH), help="How visitors get in."),
            click.option(
                "--allow",
                "allowed_emails",
                multiple=True,
                metavar="EMAIL",
                help="With email or sso: an address, or @domain.",
            ),
            click.option(
                "--output",
                "outputs",
                multiple=True,
                metavar="BLOCK.PATH",
                help="What visitors get; several may be.",
            ),
            click.option(
                "--thinking/--no-thinking",
                "include_thinking",
                default=None,
                help="Visitors see what models think.",
            ),
            click.option(
                "--tool-calls/--no-tool-calls",
                "include_tool_calls",
                default=None,
                help="Visitors see calls of tools.",
            ),
            click.option(
                "--origin",
                "allowed_origins",
                multiple=True,
                metavar="URL",
                help="A web origin that may embed it.",
            ),
            click.option("--active/--inactive", default=None, help="Whether visitors are let in at all."),
            click.option(
                "--from",
                "file",
                metavar="FILE",
                help="Further members as the API has them, such as rateLimit, in JSON or YAML; - for standard input.",
            ),
        )
    ):
        command = option(command)
    return command


@chat.command(name="list")
@click.option("--workflow", "workflow_id", metavar="ID", help="Of this workflow only.")
def list_(workflow_id: str | None) -> None:
    """List chats, newest first."""
    rows: list[tuple[t.Any, ...]] = []
    before: str | None = None
    with open_store() as store:
        while True:
            page, before = store.chats.list(before, _PAGE, workflow_id)
            rows += [
                (
                    *(row.id, row.slug, row.workflow_id, row.auth_type),
                    *("active" if row.active else "inactive", row.title, rfc3339(row.updated_at)),
                )
                for row in page
            ]
            if before is None:
                break
    table(rows, ("ID", "SLUG", "WORKFLOW", "AUTH", "STATE", "TITLE", "CHANGED"))


@chat.command()
@click.argument("id_or_slug")
def show(id_or_slug: str) -> None:
    """Say how a chat is deployed, what it has spent, and what its workflow lacks."""
    from app import encoding
    from app.web.chat_deployments import body_of
    from app.web.starting import spent

    with open_store() as store:
        row, judge = _known(store, id_or_slug), _judge(store)
        body = body_of(row, judge.deployed(row.workflow_id))
        problems = judge.problems(row)
        if used := spent(store, SystemClock().now_ms(), f"chat:{row.id}", row.budget):
            body["spent"] = used
    width = max(map(len, body))
    for name, value in body.items():
        told = value if isinstance(value, str) else encoding.dumps(value).decode()
        click.echo(on_one_line(f"{name.ljust(width)}  {told}"))
    for problem in problems:
        click.echo(on_one_line(f"{'problem'.ljust(width)}  {problem.path}: {problem.message}"))


@chat.command()
@click.argument("workflow_id")
@click.argument("slug")
@_described
def create(workflow_id: str, slug: str, file: str | None, **options: t.Any) -> None:
    """Deploy a workflow's live version as the chat at SLUG; print the chat's id.

    It needs a title, by --title or in FILE. With --auth password the password is prompted for, or read from a pipe.
    """
    from app.store.chats import SlugTaken
    from app.web.chat_deployments import told_create
    from app.web.passwords import hashed

    sent = {**_read(file), "workflowId": workflow_id, "slug": slug, **_sent(options)}
    if sent.get("authType") == "password" and "password" not in sent:
        sent["password"] = _password(file)
    with open_store() as store:
        values = _judge(store).judged(sent, None, hashed)
        try:
            row = store.chats.create(values, store.audit.note(CLI, told_create))
        except SlugTaken as taken:
            raise ValidationFailed([Problem("slug", taken.message)]) from None
    click.echo(row.id)


@chat.command()
@click.argument("id_or_slug")
@click.option("--workflow", "workflow_id", metavar="ID", help="Another workflow.")
@click.option("--slug", help="Another slug; the old address is gone then.")
@click.option("--password", is_flag=True, help="Another password, prompted for or read from a pipe.")
@click.option("--unset", multiple=True, metavar="MEMBER", help="Take a member away, such as budget.")
@_described
def update(
    id_or_slug: str,
    workflow_id: str | None,
    slug: str | None,
    password: bool,
    unset: tuple[str, ...],
    file: str | None,
    **options: t.Any,
) -> None:
    """Change what the options name of a chat; the rest stays. Lists are replaced whole."""
    from app.store.chats import SlugTaken
    from app.store.errors import RevisionConflict
    from app.web.chat_deployments import told_update
    from app.web.passwords import hashed

    named = {"workflowId": workflow_id, "slug": slug}
    sent = {**_read(file), **{name: value for name, value in named.items() if value is not None}}
    sent |= {**_sent(options), **dict.fromkeys(unset)}
    with open_store() as store:
        before = _known(store, id_or_slug)
        needs = sent.get("authType") == "password" and before.password is None
        if (password or needs) and "password" not in sent:
            sent["password"] = _password(file)
        if not sent:
            raise click.UsageError("Nothing to change; see: studio chat update --help")
        values = _judge(store).judged(sent, before, hashed)
        try:
            store.chats.update(before.id, before.revision, values, store.audit.note(CLI, told_update(before)))
        except SlugTaken as taken:
            raise ValidationFailed([Problem("slug", taken.message)]) from None
        except RevisionConflict:
            raise click.UsageError(
                "Somebody has changed the chat in this moment. Look at it, and try again."
            ) from None


@chat.command()
@click.argument("id_or_slug")
def delete(id_or_slug: str) -> None:
    """Take a chat away. Its workflow stays, and so does what its runs have left."""
    from app.web.chat_deployments import told_delete

    with open_store() as store:
        row = _known(store, id_or_slug)
        store.chats.delete(row.id, note=store.audit.note(CLI, told_delete(row)))


def _known(store: Store, name: str) -> ChatRow:
    """:raises click.UsageError: there is no such chat."""
    row = store.chats.get(name) or store.chats.by_slug(name)
    if row is None:
        raise click.UsageError(f"There is no chat '{name}'. See: studio chat list")
    return row


def _judge(store: Store) -> Deployments:
    from app.cli.workflows import Parts
    from app.engine.catalog import Catalog
    from app.web.chat_deployments import Deployments

    parts = Parts(store, load_plugins())
    return Deployments(parts, Catalog(parts), settings)


def _read(file: str | None) -> dict[str, t.Any]:
    return {} if file is None else read_document(file)


def _sent(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The members that options name."""
    from app.web.chat_deployments import WIRE

    return {
        WIRE[name]: list(value) if isinstance(value, tuple) else value
        for name, value in options.items()
        if value is not None and value != ()
    }


def _password(file: str | None) -> str:
    if file == "-":
        raise click.UsageError(
            "Standard input is the file: put the password there, or give FILE by its name."
        )
    if sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().rstrip("\r\n")
