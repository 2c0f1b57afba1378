"""One case in a world: deployed, asked, stopped where it would never end.

Law of this room: nothing is judged here. Everything that was told is handed out with who was told and where.
"""

from __future__ import annotations

import random
import typing as t
from collections.abc import Callable, Mapping

import gevent
import yaml
from flask.testing import FlaskClient

from app.web import passwords
from tests.leaks.author import HOST
from tests.leaks.cases import Case
from tests.leaks.marks import everywhere, made
from tests.leaks.personal import personal
from tests.leaks.told import Played, Told
from tests.leaks.world import World

#: Types of blocks that tell more in the stream of runs than anywhere else.
TOGETHER = frozenset({"router", "debate", "sequential", "vote"})
_SAME = "Idempotency-Key"
_CREDENTIALS = ("X-API-Key", "Origin", "X-Studio-Visitor")
#: Headers by which an answer says who somebody is.
_TOKENS = ("Set-Cookie", "X-Studio-Visitor")


class Asker:
    """See the module. ``chance`` makes the choices that a case leaves.

    :ivar visits: a visitor of the chat asks, else somebody at the API. :ivar also: what its runs show beside the table.
    :ivar asks_together: the stream of runs tells of it what no other one does. :ivar embedded: the chat is on a page of
        another origin, which keeps the visitor's token itself.
    """

    def __init__(self, world: World, case: Case) -> None:
        self.world, self.case = world, case
        self.chance = random.Random(case.plan)
        self.played = Played()
        self.anybody: FlaskClient = world.studio.app.test_client(use_cookies=False)
        self.visitor: FlaskClient = world.studio.app.test_client()
        kinds = {block["type"] for block in case.document["blocks"]}
        self.asks_together = bool(kinds & TOGETHER)
        self.visits = self.chance.random() < (0.3 if self.asks_together else 0.5)
        self.embedded = self.visits and self.chance.random() < 0.2
        self.token: str | None = "" if self.embedded else None
        self.thread = ""
        self.also = ""
        self.stranger = world.studio.keys.get("stranger") or self._stranger()

    def _stranger(self) -> str:
        made = self.world.studio.store.keys.create("stranger", frozenset({"run"}))[1]
        self.world.studio.keys["stranger"] = made
        return made

    # -- deploying -----------------------------------------------------------------------------

    def _fill(self, value: t.Any) -> t.Any:
        return everywhere(value, self.world.serial, self.world.secrets)

    def hide(self) -> None:
        names = list(self.case.hidden) + (self.case.chat["hidden"] if self.visits else [])
        found = []
        for name in dict.fromkeys(names):
            kind, _, number = name.strip("%").removeprefix("P").partition(":")
            found.append(personal(kind, self.world.serial, int(number)))
        self.played.hidden = tuple(found)

    def deploy(self) -> list[str]:
        case, studio = self.case, self.world.studio
        scripts = self._fill(case.scripts)
        for name, script in scripts.items():
            (self.world.folder() / f"{name}.yaml").write_text(yaml.safe_dump(script))
        child = ""
        if case.child is not None:
            child = studio.deploy(self._placed(case.child, child))
        self.document = self._placed(case.document, child)
        self.workflow = studio.deploy(self.document)
        self._open_chat()
        self.files = [(self._fill(name), self._fill(text)) for name, text in case.files]
        self.message = self._fill(case.message)
        self.conversation = self._fill(case.conversation)
        return list(scripts)

    def _open_chat(self) -> None:
        """Deploy the chat: with a gate that is set up here, through the API, where what is sent is a secret."""
        case, number = self.case, self.world.count
        self.slug = f"chat-{number}"
        self.password = made("s", self.world.serial, 97)
        self.email = f"{made('u', self.world.serial, 96).lower()}@example.org"
        row: dict[str, t.Any] = {"workflow_id": self.workflow, "slug": self.slug, "title": "So"}
        row |= {"description": self._fill("%%h1%%"), "welcome_message": self._fill("%%h2%%")}
        row |= {name: value for name, value in case.chat.items() if name != "hidden"}
        agents = [block["id"] for block in case.document["blocks"] if block["type"] == "agent"]
        if agents and self.chance.random() < 0.3:
            member = self.chance.choice(["content", "toolCalls", "providerTiming"])
            row["outputs"] = [f"{self.chance.choice(agents)}.{member}"]
        row["auth_type"] = case.gate
        shown = {"password": self.password} if case.gate == "password" else {}
        row |= {"allowed_emails": [self.email]} if case.gate == "email" else {}
        if case.gate in ("password", "email"):
            body = {_wire(name): value for name, value in row.items()}
            made_one = self.ask("admin", "chat", "POST", "/api/chats", {**body, **shown}, key="admin")
            if made_one.status_code == 201:
                return
        # What nobody answers in would be refused; so is what providers of sign-in are not set for.
        row |= {"password": passwords.hashed(self.password)} if shown else {}
        self.world.studio.store.chats.create(row)

    def _placed(self, document: dict[str, t.Any], child: str) -> dict[str, t.Any]:
        filled = self._fill(document)

        def place(value: t.Any) -> t.Any:
            if isinstance(value, str):
                return value.replace(HOST, self.world.host).replace("%%CHILD%%", child)
            if isinstance(value, dict):
                return {name: place(item) for name, item in value.items()}
            return [place(item) for item in value] if isinstance(value, list) else value

        return t.cast("dict[str, t.Any]", place(filled))

    # -- asking --------------------------------------------------------------------------------

    def ask(
        self,
        reader: str,
        where: str,
        method: str,
        path: str,
        body: t.Any = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        also: str = "",
        stop: str = "",
        documents: bool = False,
        again: bool = False,
    ) -> t.Any:
        """One request and its answer, to the end; both head and body are told.

        :param stop: where the run is stopped if it never ends, with ``%s`` for its id.
        :param documents: the answer holds workflows as they were written.
        :param again: it begins a run; at times it is sent again, as if its answer had been lost.
        """
        client = self.visitor if reader == "visitor" else self.anybody
        sent = dict(headers or {})
        again = again and self.chance.random() < 0.2
        if again:
            sent[_SAME] = made("k", self.world.serial, 95)
        if key is not None:
            sent["X-API-Key"] = self.world.studio.keys.get(key, key)
        if reader == "visitor":
            sent |= self.pass_()
        raw = {"json": body}
        if isinstance(body, str):
            raw = {"data": body.encode(), "content_type": "application/json"}
        elif isinstance(body, bytes):
            raw = {"data": body, "content_type": "text/plain"}
        answer = client.open(path, method=method, headers=sent, **t.cast(t.Any, raw))
        if stop and self.case.stalls and "X-Run-Id" in answer.headers:
            self._stop(client, stop % answer.headers["X-Run-Id"], sent)
        text = answer.get_data(as_text=True)
        self.played.statuses.append((reader, where, answer.status_code))
        self.played.told.append(Told(reader, where, text, also, documents))
        self._take_head(reader, where, answer.headers)
        if again:
            self.ask(
                reader,
                where,
                method,
                path,
                body,
                key=key,
                headers={**(headers or {}), _SAME: sent[_SAME]},
                also=also,
            )
        return answer

    def pass_(self) -> dict[str, str]:
        """What a visitor's requests say of who he is, beside cookies."""
        if self.token is None:
            return {}
        return {"Origin": "https://page.example", "X-Studio-Visitor": self.token}

    def _take_head(self, reader: str, where: str, headers: t.Any) -> None:
        tokens = {name: headers[name] for name in _TOKENS if name in headers}
        rest = "\n".join(f"{name}: {value}" for name, value in headers.items() if name not in tokens)
        named = where == "files"  # a download says what it is called
        self.played.told.append(Told(reader, where, rest) if named else Told("nobody", "open", rest))
        if tokens:
            where = "token" if reader == "visitor" else "any"
            reader = reader if reader == "visitor" else "other visitor"
            self.played.told.append(Told(reader, where, "\n".join(tokens.values())))
        if self.token is not None and "X-Studio-Visitor" in tokens and reader == "visitor":
            self.token = tokens["X-Studio-Visitor"]

    def _stop(self, client: FlaskClient, path: str, headers: Mapping[str, str]) -> None:
        """Stop a run that may not end, once it has come as far as it does."""
        run = path.split("/")[-2]
        found = self._silent(run)
        if found is None:
            return
        if self.chance.random() < 0.5:
            self.ask("read", "record", "GET", f"/api/runs/{run}", key="read")
        open_ones = [self._follow("read", run, "read")]
        if client is self.visitor:
            open_ones.append(self._follow("visitor", run, None))
        headers = {name: headers[name] for name in _CREDENTIALS if name in headers}
        if client.post(path, json={}, headers=headers).status_code != 202:
            found.scope.cancel("stop_requested")
        self.played.told += [ended() for ended in open_ones]

    def _follow(self, reader: str, run: str, key: str | None) -> Callable[[], Told]:
        """Open a stream in the middle of a run; what is to be called once it has ended."""
        query, where, also = (
            "protocol=agent-events-v1&includeThinking=true&includeToolCalls=true",
            "live",
            "t",
        )
        if key is None:
            answer = self.visitor.get(f"/api/chat/{self.slug}/runs/{run}/events", headers=self.pass_())
            also = self.also
        else:
            if self.chance.random() < 0.5:
                query, where, also = "protocol=runs", "runs", ""
            headers = {"X-API-Key": self.world.studio.keys[key]}
            answer = self.anybody.get(f"/api/runs/{run}/events?{query}", headers=headers)
        return lambda: Told(reader, where, answer.get_data(as_text=True), also)

    def _silent(self, run: str) -> t.Any:
        """The run, once it has said all that it says; None: it has ended."""
        found, last = self.world.services.runs.get(run), -1
        while found is not None and found.log.last != last:
            last = found.log.last
            gevent.sleep(0.02)
            found = self.world.services.runs.get(run)
        return found


def _wire(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)
