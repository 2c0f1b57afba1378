"""``studio decisions list | show | approve | reject``: what runs ask people, and answers to it.

Law of this room: at STUDIO_URL with the key STUDIO_API_KEY when that is set, else on the store under STUDIO_DATA_DIR.
There, a server that runs on the same data goes on with a run that was answered; where none does, this process does.
"""

from __future__ import annotations

import typing as t

import click

from app import encoding
from app.cli import deciding
from app.cli.context import open_store, settings, table
from app.cli.remote import Server
from app.errors import ApiError
from app.schemas.answers import STATUSES, AnswerBody, load_answer

_PAGE = 100


@click.group()
def decisions() -> None:
    """See and answer what runs ask people.

    They are those of the server at STUDIO_URL (with the key STUDIO_API_KEY), or without it those under STUDIO_DATA_DIR.
    """


@decisions.command(name="list")
@click.option("--status", default="open", show_default=True, type=click.Choice((*STATUSES, "all")))
@click.option("--run", "run_id", help="Only those of this run.")
def list_(status: str, run_id: str | None) -> None:
    """List decisions, newest first (at most 100)."""
    rows = [
        (
            found["id"],
            found["status"],
            found["review"].get("tool") or found["review"]["kind"],
            found["blockId"],
            found["runId"],
            found["createdAt"],
            found.get("expiresAt"),
        )
        for found in _list(None if status == "all" else status, run_id)
    ]
    table(rows, ("ID", "STATUS", "ABOUT", "BLOCK", "RUN", "ASKED", "UNTIL"))


@decisions.command()
@click.argument("decision_id")
@click.option("--json", "as_json", is_flag=True, help="Print it as the API says it.")
def show(decision_id: str, as_json: bool) -> None:
    """Show one decision, and how it was answered."""
    found = _get(decision_id)
    if as_json:
        click.echo(encoding.dumps(found).decode())
        return
    click.echo(deciding.words(found))
    if "answer" in found:
        said = encoding.dumps(found["answer"]).decode()
        click.echo(f"answered by {found['answeredBy']} at {found['answeredAt']}: {said}")
    elif found["status"] != "open":
        click.echo(found["status"])


@decisions.command()
@click.argument("decision_id")
@click.option("--text", help="Release this text instead.")
@click.option("--arguments", help="Make the call with these arguments instead, a JSON object.")
@click.option("--reason", help="Why, for the record.")
@click.option("--remember", is_flag=True, help="Approve this tool for the rest of the conversation.")
def approve(
    decision_id: str, text: str | None, arguments: str | None, reason: str | None, remember: bool
) -> int:
    """Approve it, as it is or changed."""
    answer: dict[str, t.Any] = {"decision": "approve" if text is None and arguments is None else "edit"}
    if text is not None:
        answer["text"] = text
    if arguments is not None:
        try:
            answer["arguments"] = encoding.loads(arguments)
        except ValueError as error:
            raise click.BadParameter(f"not JSON: {error}", param_hint="--arguments") from None
    if reason is not None:
        answer["reason"] = reason
    if remember:
        answer["remember"] = True
    return _answer(decision_id, answer)


@decisions.command()
@click.argument("decision_id")
@click.option("--reason", help="Why; of a call, the model is told.")
def reject(decision_id: str, reason: str | None) -> int:
    """Reject it."""
    return _answer(decision_id, {"decision": "reject", **({} if reason is None else {"reason": reason})})


def _list(status: str | None, run_id: str | None) -> list[dict[str, t.Any]]:
    server = Server.named()
    if server is not None:
        from urllib.parse import urlencode

        asked = {"status": status, "runId": run_id, "limit": _PAGE}
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        return t.cast("list[dict[str, t.Any]]", server.ask("GET", f"/api/decisions?{query}")["items"])
    from app.store.decisions import DecisionFilter
    from app.web import answers

    with open_store() as store:
        rows, _ = store.decisions.list(DecisionFilter(state=status, run_id=run_id), None, _PAGE)
        return [answers.body_of(row) for row in rows]


def _get(decision_id: str) -> dict[str, t.Any]:
    server = Server.named()
    if server is not None:
        from urllib.parse import quote

        path = f"/api/decisions/{quote(decision_id, safe='')}"
        return t.cast("dict[str, t.Any]", server.ask("GET", path))
    from app.web import answers

    with open_store() as store:
        row = store.decisions.get(decision_id)
        if row is None:
            raise _unknown(decision_id)
        return answers.body_of(row)


def _answer(decision_id: str, answer: dict[str, t.Any]) -> int:
    server = Server.named()
    if server is not None:
        from urllib.parse import quote

        server.ask("POST", f"/api/decisions/{quote(decision_id, safe='')}", answer)
        click.echo("Answered; the run goes on at the server.", err=True)
        return 0
    from app.web import peers

    run_id = _answer_here(decision_id, answer)
    if peers.anybody(settings().data_dir):
        click.echo("Answered; the server goes on with the run.", err=True)
        return 0
    from app.cli.run import go_on_here

    return go_on_here(run_id)


def _answer_here(decision_id: str, answer: dict[str, t.Any]) -> str:
    """:returns: the id of the run."""
    from app.cli.sources import BY
    from app.web import answers

    body = load_answer(AnswerBody, answer)
    with open_store() as store:
        row = store.decisions.get(decision_id)
        if row is None:
            raise _unknown(decision_id)
        row = answers.open_decision(store, row.run_id, row.id)
        answers.check(row, body)
        return answers.give(store, row, body, BY).run_id


def _unknown(decision_id: str) -> ApiError:
    message = f"There is no decision '{decision_id[:100]}'. See: studio decisions list"
    return ApiError(404, "not_found", message)
