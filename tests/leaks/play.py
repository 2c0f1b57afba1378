"""A case, played: run on a surface, looked at by every reader.

Law of this room: as of :mod:`tests.leaks.asker`. Which surface, which readers and in which way is drawn by the case's
number, a few of them each time, so that a case is quick and all are looked at by many.
"""

from __future__ import annotations

import re
import typing as t
from urllib.parse import quote

from tests.leaks import refusals
from tests.leaks.cases import Case
from tests.leaks.looks import JSON, LEVELS, SSE
from tests.leaks.told import Played, Told
from tests.leaks.visits import NEGOTIATE, Visits
from tests.leaks.world import World

STOP = "/api/runs/%s/cancel"


def play(world: World, case: Case) -> Played:
    """Play a case to its end."""
    player = Player(world, case)
    player.play()
    return player.played


class Player(Visits):
    """Plays one case."""

    def play(self) -> None:
        """All of it."""
        world = self.world
        content = self.chance.random() < 0.5
        world.begin(self.case, content)
        scripts = self.deploy()
        try:
            self.hide()
            (self.visit if self.visits else self._call)()
            refusals.refused(self)
            if self.chance.random() < 0.1:
                refusals.opened(self)
            world.idle()
            self._operators(content)
        finally:
            for name in scripts:
                (world.folder() / f"{name}.yaml").unlink()

    # -- callers of the API --------------------------------------------------------------------

    def _call(self) -> None:
        public = self.case.document["settings"]["public"]
        reader = self.chance.choice(["own", "nobody", "nobody"]) if public else "own"
        if reader == "own" and self.chance.random() < 0.2:
            reader, run = "admin", self._draft()
        else:
            run = self.chance.choice([self._execute, self._runs, *self._told_there, self._chat])(reader)
        if run is None:
            return
        for _ in range(2):
            self.world.idle()
            if self.world.studio.store.runs.status(run) != "paused":
                break
            self.decisions(run, "own" if reader == "own" else "read")
            self.decide(run, reader)
        if reader == "own":
            self.look_as_owner(run)
        self.look_with_keys(run)

    @property
    def _told_there(self) -> list[t.Callable[[str], str | None]]:
        """Once more where the stream of runs tells what no other one does."""
        return [self._runs] * 3 if self.asks_together else []

    def _execute(self, reader: str) -> str | None:
        key = "run" if reader == "own" else None
        path = f"/api/workflows/{self.workflow}/execute"
        how = self.chance.choice(["live", "text", "json", *(["async"] if key else [])])
        body: dict[str, t.Any] = {"input": self.chance.choice([self.message, {"message": self.message}])}
        if key and self.files:
            body["input"] = {"message": self.message, "files": self._uploaded()}
        if self.chance.random() < 0.3:
            body["conversationId"] = self.conversation
        if self.chance.random() < 0.3:
            block = self.chance.choice(self.document["blocks"][1:])["id"]
            body["selectedOutputs"] = [block] if self.chance.random() < 0.5 else []
        if how == "async" or (self.case.stalls and how == "json" and key):
            answer = self.ask(reader, "json", "POST", path, {**body, "async": True}, key=key)
            run = t.cast("str | None", answer.get_json().get("runId"))
            if run and self.case.stalls:
                self._stop(
                    self.anybody, f"/api/runs/{run}/cancel", {"X-API-Key": self.world.studio.keys[key or ""]}
                )
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
        answer = self.ask(
            reader, how, "POST", path, body, key=key, headers=headers, also=also, stop=STOP, again=bool(key)
        )
        return t.cast("str | None", answer.headers.get("X-Run-Id"))

    def _uploaded(self) -> list[dict[str, t.Any]]:
        """The case's files as an input names them, each uploaded and looked at."""
        found = []
        for name, text in self.files:
            path = f"/api/files?name={quote(name, safe='')}"
            row = self.ask("own", "files", "POST", path, text.encode(), key="run").get_json()
            found.append({"file": row["id"]})
            place = f"/api/files/{row['id']}" + self.chance.choice(["", "/content"])
            self.ask("own", "files", "GET", place, key="run")
            self.ask("own", "files", "GET", "/api/files?limit=3", key="run")
            self.ask("stranger", "any", "GET", place, key=self.stranger)
            self.ask("stranger", "any", "GET", "/api/files", key=self.stranger)
        return found

    def _runs(self, reader: str) -> str | None:
        key = "run" if reader == "own" else None
        thinks = key is not None and self.chance.random() < 0.5
        self.also = "t" if thinks else ""
        body = {"message": self.message, "events": self.chance.choice(LEVELS), "includeThinking": thinks}
        path = f"/api/workflows/{self.workflow}/runs"
        answer = self.ask(
            reader, "runs", "POST", path, body, key=key, also=self.also, stop=STOP, again=bool(key)
        )
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

    # -- afterwards ----------------------------------------------------------------------------

    def _operators(self, content: bool) -> None:
        world, told = self.world, self.played.told
        told.append(Told("operator", "log", world.log.getvalue()))
        spans = "\n".join(span.to_json(indent=None) for span in world.spans.get_finished_spans())
        told.append(Told("operator", "spans with content" if content else "spans", spans))
        self.kept()
        if self.chance.random() < 0.1:
            self.ask("operator", "metrics", "GET", "/metrics", key="read")
