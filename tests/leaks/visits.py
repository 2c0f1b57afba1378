"""A visitor of a chat, and somebody who is not let in: how they get there, what they say, what they see.

Law of this room: as of :mod:`tests.leaks.asker`. Whoever is outside a gate is told nothing, whatever he asks.
"""

from __future__ import annotations

import base64
import typing as t
from urllib.parse import quote

from app.web import visitors
from tests.leaks.looks import JSON, Looks
from tests.leaks.told import Told

NEGOTIATE = {"X-Studio-Stream-Protocol": "agent-events-v1"}


class Visits(Looks):
    """See the module."""

    how: tuple[str, dict[str, str]] = "live", NEGOTIATE

    # -- a visitor -----------------------------------------------------------------------------

    def visit(self) -> None:
        base = f"/api/chat/{self.slug}"
        how = self.chance.choice(["live", "live", "text", "json"])
        if self.case.stalls and how == "json":
            how = "live"
        self.how = how, {"live": NEGOTIATE, "text": {}, "json": JSON}[how]
        self.also = "t" if self.case.chat["include_thinking"] else ""
        body: dict[str, t.Any] = {"input": self.message}
        if self.chance.random() < 0.5:
            body["conversationId"] = self.conversation
        if self.case.gate != "public":
            self._stay_out("POST", base, {"input": "So"})
            body |= self._enter(base)
        shown = self.ask("visitor", "page", "GET", base) if self.files and "password" not in body else None
        if shown is not None and shown.get_json()["files"]:
            body["files"] = [{"name": name, "data": _coded(text)} for name, text in self.files]
        run = self._say("POST", base, body)
        if run is None:
            return
        self._look_as_visitor(run)
        for _ in range(2):
            asked = self._asked(run)
            if not asked:
                break
            self.decisions(run, "read")
            mine = [pause for pause in asked if pause["yours"]]
            if mine:
                given = {"decision": self.chance.choice(["approve", "reject"]), "pauseId": mine[0]["pauseId"]}
                self._say("POST", f"{base}/runs/{run}/resume", given)
            else:
                self.decide(run)
            self._look_as_visitor(run)
        self.look_with_keys(run)

    def _say(self, method: str, path: str, body: dict[str, t.Any]) -> str | None:
        """What a visitor says, and the answer; of a run that never ends as much as there is."""
        how, headers = self.how
        stop = f"/api/chat/{self.slug}/runs/%s/cancel"
        also = self.also if how == "live" else ""
        answer = self.ask(
            "visitor", how, method, path, body, headers=headers, also=also, stop=stop, again=True
        )
        if "conversationId" not in body and "X-Conversation-Id" in answer.headers:
            self.conversation = answer.headers["X-Conversation-Id"]
        return t.cast("str | None", answer.headers.get("X-Run-Id"))

    def _asked(self, run: str) -> t.Any:
        shown = self.visitor.get(f"/api/chat/{self.slug}/runs/{run}", headers=self.pass_())
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
        if self.case.gate != "public" or self.chance.random() < 0.3:
            path = self.chance.choice(["", "/events", "/cancel", "/resume"])
            method = "POST" if path in ("/cancel", "/resume") else "GET"
            given = {"decision": "approve"} if path == "/resume" else {} if method == "POST" else None
            self._stay_out(method, f"{base}/runs/{run}{path}", given)
        if self.case.gate != "public":
            path = self.chance.choice(["", f"/conversations/{quote(self.conversation)}"])
            self._stay_out("GET", self.chance.choice([base + path, f"/chat/{self.slug}"]))

    # -- gates ---------------------------------------------------------------------------------

    def _stay_out(self, method: str, path: str, body: t.Any = None) -> None:
        """Somebody else asks, who at a gate has not got in."""
        self.ask("other visitor", "any", method, path, body)

    def _enter(self, base: str) -> dict[str, t.Any]:
        """Get in; what is to be sent with the first message."""
        if self.case.gate == "password":
            if self.chance.random() < 0.5:
                return {"password": self.password}
            self.ask("visitor", "gate", "POST", f"{base}/session", {"password": self.password})
        elif self.case.gate == "email":
            self.ask("visitor", "gate", "POST", f"{base}/otp", {"email": self.email})
            letter = self.world.letter(self.email)
            self.played.told.append(Told("visitor", "letter", letter))
            given = {"email": self.email, "otp": self.world.code_in(letter)}
            self.ask("visitor", "gate", "PUT", f"{base}/otp", given)
        else:
            self._signed_in()
        return {}

    def _signed_in(self) -> None:
        """Be somebody whom the provider has confirmed: what it takes to do so has tests of its own."""
        chat = self.world.studio.store.chats.by_slug(self.slug)
        assert chat is not None
        with self.world.studio.app.test_request_context("/"):
            visitor = visitors.passed(chat, visitors.named(chat, "sso", "So"), self.email)
            token = visitors._token(visitor)
        if self.embedded:
            self.token = token
        else:
            self.visitor.set_cookie(visitors._cookie(chat.id), token)


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
