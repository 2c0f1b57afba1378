"""A case, played: run on a surface, looked at by every reader.

Law of this room: as of :mod:`tests.leaks.asker`. Which surface, which readers and in which way is drawn by the case's
number, a few of them each time, so that a case is quick and all are looked at by many.
"""

from __future__ import annotations

import re
import typing as t
from urllib.parse import quote

from tests.leaks import refusals
from tests.leaks.asker import Asker
from tests.leaks.cases import Case
from tests.leaks.table import MAY
from tests.leaks.told import Played, Told
from tests.leaks.world import DOCUMENTS, KEPT, World

NEGOTIATE = {"X-Studio-Stream-Protocol": "agent-events-v1"}
SSE = {"Accept": "text/event-stream"}
JSON = {"Accept": "application/json"}
LEVELS = ("full", "messages", "minimal")
PROTOCOLS = ("agent-events-v1", "agent-text", "runs", "graph")
STOP = "/api/runs/%s/cancel"


def play(world: World, case: Case) -> Played:
    """Play a case to its end."""
    player = Player(world, case)
    player.play()
    return player.played


class Player(Asker):
    """Plays one case."""

    how: tuple[str, dict[str, str]] = "live", NEGOTIATE

    def play(self) -> None:
        """All of it."""
        world = self.world
        content = self.chance.random() < 0.5
        world.begin(content)
        scripts = self.deploy()
        try:
            self.hide()
            (self._visit if self.visits else self._call)()
            refusals.refused(self)
            if self.chance.random() < 0.1:
                refusals.opened(self)
            world.idle()
            self._operators(content)
        finally:
            for name in scripts:
                (world.folder() / f"{name}.yaml").unlink()

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
            self._decide(run, reader)
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
        self.also = also
        answer = self.ask(reader, how, "POST", path, body, key=key, headers=headers, also=also, stop=STOP)
        return t.cast("str | None", answer.headers.get("X-Run-Id"))

    def _runs(self, reader: str) -> str | None:
        key = "run" if reader == "own" else None
        thinks = key is not None and self.chance.random() < 0.5
        self.also = "t" if thinks else ""
        body = {"message": self.message, "events": self.chance.choice(LEVELS), "includeThinking": thinks}
        path = f"/api/workflows/{self.workflow}/runs"
        answer = self.ask(reader, "runs", "POST", path, body, key=key, also="t" if thinks else "", stop=STOP)
        return t.cast("str | None", answer.headers.get("X-Run-Id"))

    def _chat(self, reader: str) -> str | None:
        key = "run" if reader == "own" else None
        headers = SSE if self.case.stalls else self.chance.choice([SSE, JSON])
        body = {"messages": [{"role": "user", "content": self.message}], "workflow": self.workflow}
        answer = self.ask(reader, "graph", "POST", "/chat", body, key=key, headers=headers, stop=STOP)
        found = re.search(r'"thread_id":"(thr_[0-9a-z]+)"', answer.get_data(as_text=True))
        self.thread = found[1] if found else ""
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
        self.ask("admin", "builder", "GET", f"/api/runs/{run}/events?protocol=builder", key="admin")
        self._kept(again=True)  # while it waits, what it goes on with is there

    def _decide(self, run: str, reader: str = "") -> None:
        """Somebody answers: by the page behind a link, with a key, or, whose run it is, by going on with it."""
        found = self.world.studio.get(f"/api/decisions?runId={run}&status=open", "read").get_json()
        if not found["items"]:
            return
        decision = found["items"][0]["id"]
        body = {"decision": self.chance.choice(["approve", "reject"])}
        how = self.chance.choice(["link", "key", *(["resume"] if reader == "own" or self.thread else [])])
        if how == "link":
            sent = {"X-API-Key": self.world.studio.keys["admin"]}
            link = self.anybody.post(f"/api/decisions/{decision}/link", json={}, headers=sent)
            path = "/decide/" + link.get_json()["url"].rpartition("/")[2]
            self.ask("link", "decide", "GET", path)
            form = self.anybody.post(path, data=body)
            self.played.told.append(Told("link", "decide", form.get_data(as_text=True)))
        elif how == "key":
            self.ask("read", "decisions", "POST", f"/api/decisions/{decision}", body, key="admin")
        elif self.thread and (reader != "own" or self.chance.random() < 0.5):
            given = {**body, "thread_id": self.thread, "pause_id": decision}
            headers = self.chance.choice([SSE, JSON])
            key = "run" if reader == "own" else None
            self.ask(reader, "graph", "POST", "/chat/resume", given, key=key, headers=headers)
        else:
            given = {**body, "pauseId": decision}
            self.ask(reader, "runs", "POST", f"/api/runs/{run}/resume", given, key="run", also=self.also)
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
        self._kept()
        if self.chance.random() < 0.1:
            self.ask("operator", "metrics", "GET", "/metrics", key="read")

    def _kept(self, again: bool = False) -> None:
        """What is in the database."""
        for name, rows in self.world.rows(again).items():
            if name in DOCUMENTS:
                told = Told("read", "document", rows, documents=True)
            elif name == "durable_runs":
                told = Told("operator", "kept rows", rows, MAY["read", "document"], documents=True)
            else:
                told = Told("operator", "kept rows" if name in KEPT else "rows", rows)
            self.played.told.append(told)
