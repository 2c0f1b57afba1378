"""Names of tools of MCP servers: unique, fit for every vendor, and independent of any order."""

from __future__ import annotations

import re
import typing as t
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agents.mcp_tools import Listed, McpTools, named
from app.errors import BlockError
from plugins.spec import Tool

FITS = re.compile(r"[A-Za-z0-9_-]{1,64}")
NAMES = st.text(st.sampled_from("ab_.-/é "), min_size=1, max_size=4) | st.just("x" * 80)
SERVERS = st.lists(
    st.tuples(st.sampled_from(["one", "two", "a"]), st.lists(NAMES, max_size=5, unique=True)), max_size=4
)


def tool(name: str) -> Tool:
    return Tool(name, "", {"type": "object"}, lambda arguments, context: name)


def made(servers: t.Sequence[tuple[str, t.Sequence[str]]], taken: t.Collection[str] = ()) -> McpTools:
    return named([Listed(title, title, tuple(map(tool, names))) for title, names in servers], taken)


def own_names(found: McpTools) -> dict[str, str]:
    """The server's own name of each tool by the name the model sees."""
    return {one.name: one.run({}, t.cast(t.Any, None)) for one in found.tools}


@given(SERVERS, st.lists(st.sampled_from(["a", "b", "one__a"]), unique=True))
def test_every_tool_has_a_name_of_its_own_that_fits(
    servers: list[tuple[str, list[str]]], taken: list[str]
) -> None:
    found = made(servers, taken)
    visible = [one.name for one in found.tools]
    assert len(set(visible)) == len(visible)
    assert not set(visible) & set(taken)
    assert all(FITS.fullmatch(name) for name in visible)
    assert sorted(own_names(found).values()) == sorted(
        {(s, n): n for s, names in servers for n in names}.values()
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["one", "two"]),
            st.lists(st.sampled_from(["a", "b.", "b_", "one__a"]), unique=True),
        )
    )
)
def test_no_name_depends_on_an_order(servers: list[tuple[str, list[str]]]) -> None:
    assert own_names(made(servers)) == own_names(made(list(reversed(servers))))


def test_a_name_is_prefixed_only_where_it_has_to_be() -> None:
    found = made([("one", ["add", "echo"]), ("two", ["add", "list"])], ["list"])
    assert [one.name for one in found.tools] == ["one__add", "echo", "two__add", "two__list"]


@pytest.mark.parametrize("order", [("never", "always"), ("always", "never"), ("ask_once", "always")])
def test_of_a_tool_that_two_entries_have_the_stricter_approval_holds(order: t.Any) -> None:
    first, second = (replace(tool("pay"), approval=approval) for approval in order)
    entries = [Listed("shop", "shop", tools) for tools in ((tool("look"), first), (second,))]
    found = named(entries, ())
    assert [(one.name, one.approval) for one in found.tools] == [("look", "never"), ("pay", "always")]


def test_servers_of_one_title_keep_their_tools_apart() -> None:
    """Two addresses of one host have one title, when none was given."""
    first, second = (Listed(f"/{path}", "host", (tool("search"), tool(path))) for path in ("docs", "shop"))
    found = named([first, second], ())
    names = [one.name for one in found.tools]
    assert [re.sub("_[0-9a-f]{8}$", "_HASH", name) for name in names] == [
        "host__search_HASH",
        "docs",
        "host__search_HASH",
        "shop",
    ]
    assert len(set(names)) == 4
    assert {one.name for one in named([second, first], ()).tools} == set(names)


def test_too_many_tools_are_refused_with_the_cure() -> None:
    with pytest.raises(BlockError) as failed:
        made([("one", [f"t{n}" for n in range(129)])])
    assert failed.value.code == "mcp_too_many_tools"
    assert "name those it needs in tools" in failed.value.message
