"""Marked texts, and the agents, tools and requests that are made of them.

Law of this room: what a model says is never repeated by a model, so that a mark which turns up somewhere was let out
there. Personal data is noted with the policies that are in force where it stands.
"""

from __future__ import annotations

import typing as t

from hypothesis import strategies as st

from tests.leaks.marks import mark
from tests.leaks.personal import KINDS

#: Where the requests of workflows and the models of the vendor go; filled in when a case is played.
HOST = "%%HOST%%"
VENDOR = "openai-compatible/"
#: A collection of documents that a world has.
COLLECTION = "shelf"
#: An MCP server that a world with secrets has; it and the tool ``fails`` are in :mod:`tests.leaks.tools`.
SHELF = "shelf"
PARTS = ("input", "answer", "thinking", "tools")
ten = st.integers(0, 9)
flag = st.booleans()
_chunks = st.sampled_from([1, 2, 3, 7, 16, "words", "whole"])


class Author:
    """Draws texts, models and tools: what the stages of a workflow are made of."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.count = 0
        self.scripts: dict[str, t.Any] = {}
        self.blocks: list[dict[str, t.Any]] = []
        self.edges: list[dict[str, t.Any]] = []
        self.child: dict[str, t.Any] | None = None
        self.stalls = False
        #: Personal data that stands somewhere, with its part and the policies that hold there.
        self.personal: list[tuple[str, str, str, list[dict[str, t.Any]]]] = []
        self.secrets = draw(ten) < 6
        #: It is the ballot's voters that are drawn.
        self.ballot = False
        #: Agents have policies of their own at times.
        self.may_mask = False
        self.policies: list[dict[str, t.Any]] = []

    # -- texts ---------------------------------------------------------------------------------

    def mark(self, letter: str) -> str:
        self.count += 1
        return mark("z" if self.ballot else letter, self.count % 100)

    def say(
        self,
        letter: str,
        part: str = "",
        secret: bool = False,
        personal: bool = False,
    ) -> str:
        """A marked text; where it is of a part, with personal data in it at times.

        :param secret: with secrets at times. :param personal: with personal data always.
        """
        words = ["So", self.mark(letter)]
        if part and not self.ballot and (personal or self.draw(ten) < 6):
            kind = self.draw(st.sampled_from(sorted(KINDS)))
            self.count += 1
            name = f"%%P{kind}:{self.count}%%"
            self.personal.append((name, kind, part, list(self.policies)))
            words.insert(self.draw(st.integers(0, 2)), name)
        if secret and self.secrets and self.draw(ten) < 4:
            words.insert(self.draw(st.integers(0, len(words))), f"%%S{self.draw(st.integers(0, 3))}%%")
        return " ".join([*words, "so."])

    def policy(self) -> dict[str, t.Any]:
        found: dict[str, t.Any] = {"mode": self.draw(st.sampled_from(["strict", "live"]))}
        if self.draw(ten) < 3:
            found["detectors"] = sorted(
                self.draw(st.sets(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
            )
        if self.draw(ten) < 2:
            found["applies"] = sorted(
                self.draw(st.sets(st.sampled_from(PARTS), min_size=1, max_size=3)), key=PARTS.index
            )
        return found

    # -- models --------------------------------------------------------------------------------

    def model(self, turns: list[list[dict[str, t.Any]]], letter: str = "m") -> str:
        name = f"{self.mark(letter)}-x{len(self.scripts)}"
        self.scripts[name] = {"turns": [{"steps": steps} for steps in turns]}
        return f"scripted/{name}"

    def agent(self, *answers: str, tools: bool = True, asks: bool = True) -> dict[str, t.Any]:
        """An agent; its policy, where it has one, is in force while it is drawn."""
        config: dict[str, t.Any] = {"retries": 0}
        before = self.policies
        if self.may_mask and not self.ballot and self.draw(flag):
            config["redact"] = self.policy()
            self.policies = [*before, config["redact"]]
        config["system"] = self.say("p")
        if self.draw(ten) < 7:
            config["prompt"] = self.say("p") + " {{ input.message }}"
        entries: dict[str, t.Any] = {}
        turns = [self.calls(entries, asks)] if tools and self.draw(ten) < 5 else []
        turns.append(self.last(*answers))
        if entries:
            config["tools"] = list(entries.values())
        if not answers and self.draw(ten) == 0:
            config["model"] = f"{VENDOR}{self.mark('m')}"
        else:
            config["model"] = self.model(turns)
        self.policies = before
        return config

    def thinks(self) -> list[dict[str, t.Any]]:
        if self.draw(flag):
            return []
        return [{"thinking": self.say("t", "thinking", secret=True), "chunk": self.draw(_chunks)}]

    def last(self, *answers: str) -> list[dict[str, t.Any]]:
        """The turn that answers."""
        steps = self.thinks()
        if answers:
            steps.append({"text": self.draw(st.sampled_from(answers))})
        else:
            steps.append({"text": self.say("w", "answer", secret=True), "chunk": self.draw(_chunks)})
            how = self.draw(st.integers(0, 19))
            if how == 0 and not self.ballot:
                self.stalls = True
                steps.append({"stall": True})
            elif how < 3:
                code = self.draw(st.sampled_from(["provider_overloaded", "provider_bad_stream"]))
                steps.append({"error": {"code": code, "message": self.say("e", "any", secret=True)}})
        return steps

    def calls(self, entries: dict[str, t.Any], asks: bool) -> list[dict[str, t.Any]]:
        """A turn with calls; ``entries`` are the tools that they call."""
        steps = self.thinks()
        if self.draw(flag):
            steps.append({"text": self.say("g", "answer", secret=True), "chunk": self.draw(_chunks)})
        for place in range(self.draw(st.integers(1, 2))):
            name = f"tool_{len(entries)}"
            arguments: t.Any = {"q": self.say("a", "tools", secret=True)}
            # Under a policy more often: a program that fails is logged with what it says.
            how = 3 if self.policies and self.draw(ten) < 5 else self.draw(ten)
            if how == 0:
                name = "nobody"
            elif how == 3:
                name, entries["fails"] = "fails", "fails"
                arguments["why"] = self.say("e", "tools", secret=True, personal=True)
            elif how == 4 and self.secrets:
                name, entries["said"] = "said", {"mcp": SHELF, "tools": ["said"]}
                arguments["back"] = self.say("r", "tools")
                arguments["fails"] = self.draw(flag)
            elif how == 1:
                arguments = '{"q": "' + self.mark("a") + '", '
                entries[name] = self.tool(name, asks=False)
            else:
                entries[name] = self.tool(name, asks and how == 2)
            steps.append({"tool_call": {"name": name, "arguments": arguments, "id": f"call_{place}"}})
        return steps

    def tool(self, name: str, asks: bool) -> dict[str, t.Any]:
        parameters = {
            "type": "object",
            "properties": {"q": {"type": "string", "description": self.mark("d")}},
        }
        made: dict[str, t.Any] = {"name": name, "description": self.say("d"), "parameters": parameters}
        if self.draw(ten) < 6:
            made["result"] = {
                "found": self.say("r", "tools"),
                "list": [self.mark("r"), {"deep": self.mark("r")}],
            }
        else:
            made["http"] = self.request("tools")
        if asks:
            made["approval"] = "always"
        return made

    def request(self, part: str) -> dict[str, t.Any]:
        """A request that says back what it was sent, in many forms, or fails with it."""
        status = self.draw(st.sampled_from([200, 200, 200, 500, 404]))
        made: dict[str, t.Any] = {
            "method": "POST",
            "url": f"{HOST}/echo?status={status}&inside={self.mark('c')}",
            "body": {"back": self.say("r", part)},
        }
        if self.secrets and self.draw(flag):
            made["headers"] = {"Authorization": f"Bearer {{{{ secrets.S{self.draw(st.integers(0, 3))} }}}}"}
        return made


def covers(policy: dict[str, t.Any], kind: str, part: str) -> bool:
    """Whether a policy hides data of a kind in a part; what may quote any part is hidden by each."""
    if kind not in policy.get("detectors", [kind]):
        return False
    return part == "any" or part in policy.get("applies", PARTS)
