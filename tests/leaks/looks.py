"""What others than its caller see of a run, and what is kept of it.

Law of this room: as of :mod:`tests.leaks.asker`.
"""

from __future__ import annotations

from tests.leaks.asker import Asker
from tests.leaks.table import MAY
from tests.leaks.told import Told
from tests.leaks.world import DOCUMENTS, ENTERING, KEPT

SSE = {"Accept": "text/event-stream"}
JSON = {"Accept": "application/json"}
LEVELS = ("full", "messages", "minimal")
PROTOCOLS = ("agent-events-v1", "agent-text", "runs", "graph")


class Looks(Asker):
    """See the module."""

    # -- what people are asked -----------------------------------------------------------------

    def decisions(self, run: str, reader: str) -> None:
        key = {"own": "run"}.get(reader, reader)
        self.ask(reader, "decisions", "GET", f"/api/decisions?runId={run}", key=key)
        self.ask("stranger", "any", "GET", f"/api/decisions?runId={run}", key=self.stranger)
        self.ask("admin", "builder", "GET", f"/api/runs/{run}/events?protocol=builder", key="admin")
        self.kept(again=True)  # while it waits, what it goes on with is there

    def decide(self, run: str, reader: str = "") -> None:
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

    def look_as_owner(self, run: str) -> None:
        record = self.ask("own", "record", "GET", f"/api/runs/{run}", key="run")
        self._attach("own", run, "run")
        thread = (record.get_json() or {}).get("threadId")
        if thread:
            self.ask("own", "memory", "GET", f"/api/threads/{thread}/memory", key="run")
        self.ask("own", "list", "GET", "/api/runs?limit=2", key="run")

    def look_with_keys(self, run: str) -> None:
        """Somebody whose run it is not, and those who may read all."""
        more = self.chance.choice([f"/{run}", f"/{run}/events?protocol=runs", f"/{run}/values/x", ""])
        self.ask("stranger", "any", "GET", f"/api/runs{more}", key=self.stranger)
        record = self.ask("read", "record", "GET", f"/api/runs/{run}", key="read")
        if self.chance.random() < 0.4:
            self._attach("read", run, "read")
        if self.chance.random() < 0.1:
            more = self.chance.choice(["", "/versions", "/versions/1", "/draft"])
            path = f"/api/workflows/{self.workflow}{more}"
            self.ask("read", "document", "GET", path, key="read", documents=True)
            self.ask("stranger", "any", "GET", path, key=self.stranger)
        if self.chance.random() < 0.4:
            query = "protocol=builder" + self.chance.choice(["", "&replay=durable"])
            self.ask("admin", "builder", "GET", f"/api/runs/{run}/events?{query}", key="admin")
        thread = (record.get_json() or {}).get("threadId")
        if thread and self.chance.random() < 0.4:
            self.ask("read", "memory", "GET", f"/api/threads/{thread}/memory", key="read")
            self.ask("stranger", "any", "GET", f"/api/threads/{thread}", key=self.stranger)

    def kept(self, again: bool = False) -> None:
        """What is in the database."""
        for name, rows in self.world.rows(again).items():
            if name in DOCUMENTS:
                told = Told("read", "document", rows, documents=True)
            elif name in ENTERING:
                told = Told("operator", ENTERING[name], rows)
            elif name == "durable_runs":
                told = Told("operator", "kept rows", rows, MAY["read", "document"], documents=True)
            else:
                told = Told("operator", "kept rows" if name in KEPT else "rows", rows)
            self.played.told.append(told)
