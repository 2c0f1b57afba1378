"""Random workflows whose every text is marked with what it is about, and what is asked of them.

Law of this room: a drawn case is JSON with names in it (see :mod:`tests.leaks.marks`), so that it shrinks to something
readable and can be played again. A workflow is a chain of stages and an end.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.leaks.author import COLLECTION, Author, covers, flag, ten


@dataclass
class Case:
    """See the module.

    :ivar scripts: what each model says. :ivar child: a workflow that it runs. :ivar chat: how it is deployed.
    :ivar hidden: names of the personal data that a policy covers. :ivar stalls: it never ends by itself.
    :ivar secrets: some are stored. :ivar plan: a number by which the surfaces are chosen. :ivar gate: of its chat.
    :ivar files: name and text of what comes with the message.
    """

    document: dict[str, t.Any]
    message: str
    conversation: str
    chat: dict[str, t.Any]
    secrets: bool
    plan: int
    scripts: dict[str, t.Any] = field(default_factory=dict)
    child: dict[str, t.Any] | None = None
    hidden: list[str] = field(default_factory=list)
    stalls: bool = False
    gate: str = "public"
    files: list[tuple[str, str]] = field(default_factory=list)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A case."""
    return _Author(draw).case()


class _Author(Author):
    """Draws one case."""

    def case(self) -> Case:
        settings: dict[str, t.Any] = {"public": self.draw(flag), "timeout_s": 20}
        chat: dict[str, t.Any] = {
            "include_thinking": self.draw(flag),
            "include_tool_calls": self.draw(flag),
        }
        masked = self.draw(ten)
        if masked in (0, 1):
            settings["redact"] = self.policy()
        if masked in (1, 2):
            chat["redact"] = self.policy()
        everywhere = [settings["redact"]] if "redact" in settings else []
        self.policies = everywhere
        self.may_mask = masked in (2, 3, 4)
        self.chat_policy = chat.get("redact")
        message = self.say("i", "input", secret=True)
        conversation = self.say("i", "input")
        document = self.document(settings)
        hidden = [
            name
            for name, kind, part, policies in self.personal
            if any(covers(policy, kind, part) for policy in policies)
        ]
        hidden_in_chat = [
            name
            for name, kind, part, _ in self.personal
            if self.chat_policy and covers(self.chat_policy, kind, part)
        ]
        plan = self.draw(st.integers(0, 2**32))
        return Case(
            document,
            message,
            conversation,
            {**chat, "hidden": hidden_in_chat},
            self.secrets,
            plan,
            self.scripts,
            self.child,
            hidden,
            self.stalls,
            self.draw(st.sampled_from(_GATES)),
            [(f"{self.mark('l')}.txt", self.say("f"))] if self.draw(ten) < 3 else [],
        )

    # -- a document ----------------------------------------------------------------------------

    def document(self, settings: dict[str, t.Any]) -> dict[str, t.Any]:
        self.blocks.append({"id": "start", "type": "start", "name": self.mark("n")})
        ways: list[tuple[str, str]] = [("start", "")]
        for _ in range(self.draw(st.integers(0, 2))):
            ways = self.stage(self.draw(st.sampled_from([*sorted(_STAGES), "router", "router"])), ways)
        if self.draw(ten) < 8:
            ways = self.stage(self.draw(st.sampled_from(_SPEAKERS)), ways)
        given = self.blocks[-1]["type"] in _GIVEN or ways[0][0].partition("_")[0] in _GIVEN
        if self.draw(ten) < 4 or given:
            ways = self.stage(self.draw(st.sampled_from(["agent", "set", "response"])), ways)
        return {
            "name": self.mark("n"),
            "blocks": self.blocks,
            "edges": self.edges,
            "variables": {"inside": self.mark("c")},
            "settings": settings,
        }

    def stage(self, kind: str, ways: list[tuple[str, str]]) -> list[tuple[str, str]]:
        name = f"{kind}_{len(self.blocks)}"
        block: dict[str, t.Any] = {"id": name, "type": kind, "name": self.mark("n")}
        self.blocks.append(block)
        self.link(ways, name)
        block["config"], on = _STAGES[kind](self, name)
        if kind not in ("set", "response", "condition", "start") and self.draw(ten) < 3:
            self.put(f"{name}_caught", "set", {"values": {"text": self.say("w", "answer")}}, (name, "error"))
        return on

    def put(self, name: str, kind: str, config: dict[str, t.Any], *ways: tuple[str, str]) -> None:
        self.blocks.append({"id": name, "type": kind, "name": self.mark("n"), "config": config})
        self.link(ways, name)

    def link(self, ways: t.Iterable[tuple[str, str]], target: str) -> None:
        for source, handle in ways:
            edge = {"source": source, "target": target}
            self.edges.append({**edge, "source_handle": handle} if handle else edge)

    # -- stages --------------------------------------------------------------------------------

    def make_agent(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        config = self.agent()
        if self.draw(ten) < 2:
            config["memory"] = {"type": "conversation"}
        if self.draw(ten) == 0 and config["model"].startswith("scripted"):
            config["response_format"] = {
                "type": "object",
                "properties": {"field": {"type": "string", "description": self.mark("c")}},
            }
            script = self.scripts[config["model"].partition("/")[2]]
            script["turns"][-1]["steps"] = [{"text": '{"field": "' + self.mark("w") + '"}'}]
        return config, [(name, "")]

    def make_set(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        return {"values": {"text": self.say("w", "answer"), "list": [self.mark("w")]}}, [(name, "")]

    def make_response(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        return {"body": {"told": self.say("w", "answer")}}, [(name, "")]

    def make_condition(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        sign = self.draw(st.sampled_from(["==", "!="]))
        self.put(f"{name}_no", "set", {"values": {"text": self.mark("w")}}, (name, "false"))
        return {"expression": f"vars.inside {sign} '{self.mark('c')}'"}, [(name, "true")]

    def make_router(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        if self.draw(ten) < 3:
            routes = [
                {"name": "one", "when": f"input.message == '{self.mark('c')}'"},
                {"name": "two"},
            ]
            return {"mode": "expression", "routes": routes}, [(name, "route:one"), (name, "route:two")]
        answer = '{"route": "one", "reason": "' + self.say("x", "answer", secret=True) + '"}'
        described = [{"name": "one", "description": self.mark("d")}, {"name": "two", "description": "No."}]
        model = self.model([[{"text": answer}]])
        config = {"mode": "model", "model": model, "routes": described, "prompt": self.say("p")}
        return config, [(name, "route:one"), (name, "route:two")]

    def make_loop(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        body = f"{name}_body"
        self.put(body, "agent", self.agent(asks=False), (name, "loop"))
        self.link([(body, "")], name)
        items = [self.mark("c") for _ in range(self.draw(st.integers(1, 2)))]
        return {"kind": "for_each", "items": items}, [(name, "exit")]

    def make_parallel(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        for branch in ("a", "b"):
            self.put(f"{name}_{branch}", "agent", self.agent(), (name, f"branch:{branch}"))
        on_error = self.draw(st.sampled_from(["fail", "continue"]))
        return {"branches": ["a", "b"], "on_error": on_error}, [(name, "exit")]

    def make_sequential(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        agents = [{**self.agent(), "name": self.mark("n"), "prompt": self.say("p")} for _ in range(2)]
        return {"agents": agents, "prompt": self.say("p")}, [(name, "")]

    def make_debate(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        people = [{**self.agent(), "name": self.mark("n"), "prompt": self.say("p")} for _ in range(2)]
        return {"participants": people, "rounds": 1, "topic": self.say("p")}, [(name, "")]

    def make_vote(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        secret = self.draw(flag)
        self.ballot = secret
        voters = [
            {**self.agent("yes", "no", asks=False), "name": self.mark("n"), "prompt": self.say("p")}
            for _ in range(2)
        ]
        self.ballot = False
        return {
            "voters": voters,
            "options": ["yes", "no"],
            "secret": secret,
            "question": self.say("p"),
            "abstain": True,
        }, [(name, "")]

    def make_guardrail(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        checks = [
            {"kind": "regex", "name": self.mark("n"), "pattern": f"{self.mark('c')}|nothing"},
            {
                "kind": "contains",
                "name": self.mark("n"),
                "values": ["so" if self.draw(flag) else self.mark("c")],
            },
        ]
        return {"checks": checks, "refusal": self.say("w"), "input": "So it is."}, [(name, "true")]

    def make_tool(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        return {
            "tool": self.tool("tool_alone", asks=False),
            "arguments": {"q": self.say("a", "tools")},
        }, [(name, "")]

    def make_http(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        return self.request("answer"), [(name, "")]

    def make_retrieve(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        return {"collection": COLLECTION, "query": "So?"}, [(name, "")]

    def make_approval(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        self.put(f"{name}_no", "set", {"values": {"text": self.mark("w")}}, (name, "rejected"))
        return {
            "prompt": self.say("q", "answer"),
            "reasons": [self.mark("q")],
            "draft": self.say("w", "answer"),
            "show": [{"name": "beside", "value": f"'{self.mark('r')}'"}],
        }, [(name, "approved")]

    def make_workflow(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        blocks, edges = self.blocks, self.edges
        self.blocks, self.edges = [{"id": "start", "type": "start"}], []
        self.put("agent_in", "agent", self.agent(asks=False), ("start", ""))
        self.child = {
            "name": self.mark("n"),
            "blocks": self.blocks,
            "edges": self.edges,
            "variables": {"inside": self.mark("c")},
        }
        self.blocks, self.edges = blocks, edges
        return {"workflow": "%%CHILD%%", "input": self.say("i")}, [(name, "")]


_STAGES: dict[str, t.Callable[[_Author, str], tuple[dict[str, t.Any], list[tuple[str, str]]]]] = {
    name.removeprefix("make_"): getattr(_Author, name) for name in vars(_Author) if name.startswith("make_")
}
#: Stages that give what they were given: one that ends a workflow hands it to everybody, by its author's choice.
_GIVEN = ("start", "tool", "http", "retrieve")
_GATES = [*["public"] * 3, "password", "email", "sso"]
#: Stages that speak, so that most cases come to an answer.
_SPEAKERS = ["agent", "agent", "agent", "agent", "debate", "sequential", "vote", "approval"]
