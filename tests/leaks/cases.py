"""Random workflows whose every text is marked with what it is about, and what is asked of them.

Law of this room: a drawn case is JSON with names in it (see :mod:`tests.leaks.marks`), so that it shrinks to something
readable and can be played again. A workflow is a chain of stages and an end; what a stage says is never repeated by a
model, so that a mark which turns up somewhere was let out there.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.leaks.marks import mark
from tests.leaks.personal import KINDS

#: Where the requests of workflows and the models of the vendor go; filled in when a case is played.
HOST = "%%HOST%%"
VENDOR = "openai-compatible/"
#: A collection of documents that a world has.
COLLECTION = "shelf"
PARTS = ("input", "answer", "thinking", "tools")
_ten = st.integers(0, 9)
_flag = st.booleans()
_chunks = st.sampled_from([1, 2, 3, 7, 16, "words", "whole"])


@dataclass
class Case:
    """See the module.

    :ivar scripts: what each model says. :ivar child: a workflow that it runs. :ivar chat: how it is deployed.
    :ivar hidden: names of the personal data that a policy covers. :ivar stalls: it never ends by itself.
    :ivar secrets: some are stored. :ivar plan: a number by which the surfaces are chosen.
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


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A case."""
    return _Author(draw).case()


class _Author:
    """Draws one case."""

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
        self.secrets = draw(_ten) < 6
        self.ballot = False
        self.policies: list[dict[str, t.Any]] = []

    def case(self) -> Case:
        settings: dict[str, t.Any] = {"public": self.draw(_flag), "timeout_s": 20}
        chat: dict[str, t.Any] = {
            "include_thinking": self.draw(_flag),
            "include_tool_calls": self.draw(_flag),
        }
        masked = self.draw(_ten)
        if masked in (0, 1):
            settings["redact"] = self.policy()
        if masked in (1, 2):
            chat["redact"] = self.policy()
        everywhere = [settings["redact"]] if "redact" in settings else []
        self.policies = everywhere
        self.may_mask = masked in (2, 3)
        self.chat_policy = chat.get("redact")
        message = self.say("i", "input", secret=True)
        conversation = self.say("i", "input")
        document = self.document(settings)
        hidden = [
            name
            for name, kind, part, policies in self.personal
            if any(_covers(policy, kind, part) for policy in policies)
        ]
        hidden_in_chat = [
            name
            for name, kind, part, _ in self.personal
            if self.chat_policy and _covers(self.chat_policy, kind, part)
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
        )

    # -- texts ---------------------------------------------------------------------------------

    def mark(self, letter: str) -> str:
        self.count += 1
        return mark("z" if self.ballot else letter, self.count % 100)

    def say(
        self,
        letter: str,
        part: str = "",
        secret: bool = False,
    ) -> str:
        """A marked text; where it is of a part, with personal data in it at times.

        :param secret: with secrets at times.
        """
        words = ["So", self.mark(letter)]
        if part and not self.ballot and self.draw(_ten) < 6:
            kind = self.draw(st.sampled_from(sorted(KINDS)))
            self.count += 1
            name = f"%%P{kind}:{self.count}%%"
            self.personal.append((name, kind, part, list(self.policies)))
            words.insert(self.draw(st.integers(0, 2)), name)
        if secret and self.secrets and self.draw(_ten) < 4:
            words.insert(self.draw(st.integers(0, len(words))), f"%%S{self.draw(st.integers(0, 3))}%%")
        return " ".join([*words, "so."])

    def policy(self) -> dict[str, t.Any]:
        found: dict[str, t.Any] = {"mode": self.draw(st.sampled_from(["strict", "live"]))}
        if self.draw(_ten) < 3:
            found["detectors"] = sorted(
                self.draw(st.sets(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
            )
        if self.draw(_ten) < 2:
            found["applies"] = sorted(
                self.draw(st.sets(st.sampled_from(PARTS), min_size=1, max_size=3)), key=PARTS.index
            )
        return found

    # -- a document ----------------------------------------------------------------------------

    def document(self, settings: dict[str, t.Any]) -> dict[str, t.Any]:
        self.blocks.append({"id": "start", "type": "start", "name": self.mark("n")})
        ways: list[tuple[str, str]] = [("start", "")]
        for _ in range(self.draw(st.integers(0, 2))):
            ways = self.stage(self.draw(st.sampled_from(sorted(_STAGES))), ways)
        if self.draw(_ten) < 8:
            ways = self.stage(self.draw(st.sampled_from(_SPEAKERS)), ways)
        given = self.blocks[-1]["type"] in _GIVEN or ways[0][0].partition("_")[0] in _GIVEN
        if self.draw(_ten) < 4 or given:
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
        if kind not in ("set", "response", "condition", "start") and self.draw(_ten) < 3:
            self.put(f"{name}_caught", "set", {"values": {"text": self.say("w", "answer")}}, (name, "error"))
        return on

    def put(self, name: str, kind: str, config: dict[str, t.Any], *ways: tuple[str, str]) -> None:
        self.blocks.append({"id": name, "type": kind, "name": self.mark("n"), "config": config})
        self.link(ways, name)

    def link(self, ways: t.Iterable[tuple[str, str]], target: str) -> None:
        for source, handle in ways:
            edge = {"source": source, "target": target}
            self.edges.append({**edge, "source_handle": handle} if handle else edge)

    # -- models --------------------------------------------------------------------------------

    def model(self, turns: list[list[dict[str, t.Any]]], letter: str = "m") -> str:
        name = f"{self.mark(letter)}-x{len(self.scripts)}"
        self.scripts[name] = {"turns": [{"steps": steps} for steps in turns]}
        return f"scripted/{name}"

    def agent(self, *answers: str, tools: bool = True, asks: bool = True) -> dict[str, t.Any]:
        """An agent; its policy, where it has one, is in force while it is drawn."""
        config: dict[str, t.Any] = {"retries": 0}
        before = self.policies
        if self.may_mask and not self.ballot and self.draw(_flag):
            config["redact"] = self.policy()
            self.policies = [*before, config["redact"]]
        config["system"] = self.say("p")
        if self.draw(_ten) < 7:
            config["prompt"] = self.say("p") + " {{ input.message }}"
        entries: dict[str, t.Any] = {}
        turns = [self.calls(entries, asks)] if tools and self.draw(_ten) < 5 else []
        turns.append(self.last(*answers))
        if entries:
            config["tools"] = list(entries.values())
        if not answers and self.draw(_ten) == 0:
            config["model"] = f"{VENDOR}{self.mark('m')}"
        else:
            config["model"] = self.model(turns)
        self.policies = before
        return config

    def thinks(self) -> list[dict[str, t.Any]]:
        if self.draw(_flag):
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
        if self.draw(_flag):
            steps.append({"text": self.say("g", "answer", secret=True), "chunk": self.draw(_chunks)})
        for place in range(self.draw(st.integers(1, 2))):
            name = f"tool_{len(entries)}"
            arguments: t.Any = {"q": self.say("a", "tools", secret=True)}
            how = self.draw(_ten)
            if how == 0:
                name = "nobody"
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
        if self.draw(_ten) < 6:
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
        if self.secrets and self.draw(_flag):
            made["headers"] = {"Authorization": f"Bearer {{{{ secrets.S{self.draw(st.integers(0, 3))} }}}}"}
        return made

    # -- stages --------------------------------------------------------------------------------

    def make_agent(self, name: str) -> tuple[dict[str, t.Any], list[tuple[str, str]]]:
        config = self.agent()
        if self.draw(_ten) < 2:
            config["memory"] = {"type": "conversation"}
        if self.draw(_ten) == 0 and config["model"].startswith("scripted"):
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
        if self.draw(_flag):
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
        secret = self.draw(_flag)
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
                "values": ["so" if self.draw(_flag) else self.mark("c")],
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


def _covers(policy: dict[str, t.Any], kind: str, part: str) -> bool:
    """Whether a policy hides data of a kind in a part; what may quote any part is hidden by each."""
    if kind not in policy.get("detectors", [kind]):
        return False
    return part == "any" or part in policy.get("applies", PARTS)


_STAGES: dict[str, t.Callable[[_Author, str], tuple[dict[str, t.Any], list[tuple[str, str]]]]] = {
    name.removeprefix("make_"): getattr(_Author, name) for name in vars(_Author) if name.startswith("make_")
}
#: Stages that give what they were given: one that ends a workflow hands it to everybody, by its author's choice.
_GIVEN = ("start", "tool", "http", "retrieve")
#: Stages that speak, so that most cases come to an answer.
_SPEAKERS = ["agent", "agent", "agent", "agent", "debate", "sequential", "vote", "approval"]
