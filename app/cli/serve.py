"""``studio serve`` and ``studio migrate``.

Law of this room: everything that can be wrong is found before gunicorn starts; the process then
becomes gunicorn, so that signals and exit status are gunicorn's own. A key and a link that sets the owner's
password are printed once, at the moment they are made.
"""

from __future__ import annotations

import os
import socket
import sys
import typing as t

import click

from app import check_rooms, config
from app.cli.context import load_plugins, settings
from app.cli.owner import base, setup_link
from app.config.files import shipped
from app.errors import StudioError
from app.web.negotiation import HEADER_LINE

if t.TYPE_CHECKING:
    from app.config import Settings
    from app.store import Store

#: The examples a first start imports, by their fixed ids; files of ``examples/``.
EXAMPLES = ("hello-local", "tour")
#: Where the assistant that ships searches (``examples/assistant.yaml``).
COLLECTION = "handbook"


@click.command()
def serve() -> None:
    """Start the server; a first start makes an owner key, imports two examples and adds their documents."""
    _judge_names()
    check_rooms()
    chosen = settings()
    if chosen.mcp_servers:
        from app.builtins import mcp_servers

        mcp_servers(chosen)  # raises for what could not be used
    if chosen.redis_url is not None:
        from app.web import limits

        limits.check_package(chosen)  # raises when the package is not there
    if chosen.traces != "off":
        from app.engine.observe.observer import Observing

        Observing.check()  # raises for a variable that the SDK does not take
    port = _free_port(chosen.host, chosen.port)
    key, token = _prepare(chosen)
    _greet(chosen, port, key, token)
    sys.stdout.flush()
    os.environ["PORT"] = str(port)
    arguments = ["-m", "gunicorn", "--config", str(shipped("gunicorn.conf.py")), "wsgi:application"]
    os.execv(sys.executable, [sys.executable, *arguments])


@click.command()
def migrate() -> None:
    """Bring the database to the revision this version needs."""
    from app.store import Store

    _judge_names()
    store = Store(settings())
    store.migrate()
    click.echo("The database is ready.", err=True)


def _judge_names() -> None:
    """Warn of names that mean nothing.

    :raises ConfigError: a variable of a family has a value that cannot be.
    """
    if not config.unknown_names(os.environ):
        return  # the usual case does without loading anything
    from app.builtins import own_variables

    if not config.unknown_names(os.environ, own_variables()):
        return  # what else families read, only they know
    plugins = load_plugins()
    for name, near in config.unknown_names(os.environ, plugins.variables()):
        hint = f"; did you mean {near}?" if near else ""
        click.echo(f"warning: {name} is no setting of Studio{hint}", err=True)
    if malformed := plugins.malformed():
        raise config.ConfigError(
            config.SettingProblem(each.variable, os.environ.get(each.variable, ""), each.message)
            for each in malformed
        )


def _free_port(host: str, port: int) -> int:
    """``port``, or a free one for 0.

    :raises StudioError: somebody listens there already.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            cure = "Choose another with PORT (and STUDIO_HOST)."
            message = f"Cannot listen on {host}:{port}: {error.strerror}. {cure}"
            raise StudioError("address_unusable", message) from None
        return int(probe.getsockname()[1])


def _prepare(chosen: Settings) -> tuple[str | None, str | None]:
    """Migrate; on a first start make the owner key, import the examples and add documents.

    :returns: the owner key, and the token of the link that sets the owner's password, when they were just made.
    """
    from app.store import NotMigrated, Store

    store = Store(chosen)
    try:  # asked first: to look costs nothing, to load what migrates costs a quarter of the start
        store.check_revision()
    except NotMigrated:
        store.migrate()
    store.open()
    try:
        _import_examples(store)
        token = None if store.owner.get() else store.owner.new_link()[0]
        if store.keys.list():
            return None, token
        _add_documents(store)
        _, plaintext = store.keys.create("owner", frozenset({"admin"}))
        return str(plaintext), token
    finally:
        store.close()


def _import_examples(store: Store) -> None:
    """Import and deploy the examples that were never there; one that somebody has removed stays away."""
    known = store.workflows.examples()
    if known.issuperset(EXAMPLES):
        return
    from app.cli.context import read_document
    from app.engine.recompiled import compiled

    plugins = load_plugins()
    for name in EXAMPLES:
        if name in known or store.workflows.get(name) is not None:
            continue
        document = read_document(str(shipped(f"examples/{name}.yaml")))
        store.workflows.save(document, compiled(document, plugins).name, name)
        store.workflows.deploy(name)
    store.workflows.note_examples(known.union(EXAMPLES))


def _add_documents(store: Store) -> None:
    """What the assistant answers from, under the sources that `studio documents add` gives them in a checkout."""
    from app.agents.document_files import media_type, read
    from app.store.documents import Draft

    folder = "examples/documents"
    for file in sorted(shipped(folder).iterdir()):
        text, title, kind = read(file.read_bytes(), media_type(file.name))
        store.documents.put(COLLECTION, Draft(f"{folder}/{file.name}", text, title, kind))


def _greet(chosen: Settings, port: int, key: str | None, token: str | None) -> None:
    here = base(chosen.host, port)
    click.echo(f"Studio on {here}, data in {chosen.data_dir}")
    if token is not None:
        click.echo("\nSet your password for the web pages, within a day (this link works once):\n")
        click.echo(f"  {setup_link(chosen, port, token)}")
    if key is not None:
        click.echo("\nYour owner key, shown only now (it may do everything):\n")
        click.echo(f"  {key}\n")
    click.echo("\nWatch a model answer:\n" if key is None else "Watch a model answer:\n")
    click.echo(f"  {curl_line(here, 'hello-local', key or '$STUDIO_API_KEY')}\n")


def curl_line(base: str, workflow_id: str, key: str) -> str:
    """One line that can be pasted into a shell and streams an answer."""
    return (
        f'curl -N {base}/api/workflows/{workflow_id}/execute -H "X-API-Key: {key}" '
        f'-H "Content-Type: application/json" -H "{HEADER_LINE}" '
        """-d '{"stream": true, "input": "Tell me about the sea."}'"""
    )
