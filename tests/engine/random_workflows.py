"""Random valid workflows of every block type.

Law of this room: a document is drawn the way a person draws one, block by block, each behind blocks that are there
already, so that it is valid by construction and shrinks to something readable. Failures, dead ways, joins of ways that
were not taken, bodies without blocks and ways out of branches are part of it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.engine.random_models import FAMILY, Turn

#: A way on from a block: its id and the handle.
Port = tuple[str, str]
#: A collection that a rig has to have.
COLLECTION = "known"
MOST_DEPTH = 3
#: Waits for people, so a run of it needs somebody who answers.
APPROVAL = "approval"

_few = st.integers(0, 3)
_ten = st.integers(0, 9)
_flag = st.booleans()


@dataclass
class Workflow:
    """What was drawn. ``scripts``: what each model says, by turn; ``children``: documents by id, innermost first."""

    document: dict[str, t.Any]
    scripts: dict[str, list[Turn]] = field(default_factory=dict)
    children: dict[str, dict[str, t.Any]] = field(default_factory=dict)

    def types(self) -> set[str]:
        """The types of all its blocks."""
        return {block["type"] for doc in (self.document, *self.children.values()) for block in doc["blocks"]}


@st.composite
def workflows(draw: st.DrawFn, types: Sequence[str], stalls: bool = False) -> Workflow:
    """A workflow of blocks of these types.

    :param stalls: models may say nothing for ever, also where no limit ends it: for runs that are stopped.
    """
    author = _Author(draw, types, stalls)
    made = Workflow({}, author.scripts, author.children)
    made.document = author.document(0)
    return made


def _edges(sources: Iterable[Port], target: str) -> list[dict[str, str]]:
    return [
        {"source": source, "target": target, **({"source_handle": handle} if handle else {})}
        for source, handle in sources
    ]


class _Author:
    """Draws one document, and through authors of their own those of its children."""

    def __init__(self, draw: st.DrawFn, types: Sequence[str], stalls: bool, left: int = 16) -> None:
        self.draw = draw
        self.types = [name for name in types if name in _MAKERS]
        self.stalls = stalls
        self.left = left
        self.scripts: dict[str, list[Turn]] = {}
        self.children: dict[str, dict[str, t.Any]] = {}
        self.blocks: list[dict[str, t.Any]] = []
        self.edges: list[dict[str, str]] = []

    def document(self, depth: int) -> dict[str, t.Any]:
        heads: list[Port] = []
        if self.draw(_ten) < 8:
            self.blocks.append({"id": "start", "type": "start"})
            heads = [("start", "")]
        self.region(heads, depth)
        return {
            "name": "drawn",
            "blocks": self.blocks,
            "edges": self.edges,
            "variables": {"here": "", "nowhere": ""},
        }

    # -- how blocks hang together --------------------------------------------------------------

    def region(self, heads: list[Port], depth: int) -> list[Port]:
        """Blocks behind ``heads``; the ways on from all of them."""
        ports: list[Port] = []
        for place in range(self.draw(st.integers(1, 8 - 2 * depth))):
            if place and self.left <= 0:
                break
            self.left -= 1
            ports += self.block(self.sources(heads, ports, not place), depth)
        return ports

    def sources(self, heads: list[Port], ports: list[Port], first: bool) -> list[Port]:
        """Where a block hangs: mostly behind the block before it, at times behind several."""
        if first or not ports:
            return heads
        chosen = [ports[-1 - min(self.draw(_few), len(ports) - 1)]]
        while self.draw(_ten) > 5:
            every = heads + ports
            chosen.append(every[self.draw(st.integers(0, len(every) - 1))])
        return list(dict.fromkeys(chosen))

    def block(self, sources: list[Port], depth: int) -> list[Port]:
        kinds = [
            k for k in self.types if k not in _DEEP or (depth < MOST_DEPTH and sources and self.left > 0)
        ]
        kind = self.draw(st.sampled_from(kinds + [k for k in kinds if k in _WEIGHTY] * 2))
        name = f"{kind}_{len(self.blocks)}"
        block: dict[str, t.Any] = {"id": name, "type": kind}
        self.blocks.append(block)
        self.edges += _edges(sources, name)
        config, ports = _MAKERS[kind](self, name, depth)
        block["config"] = {**config, **self.common(kind, config)}
        if self.draw(_ten) > 5:
            ports.append((name, "error"))
        return ports

    def common(self, kind: str, config: dict[str, t.Any]) -> dict[str, t.Any]:
        found: dict[str, t.Any] = {}
        if kind not in ("agent", "tool") and self.rarely():
            found["retries"] = 1
        if kind not in ("parallel", "condition", "router", "guardrail", APPROVAL) and self.rarely():
            found["on_error"] = "continue"
        if kind != "http" and "timeout_s" not in config and self.rarely():
            found["timeout_s"] = 60
        return found

    def rarely(self) -> bool:
        return bool(self.draw(_ten) == 9)

    # -- models ------------------------------------------------------------------------------

    def model(self, *answers: str) -> str:
        """A model; its last turn says one of ``answers``, or anything when there are none."""
        name = f"m{len(self.scripts)}"
        turns = [self.turn(True) for _ in range(self.draw(st.sampled_from([0, 0, 0, 1, 2])))]
        last = self.turn(False)
        if answers:
            last = [step for step in last if step[0] != "text"]
            last.append(("text", self.draw(st.sampled_from([*answers, *answers, "neither"]))))
        if self.rarely():
            last.append(("fail", self.draw(st.sampled_from(["provider_overloaded", "provider_bad_stream"]))))
        self.scripts[name] = [*turns, last]
        return f"{FAMILY}/{name}"

    def turn(self, calls: bool) -> Turn:
        kinds = ["text", "thinking", "pause", "pause"]
        steps: Turn = [
            (kind, _WORDS[kind]) for kind in self.draw(st.lists(st.sampled_from(kinds), max_size=4))
        ]
        if calls:
            steps += [
                ("call", call)
                for call in self.draw(st.lists(st.sampled_from(_CALLS), min_size=1, max_size=2))
            ]
        return steps

    def agent(self, *answers: str) -> dict[str, t.Any]:
        """What an agent block and a participant have in common."""
        config: dict[str, t.Any] = {"model": self.model(*answers)}
        if self.draw(_flag):
            config |= {"tools": ["clock", "calculator", "breathe"], "max_batches": 2}
        if self.draw(_ten) > 7:
            config["retries"] = 1
        return config

    def text(self) -> str:
        """A template over what may have come before."""
        if not self.blocks or self.draw(_flag):
            return "{{ loop.item }} {{ input.message }}"
        name = self.draw(st.sampled_from(self.blocks))["id"]
        return f"{{{{ blocks.{name}.content }}}} {{{{ blocks['{name}'] | length }}}}"

    def expression(self) -> str:
        return self.draw(
            st.sampled_from(["true", "false", "loop.index", "input.message", *_RARE[: self.rarely()]])
        )

    # -- block types: config and ways on -----------------------------------------------------

    def make_agent(self, name: str, depth: int) -> tuple[dict[str, t.Any], list[Port]]:
        config = self.agent()
        if self.rarely():
            config["fallbacks"] = [self.model()]
        if self.rarely():
            config |= {"response_format": {"type": "object"}, "model": self.model('{"a": 1}')}
        elif self.rarely():
            self.scripts[config["model"].partition("/")[2]][-1].append(("stall", None))
            config["timeout_s"] = 60 if self.stalls and self.draw(_flag) else 0.005
        if self.draw(_flag):
            config["prompt"] = self.text()
        return config, [(name, "")]

    def make_condition(self, name: str, depth: int) -> tuple[dict[str, t.Any], list[Port]]:
        return {"expression": self.expression()}, [(name, "true"), (name, "false")]

    def make_router(self, name: str, depth: int) -> tuple[dict[str, t.Any], list[Port]]:
        routes = ["a", "b", "c"][: self.draw(st.integers(1, 3))]
        ports = [(name, f"route:{route}") for route in routes]
        if self.draw(_flag):
            config: dict[str, t.Any] = {
                "mode": "expression",
                "routes": [{"name": route, "when": self.expression()} for route in routes],
            }
            if self.draw(_flag):
                del config["routes"][-1]["when"]
            return config, ports
        answers = [f'{{"route": "{route}", "reason": "so"}}' for route in routes]
        listed = [{"name": route, "description": f"for {route}"} for route in routes]
        return {"mode": "model", "model": self.model(*answers), "routes": listed}, ports

    def make_loop(self, name: str, depth: int) -> tuple[dict[str, t.Any], list[Port]]:
        times = self.draw(_few)
        kinds: list[dict[str, t.Any]] = [
            {"kind": "for", "times": times},
            {"kind": "while", "condition": f"loop.index < {times}"},
            {"kind": "for_each", "items": ["x", "y", "z"][:times]},
        ]
        config = dict(self.draw(st.sampled_from(kinds)))
        ports = self.region([(name, "loop")], depth + 1)
        self.back(name, ports)
        if self.draw(_flag):
            config["max_iterations"] = 2
        return config, [(name, "exit")]

    def make_parallel(self, name: str, depth: int) -> tuple[dict[str, t.Any], list[Port]]:
        config: dict[str, t.Any] = {"on_error": self.draw(st.sampled_from(["fail", "continue"]))}
        if self.draw(_flag):
            config["max_concurrency"] = self.draw(st.integers(1, 3))
        if self.draw(_flag):
            config["items"] = ["x", "y", "z"][: self.draw(_few)]
            self.back(name, self.region([(name, "loop")], depth + 1))
            return config, [(name, "exit")]
        config["branches"] = ["a", "b", "c"][: self.draw(st.integers(1, 3))]
        found: list[list[Port]] = []
        for branch in config["branches"]:
            head = (name, f"branch:{branch}")
            found.append(self.region([head], depth + 1) if self.left > 0 and not self.rarely() else [head])
        ports = [port for ports in found for port in ports]
        if len(found) > 1 and self.draw(_flag):  # joins branches, or is skipped
            self.put(f"{name}_join", *(ports[self.draw(st.integers(0, len(ports) - 1))] for ports in found))
            ports.append((f"{name}_join", ""))
        return config, [*ports, (name, "exit")]

    def put(self, name: str, *sources: Port) -> None:
        """A block that only sets something."""
        self.blocks.append({"id": name, "type": "set", "config": {"values": {"x": 1}}})
        self.edges += _edges(sources, name)

    def back(self, name: str, ports: list[Port]) -> None:
        """The ways back to a block from its body."""
        if not self.rarely():
            self.edges += _edges(dict.fromkeys(ports[-1 - self.draw(_few) :]), name)

    def make_sequential(self, name: str, depth: int) -> tuple[dict[str, t.Any], list[Port]]:
        return {"agents": [self.agent() for _ in range(self.draw(st.integers(1, 2)))]}, [(name, "")]

    def make_debate(self, name: str, depth: int) -> tuple[dict[str, t.Any], list[Port]]:
        config: dict[str, t.Any] = {
            "participants": [self.agent("no\nCONSENSUS", "no") for _ in range(2)],
            "rounds": self.draw(st.integers(1, 2)),
        }
        if self.draw(_flag):
            config["moderator"] = self.agent("CONSENSUS")
        if self.draw(_flag):
            config["stop_on"] = "consensus"
        return config, [(name, "")]

    def make_vote(self, name: str, depth: int) -> tuple[dict[str, t.Any], list[Port]]:
        config: dict[str, t.Any] = {
            "voters": [self.agent("yes", "no") for _ in range(self.draw(st.integers(1, 3)))],
            "options": ["yes", "no"],
            "secret": self.draw(_flag),
            "abstain": self.draw(_flag),
            "tie": self.draw(st.sampled_from(["none", "first", "random", "moderator"])),
        }
        if config["tie"] == "moderator":
            config["moderator"] = self.agent("yes")
        return config, [(name, "")]

    def make_guardrail(self, name: str, depth: int) -> tuple[dict[str, t.Any], list[Port]]:
        checks = [{"kind": "expression", "expression": self.expression()}]
        if self.draw(_flag):
            checks.append({"kind": "contains", "values": ["said"]})  # type: ignore[dict-item]  # any JSON
        config: dict[str, t.Any] = {"checks": checks}
        if self.draw(_flag):
            config["on_fail"] = "route"
            self.put(f"{name}_failed", (name, "false"))
        return config, [(name, "false"), (name, "true")]

    def make_tool(self, name: str, depth: int) -> tuple[dict[str, t.Any], list[Port]]:
        tool, arguments = self.draw(st.sampled_from(_TOOLS))
        return {"tool": tool, "arguments": arguments}, [(name, "")]

    def make_http(self, name: str, depth: int) -> tuple[dict[str, t.Any], list[Port]]:
        return {"url": self.draw(st.sampled_from(_URLS))}, [(name, "")]

    def make_retrieve(self, name: str, depth: int) -> tuple[dict[str, t.Any], list[Port]]:
        collection = "unknown" if self.rarely() else COLLECTION
        return {"collection": collection, "query": self.draw(st.sampled_from(["tea", ""]))}, [(name, "")]

    def make_workflow(self, name: str, depth: int) -> tuple[dict[str, t.Any], list[Port]]:
        author = _Author(self.draw, self.types, self.stalls, left=3)
        author.scripts, author.children = self.scripts, self.children
        child = author.document(depth + 1)
        named = f"wf_{len(self.children)}"
        self.children[named] = child
        return {"workflow": named}, [(name, "")]

    def make_approval(self, name: str, depth: int) -> tuple[dict[str, t.Any], list[Port]]:
        config: dict[str, t.Any] = {"prompt": "May it?", "draft": self.text()}
        ports = [(name, "approved")]
        for handle in ("rejected", "expired"):
            if self.draw(_flag):
                ports.append((name, handle))
                self.put(f"{name}_{handle}", ports[-1])
        return config, ports

    def make_set(self, name: str, depth: int) -> tuple[dict[str, t.Any], list[Port]]:
        return {"values": {"text": "{{ 1 / 0 }}" if self.rarely() else self.text()}}, [(name, "")]

    def make_response(self, name: str, depth: int) -> tuple[dict[str, t.Any], list[Port]]:
        return {} if self.draw(_flag) else {"body": self.text()}, [(name, "")]


_MAKERS: dict[str, Callable[[_Author, str, int], tuple[dict[str, t.Any], list[Port]]]] = {
    name.removeprefix("make_"): maker for name, maker in vars(_Author).items() if name.startswith("make_")
}
#: All that can be drawn and waits for nobody, apart from ``start``.
TYPES = tuple(name for name in _MAKERS if name != APPROVAL)
#: Types that hold further blocks.
_DEEP = ("loop", "parallel", "workflow")
#: Types that are drawn more often: they make order interesting.
_WEIGHTY = ("loop", "parallel", "condition")
_WORDS = {"text": "said ", "thinking": "thought ", "pause": None}
_RARE = ["1 / 0"]
_CALLS = [
    ("clock", {}, None),
    ("calculator", {"expression": "1+1"}, None),
    ("calculator", {"expression": "1/0"}, None),
    ("breathe", {"times": 2}, None),
    ("breathe", {"times": -1}, None),
    ("no_such_tool", {}, None),
    ("clock", None, "invalid_json"),
]
_TOOLS: list[tuple[t.Any, t.Any]] = [
    ("clock", {}),
    ("breathe", {"times": 1}),
    ("breathe", {"times": 5}),
    ("breathe", {"times": -1}),
    ("calculator", {"expression": "{{ 1 }}+1"}),
    ({"name": "fixed", "result": {"is": "fixed"}}, {}),
]
_URLS = ["{{ vars.here }}/ok", "{{ vars.here }}/ok", "{{ vars.here }}/missing", "{{ vars.nowhere }}/"]
