"""A case, played: deployed, run on a surface, looked at by every reader.

Law of this room: nothing is judged here. Everything that was told is handed out with who was told and where.
"""

from __future__ import annotations

import random
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

import gevent
import yaml
from flask.testing import FlaskClient

from tests.leaks import refusals
from tests.leaks.cases import HOST, Case
from tests.leaks.marks import everywhere
from tests.leaks.personal import personal
from tests.leaks.table import MAY
from tests.leaks.world import DOCUMENTS, KEPT, World

NEGOTIATE = {"X-Studio-Stream-Protocol": "agent-events-v1"}
SSE = {"Accept": "text/event-stream"}
JSON = {"Accept": "application/json"}
LEVELS = ("full", "messages", "minimal")
STOP = "/api/runs/%s/cancel"
PROTOCOLS = ("agent-events-v1", "agent-text", "runs", "graph")


@dataclass(frozen=True)
class Told:
    """Something that was told. ``documents``: it holds workflows as they were written."""

    reader: str
    where: str
    text: str
    also: str = ""
    documents: bool = False

    @property
    def may(self) -> str:
        """The classes that may be in it."""
        return MAY[self.reader, self.where] + self.also


@dataclass
class Played:
    """What came of a case: all that was told, and the personal data that may not be in it."""

    told: list[Told] = field(default_factory=list)
    hidden: tuple[str, ...] = ()
    statuses: list[tuple[str, str, int]] = field(default_factory=list)


def play(world: World, case: Case) -> Played:
    """Play a case to its end."""
    player = Player(world, case)
    player.play()
    return player.played


class Player:
    """Plays one case; ``chance`` makes the choices that are left."""

    def __init__(self, world: World, case: Case) -> None:
        self.world, self.case = world, case
        self.chance = random.Random(case.plan)
        self.played = Played()
        self.anybody: FlaskClient = world.studio.app.test_client(use_cookies=False)
        self.visitor: FlaskClient = world.studio.app.test_client()
        self.visits = self.chance.random() < 0.5
        self.how: tuple[str, dict[str, str]] = "live", NEGOTIATE
        self.also = ""
        self.stranger = world.studio.keys.get("stranger") or self._stranger()

    def _stranger(self) -> str:
        made = self.world.studio.store.keys.create("stranger", frozenset({"run"}))[1]
        self.world.studio.keys["stranger"] = made
        return made

    # -- the case ------------------------------------------------------------------------------

    def play(self) -> None:
        world = self.world
        content = self.chance.random() < 0.5
        world.begin(content)
        scripts = self._deploy()
        try:
            self._hidden()
            (self._visit if self.visits else self._call)()
            refusals.refused(self)
            if self.chance.random() < 0.1:
                refusals.opened(self)
            world.idle()
            self._operators(content)
        finally:
            for name in scripts:
                (world.folder() / f"{name}.yaml").unlink()

    def _fill(self, value: t.Any) -> t.Any:
        return everywhere(value, self.world.serial, self.world.secrets)

    def _hidden(self) -> None:
        names = list(self.case.hidden) + (self.case.chat["hidden"] if self.visits else [])
        found = []
        for name in dict.fromkeys(names):
            kind, _, number = name.strip("%").removeprefix("P").partition(":")
            found.append(personal(kind, self.world.serial, int(number)))
        self.played.hidden = tuple(found)

    def _deploy(self) -> list[str]:
        case, studio = self.case, self.world.studio
        scripts = self._fill(case.scripts)
        for name, script in scripts.items():
            (self.world.folder() / f"{name}.yaml").write_text(yaml.safe_dump(script))
        child = ""
        if case.child is not None:
            child = studio.deploy(self._placed(case.child, child))
        self.document = self._placed(case.document, child)
        self.workflow = studio.deploy(self.document)
        self.slug = f"chat-{self.world.serial}"
        row = {name: value for name, value in case.chat.items() if name != "hidden"}
        studio.store.chats.create({"workflow_id": self.workflow, "slug": self.slug, "title": "So", **row})
        self.message = self._fill(case.message)
        self.conversation = self._fill(case.conversation)
        return list(scripts)

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
    ) -> t.Any:
        """One request and its answer, to the end; both head and body are told.

        :param stop: where the run is stopped if it never ends, with ``%s`` for its id.
        """
        client = self.visitor if reader == "visitor" else self.anybody
        sent = dict(headers or {})
        if key is not None:
            sent["X-API-Key"] = self.world.studio.keys.get(key, key)
        raw = {"json": body}
        if isinstance(body, str):
            raw = {"data": body.encode(), "content_type": "application/json"}
        answer = client.open(path, method=method, headers=sent, **t.cast(t.Any, raw))
        if stop and self.case.stalls and "X-Run-Id" in answer.headers:
            self._stop(client, stop % answer.headers["X-Run-Id"], sent.get("X-API-Key"))
        text = answer.get_data(as_text=True)
        self.played.statuses.append((reader, where, answer.status_code))
        self.played.told.append(Told(reader, where, text, also))
        head = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
        self.played.told.append(Told("nobody", "open", head))
        return answer

    def _stop(self, client: FlaskClient, path: str, key: str | None) -> None:
        """Stop a run that may not end, once it has come as far as it does."""
        run = path.split("/")[-2]
        found = self._silent(run)
        if found is None:
            return
        if self.chance.random() < 0.5:
            self.ask("read", "record", "GET", f"/api/runs/{run}", key="read")
        headers = {} if key is None else {"X-API-Key": key}
        if client.post(path, json={}, headers=headers).status_code != 202:
            found.scope.cancel("stop_requested")

    def _silent(self, run: str) -> t.Any:
        """The run, once it has said all that it says; None: it has ended."""
        found, last = self.world.services.runs.get(run), -1
        while found is not None and found.log.last != last:
            last = found.log.last
            gevent.sleep(0.02)
            found = self.world.services.runs.get(run)
        return found

    # -- a visitor -----------------------------------------------------------------------------

    def _visit(self) -> None:
        base = f"/api/chat/{self.slug}"
        how = self.chance.choice(["live", "live", "text", "json"])
        if self.case.stalls and how == "json":
            how = "live"
        self.how = how, {"live": NEGOTIATE, "text": {}, "json": JSON}[how]
        self.also = "t" if self.case.chat["include_thinking"] else ""
        body: dict[str, t.Any] = {"input": self.message}
        if self.chance.random() < 0.5:
            body["conversationId"] = self.conversation
        run = self._say("POST", base, body)
        if run is None:
            return
        self._look_as_visitor(run)
        for _ in range(2):
            asked = self._asked(run)
            if not asked:
                break
            self._decisions(run, "read")
            mine = [pause for pause in asked if pause["yours"]]
            if mine:
                given = {"decision": self.chance.choice(["approve", "reject"]), "pauseId": mine[0]["pauseId"]}
                self._say("POST", f"{base}/runs/{run}/resume", given)
            else:
                self._decide(run)
            self._look_as_visitor(run)
        self._look_with_keys(run)

    def _say(self, method: str, path: str, body: dict[str, t.Any]) -> str | None:
        """What a visitor says, and the answer; of a run that never ends as much as there is."""
        how, headers = self.how
        stop = f"/api/chat/{self.slug}/runs/%s/cancel"
        also = self.also if how == "live" else ""
        answer = self.ask("visitor", how, method, path, body, headers=headers, also=also, stop=stop)
        if "conversationId" not in body and "X-Conversation-Id" in answer.headers:
            self.conversation = answer.headers["X-Conversation-Id"]
        return t.cast("str | None", answer.headers.get("X-Run-Id"))

    def _asked(self, run: str) -> t.Any:
        shown = self.visitor.get(f"/api/chat/{self.slug}/runs/{run}")
        return shown.get_json().get("pauses", ()) if shown.status_code == 200 else ()

    def _look_as_visitor(self, run: str) -> None:
        base = f"/api/chat/{self.slug}"
        self.ask("visitor", "run", "GET", f"{base}/runs/{run}")
        if self.chance.random() < 0.5:
            self.ask("visitor", "live", "GET", f"{base}/runs/{run}/events", also=self.also)
        else:
            self.ask("visitor", "text", "GET", f"{base}/runs/{run}/events?protocol=agent-text")
        self.ask("visitor", "conversation", "GET", f"{base}/conversations/{quote(self.conversation)}")
        if self.chance.random() < 0.3:
            self.ask("visitor", "page", "GET", self.chance.choice([base, f"/chat/{self.slug}"]))
            path = self.chance.choice(["", "/events", "/cancel", "/resume"])
            method = "POST" if path in ("/cancel", "/resume") else "GET"
            given = {"decision": "approve"} if path == "/resume" else {} if method == "POST" else None
            self.ask("other visitor", "any", method, f"{base}/runs/{run}{path}", given)

    # -- callers of the API --------------------------------------------------------------------

    def _call(self) -> None:
        public = self.case.document["settings"]["public"]
        reader = self.chance.choice(["own", "nobody", "nobody"]) if public else "own"
        if reader == "own" and self.chance.random() < 0.2:
            reader, run = "admin", self._draft()
        else:
            run = self.chance.choice([self._execute, self._runs, self._chat])(reader)
        if run is None:
            return
        for _ in range(2):
            self.world.idle()
            if self.world.studio.store.runs.status(run) != "paused":
                break
            self._decisions(run, "own" if reader == "own" else "read")
            self._decide(run)
        if reader == "own":
            self._look_as_owner(run)
        self._look_with_keys(run)

    def _execute(self, reader: str) -> str | None:
        key = "run" if reader == "own" else None
        path = f"/api/workflows/{self.workflow}/execute"
        how = self.chance.choice(["live", "text", "json", *(["async"] if key else [])])
        body: dict[str, t.Any] = {"input": self.chance.choice([self.message, {"message": self.message}])}
        if self.chance.random() < 0.3:
            body["conversationId"] = self.conversation
        if self.chance.random() < 0.3:
            block = self.chance.choice(self.document["blocks"][1:])["id"]
            body["selectedOutputs"] = [block] if self.chance.random() < 0.5 else []
        if how == "async" or (self.case.stalls and how == "json" and key):
            answer = self.ask(reader, "json", "POST", path, {**body, "async": True}, key=key)
            run = t.cast("str | None", answer.get_json().get("runId"))
            if run and self.case.stalls:
                self._stop(self.anybody, f"/api/runs/{run}/cancel", key and self.world.studio.keys[key])
            return run
        if self.case.stalls:
            how = "live"
        flags = {
            "includeThinking": self.chance.random() < 0.5,
            "includeToolCalls": self.chance.random() < 0.5,
        }
        if how == "live":
            body |= {"stream": True, **flags}
        elif how == "text":
            body |= {"stream": True}
        headers = NEGOTIATE if how == "live" else {}
        also = "t" if how == "live" and flags["includeThinking"] else ""
        answer = self.ask(reader, how, "POST", path, body, key=key, headers=headers, also=also, stop=STOP)
        return t.cast("str | None", answer.headers.get("X-Run-Id"))

    def _runs(self, reader: str) -> str | None:
        key = "run" if reader == "own" else None
        thinks = key is not None and self.chance.random() < 0.5
        body = {"message": self.message, "events": self.chance.choice(LEVELS), "includeThinking": thinks}
        path = f"/api/workflows/{self.workflow}/runs"
        answer = self.ask(reader, "runs", "POST", path, body, key=key, also="t" if thinks else "", stop=STOP)
        return t.cast("str | None", answer.headers.get("X-Run-Id"))

    def _chat(self, reader: str) -> str | None:
        key = "run" if reader == "own" else None
        headers = SSE if self.case.stalls else self.chance.choice([SSE, JSON])
        body = {"messages": [{"role": "user", "content": self.message}], "workflow": self.workflow}
        answer = self.ask(reader, "graph", "POST", "/chat", body, key=key, headers=headers, stop=STOP)
        self.ask(reader, "topology", "GET", f"/graph/topology?workflow={self.workflow}", key=key)
        run = answer.headers.get("X-Run-Id")
        if run is None and answer.status_code == 200:
            run = answer.get_json()["run_id"]
        return t.cast("str | None", run)

    def _draft(self) -> str | None:
        path = f"/api/workflows/{self.workflow}/draft/run"
        answer = self.ask("admin", "builder", "POST", path, {"input": self.message}, key="admin", stop=STOP)
        return t.cast("str | None", answer.headers.get("X-Run-Id"))

    # -- what people are asked -----------------------------------------------------------------

    def _decisions(self, run: str, reader: str) -> None:
        key = {"own": "run"}.get(reader, reader)
        self.ask(reader, "decisions", "GET", f"/api/decisions?runId={run}", key=key)
        self.ask("stranger", "any", "GET", f"/api/decisions?runId={run}", key=self.stranger)
        self.ask("admin", "builder", "GET", f"/api/runs/{run}/events?protocol=builder", key="admin", also="")

    def _decide(self, run: str) -> None:
        """Somebody answers, by the page behind a link or with a key."""
        found = self.world.studio.get(f"/api/decisions?runId={run}&status=open", "read").get_json()
        if not found["items"]:
            return
        decision = found["items"][0]["id"]
        answer = self.chance.choice(["approve", "reject"])
        if self.chance.random() < 0.5:
            link = self.anybody.post(
                f"/api/decisions/{decision}/link",
                json={},
                headers={"X-API-Key": self.world.studio.keys["admin"]},
            ).get_json()
            path = "/decide/" + link["url"].rpartition("/")[2]
            self.ask("link", "decide", "GET", path)
            form = self.anybody.post(path, data={"decision": answer})
            self.played.told.append(Told("link", "decide", form.get_data(as_text=True)))
        else:
            body = {"decision": answer}
            self.ask("read", "decisions", "POST", f"/api/decisions/{decision}", body, key="admin")
        self.world.idle()

    # -- afterwards ----------------------------------------------------------------------------

    def _attach(self, reader: str, run: str, key: str) -> None:
        protocol = self.chance.choice(PROTOCOLS)
        query, also = f"protocol={protocol}", ""
        if protocol == "agent-events-v1" and self.chance.random() < 0.5:
            query, also = query + "&includeThinking=true&includeToolCalls=true", "t"
        if protocol == "runs":
            thinks = self.chance.random() < 0.5
            query += f"&events={self.chance.choice(LEVELS)}&includeThinking={str(thinks).lower()}"
            also = "t" if thinks else ""
        where = {"agent-events-v1": "live", "agent-text": "text"}.get(protocol, protocol)
        self.ask(reader, where, "GET", f"/api/runs/{run}/events?{query}", key=key, also=also)

    def _look_as_owner(self, run: str) -> None:
        record = self.ask("own", "record", "GET", f"/api/runs/{run}", key="run")
        self._attach("own", run, "run")
        thread = (record.get_json() or {}).get("threadId")
        if thread:
            self.ask("own", "memory", "GET", f"/api/threads/{thread}/memory", key="run")
        self.ask("own", "list", "GET", "/api/runs?limit=2", key="run")

    def _look_with_keys(self, run: str) -> None:
        """Somebody whose run it is not, and those who may read all."""
        more = self.chance.choice([f"/{run}", f"/{run}/events?protocol=runs", f"/{run}/values/x", ""])
        self.ask("stranger", "any", "GET", f"/api/runs{more}", key=self.stranger)
        record = self.ask("read", "record", "GET", f"/api/runs/{run}", key="read")
        if self.chance.random() < 0.4:
            self._attach("read", run, "read")
        if self.chance.random() < 0.4:
            query = "protocol=builder" + self.chance.choice(["", "&replay=durable"])
            self.ask("admin", "builder", "GET", f"/api/runs/{run}/events?{query}", key="admin")
        thread = (record.get_json() or {}).get("threadId")
        if thread and self.chance.random() < 0.4:
            self.ask("read", "memory", "GET", f"/api/threads/{thread}/memory", key="read")
            self.ask("stranger", "any", "GET", f"/api/threads/{thread}", key=self.stranger)

    def _operators(self, content: bool) -> None:
        world, told = self.world, self.played.told
        told.append(Told("operator", "log", world.log.getvalue()))
        spans = "\n".join(span.to_json(indent=None) for span in world.spans.get_finished_spans())
        told.append(Told("operator", "spans with content" if content else "spans", spans))
        for name, rows in world.rows().items():
            if name in DOCUMENTS:
                told.append(Told("read", "document", rows, documents=True))
            elif name == "durable_runs":
                told.append(Told("operator", "kept rows", rows, "nmpdcarqwezxi", documents=True))
            else:
                told.append(Told("operator", "kept rows" if name in KEPT else "rows", rows))
        if self.chance.random() < 0.1:
            self.ask("operator", "metrics", "GET", "/metrics", key="read")
