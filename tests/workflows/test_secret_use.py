"""Where a document may use secrets, and what is known of it before a run."""

from __future__ import annotations

import typing as t

import pytest

from app.agents.config import AgentConfig
from app.blocks.debate import DEBATE
from app.blocks.http import HTTP
from app.blocks.tool import TOOL
from app.workflows.validation import compile_document
from plugins.spec.mcp import McpServer, McpServers
from tests.workflows.kit import TOOLS, TYPES, agent, chain, check_model

ALL = {**TYPES, **{kind.type_name: kind for kind in (HTTP, TOOL, DEBATE)}}
START = {"id": "start", "type": "start"}
BEARER = {"Authorization": "Bearer {{ secrets.CRM_KEY }}"}


def compiled(*blocks: dict[str, t.Any], **more: t.Any) -> t.Any:
    return compile_document(chain(START, *blocks, **more), ALL, check_model, TOOLS)


def told(*blocks: dict[str, t.Any]) -> dict[str, str]:
    try:
        compiled(*blocks)
    except Exception as failed:
        return {problem.path: problem.message for problem in failed.details}  # type: ignore[attr-defined]
    return {}


def http(**config: t.Any) -> dict[str, t.Any]:
    return {"id": "ask", "type": "http", "config": {"url": "https://crm.example.com/", **config}}


def tool(**call: t.Any) -> dict[str, t.Any]:
    return {"name": "crm", "http": {"url": "https://crm.example.com/", **call}}


def test_every_secret_is_known_with_its_path() -> None:
    participants = [
        {"name": f"p{number}", "model": "open/one", "prompt": "x", "tools": [tool(headers=BEARER)]}
        for number in (1, 2)
    ]
    debate = {"id": "talk", "type": "debate", "config": {"participants": participants, "rounds": 1}}
    workflow = compiled(
        http(headers={**BEARER, "X-Two": "{{ secrets.A }}{{ secrets.B }}", "X-None": "plain"}),
        agent(
            "who", tools=["clock", {"name": "fix", "result": "{{ secrets.NOT_ONE }}"}, tool(headers=BEARER)]
        ),
        {"id": "call", "type": "tool", "config": {"tool": tool(headers=BEARER)}},
        debate,
    )
    assert workflow.secrets == (
        ("blocks[1].config.headers.Authorization", "CRM_KEY"),
        ("blocks[1].config.headers.X-Two", "A"),
        ("blocks[1].config.headers.X-Two", "B"),
        ("blocks[2].config.tools[2].http.headers.Authorization", "CRM_KEY"),
        ("blocks[3].config.tool.http.headers.Authorization", "CRM_KEY"),
        ("blocks[4].config.participants[0].tools[0].http.headers.Authorization", "CRM_KEY"),
        ("blocks[4].config.participants[1].tools[0].http.headers.Authorization", "CRM_KEY"),
    )
    assert compiled(http()).secrets == ()


@pytest.mark.parametrize(
    ("block", "path"),
    [
        (http(url="https://x/{{ secrets.CRM_KEY }}"), "url"),
        (http(query={"key": "{{ secrets.CRM_KEY }}"}), "query.key"),
        (http(body=["{{ secrets.CRM_KEY }}"]), "body[0]"),
        (agent(prompt="{{ secrets.CRM_KEY }}"), "prompt"),
        (agent(system="{% if secrets.CRM_KEY %}{% endif %}"), "system"),
        (agent(tools=[tool(body="{{ secrets.CRM_KEY }}")]), "tools[0].http.body"),
        ({"id": "r", "type": "response", "config": {"body": "{{ secrets.CRM_KEY }}"}}, "body"),
    ],
)
def test_anywhere_else_a_secret_is_refused(block: dict[str, t.Any], path: str) -> None:
    problems = told(block)
    assert set(problems) == {f"blocks[1].config.{path}"}
    assert "headers" in problems[f"blocks[1].config.{path}"]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{{ secrets }}", "secrets.NAME"),
        ("{{ secrets[input.which] }}", "secrets.NAME"),
        ("{{ secrets['CRM_KEY'] }}", "secrets.NAME"),
        ("{% for name in secrets %}{{ name }}{% endfor %}", "secrets.NAME"),
        ("{{ secrets.CRM_KEY }}{{ secrets }}", "secrets.NAME"),
        ("{{ secrets.schlüssel }}", "no name of a secret"),
        ("{{ secrets." + "K" * 65 + " }}", "no name of a secret"),
    ],
)
def test_which_secret_it_is_has_to_be_known(source: str, says: str) -> None:
    for block, path in (
        (http(headers={"A": source}), "headers.A"),
        (agent(tools=[tool(headers={"A": source})]), "tools[0].http.headers.A"),
    ):
        assert says in told(block)[f"blocks[1].config.{path}"]


@pytest.mark.parametrize(
    ("url", "fixed"),
    [
        ("https://crm.example.com", True),
        ("https://crm.example.com/{{ input.id }}", True),
        ("HTTPS://crm.example.com:8443/{{ args.id }}?a={{ args.a }}", True),
        ("https://crm.example.com?q={{ args.q }}", True),
        ("{{ vars.base }}/items/{{ args.id }}", True),
        ("{{ vars['base'] }}", True),
        ("{{ vars.hosts.crm }}#{{ args.x }}", True),
        ("https://{{ args.host }}/", False),
        ("https://crm.example.com{{ args.rest }}", False),
        ("https://crm.example.com:{{ args.port }}/", False),
        ("https://crm.{{ vars.domain }}.{{ input.tld }}/", False),
        ("{{ input.url }}", False),
        ("{{ blocks.start.url }}/x", False),
        ("{{ vars.base }}{{ args.rest }}", False),
        ("{{ vars.base ~ args.rest }}/", False),
        ("{{ vars[args.which] }}/", False),
        ("{% if input.x %}https://evil.example{% endif %}/", False),
        ("{{ args.scheme }}://crm.example.com/", False),
    ],
)
def test_where_a_secret_goes_is_the_documents_to_say(url: str, fixed: bool) -> None:
    for block, path in (
        (http(url=url, headers=BEARER), "url"),
        (agent(tools=[tool(url=url, headers=BEARER)]), "tools[0].http.url"),
        ({"id": "c", "type": "tool", "config": {"tool": tool(url=url, headers=BEARER)}}, "tool.http.url"),
    ):
        problems = told(block)
        if fixed:
            assert problems == {}
        else:
            assert "host must be written out" in problems[f"blocks[1].config.{path}"]
    assert told(http(url=url)) == {}


def test_secrets_of_the_operators_mcp_servers_are_known_too() -> None:
    """So that one that is not stored is told before a run, as any other."""
    env = {"KEY": "{{ secrets.SHOP }}{{ secrets.ALSO }}", "PLAIN": "${SHOP}"}
    servers = McpServers(
        {
            "shop": McpServer("shop", "shop-mcp", env=env, trusted=True),
            "web": McpServer("web", url="https://mcp.example.com/", headers=BEARER, trusted=True),
            "free": McpServer("free", "free-mcp", trusted=True),
        }
    )
    blocks = (
        agent("who", tools=[{"mcp": "free"}, {"mcp": "shop"}]),
        {"id": "call", "type": "tool", "config": {"tool": {"mcp": "web", "tools": ["find"]}}},
    )
    workflow = compile_document(chain(START, *blocks), ALL, check_model, TOOLS, servers=servers)
    assert workflow.secrets == (
        ("blocks[1].config.tools[1].mcp", "ALSO"),
        ("blocks[1].config.tools[1].mcp", "SHOP"),
        ("blocks[2].config.tool.mcp", "CRM_KEY"),
    )


def test_templates_elsewhere_do_not_see_secrets() -> None:
    assert "secrets" not in {entry for entry in AgentConfig.__dataclass_fields__}
    assert compiled(agent(prompt="{% set secrets = {'A': 1} %}{{ secrets.A }}")).secrets == ()
