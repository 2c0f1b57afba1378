"""What a workflow document must be, and that everything wrong with it is told at once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import encoding
from app.workflows.compiled import WorkflowSettings
from app.workflows.document import parse
from tests.workflows.kit import START_BLOCK, agent, chain, compiled, problems, told


def test_the_contracts_example_compiles():
    source = """
name: Support agent
blocks:
  - id: start
    type: start
  - id: agent_1
    type: agent
    name: Agent 1
    config:
      model: open/one
      system: You answer briefly.
      prompt: "{{ input.message }}"
      thinking: medium
      tools: [clock, calculator]
      tool_choice: auto
      response_format: null
      memory: {type: none}
      redact: null
    position: {x: 240, y: 80}
edges:
  - {source: start, target: agent_1}
variables: {greeting: hello}
settings: {timeout_s: 300, on_disconnect: cancel, disconnect_grace_s: 0, durable: false, public: false}
"""
    workflow = compiled(parse(source))
    assert workflow.name == "Support agent"
    assert workflow.entry == "start"
    assert list(workflow.blocks) == ["start", "agent_1"]
    assert workflow.blocks["agent_1"].config.thinking == "medium"
    assert workflow.settings == WorkflowSettings()
    assert workflow.variables == {"greeting": "hello"}
    assert [i.name for i in workflow.infos()] == ["start", "Agent 1"]
    assert workflow.answer_agents() == ("agent_1",)
    assert workflow.warnings == ()


def test_one_agent_alone_is_a_workflow():
    workflow = compiled({"blocks": [agent()]})
    assert (workflow.entry, workflow.name, workflow.edges) == ("a", "Untitled", ())


def test_what_was_meant_is_told_of_the_first_fifty_names_and_wherever_one_comes_back():
    """To look for one among hundreds takes milliseconds, and a document may have thousands."""
    blocks = [agent(f"agent_{number}") for number in range(100)]
    edges = [{"source": f"agnt_{number}", "target": "agent_0"} for number in (*range(100), 3)]
    found = told({"name": "Test", "blocks": blocks, "edges": edges})
    hints = [
        f"edges[{place}].source" in found and "Did you mean" in found[f"edges[{place}].source"]
        for place in range(101)
    ]
    assert hints == [True] * 50 + [False] * 50 + [True]
    assert 'Did you mean "agent_3"' in found["edges[100].source"]


def test_others_may_go_on_at_every_block_and_edge():
    steps, read = [], []
    document = chain(agent("a"), agent("b"), agent("c"))
    parse(document, lambda: read.append("step"))
    compiled(document, pause=lambda: steps.append("step"))
    assert len(steps) == len(read) + 2 * 3 + 2  # a block is read, and then judged


def test_every_problem_is_told_at_once_in_document_order():
    document = {
        "nme": "x",
        "name": "",
        "blocks": [
            {"id": "a b", "type": "agnt"},
            {
                "id": "b",
                "type": "agent",
                "timeout_s": 1,
                "config": {
                    "modl": "x",
                    "tools": ["clok", {"mcp": "d"}],
                    "thinking": "hi",
                    "timeout_s": -1,
                    "system": "{{ x",
                },
            },
            {"id": "b", "type": "agent", "config": {"model": "nope/x"}},
        ],
        "edges": [{"source": "b", "target": "zz"}, 3],
        "settings": {"timeout_s": 0, "on_disconnect": "cancle", "durable": "yes"},
    }
    assert [problem.path for problem in problems(document)] == [
        "nme",
        "name",
        "blocks[0].id",
        "blocks[0].type",
        "blocks[1].timeout_s",
        "blocks[1].config.modl",
        "blocks[1].config.tools[0]",
        "blocks[1].config.tools[1].mcp",
        "blocks[1].config.thinking",
        "blocks[1].config.timeout_s",
        "blocks[1].config.system",
        "blocks[1].config.model",
        "blocks[2].id",
        "blocks[2].config.model",
        "edges[0].target",
        "edges[1]",
        "settings.timeout_s",
        "settings.on_disconnect",
        "settings.durable",
    ]


@pytest.mark.parametrize(
    ("document", "path", "cure"),
    [
        ({}, "blocks", "required"),
        ({"blocks": []}, "blocks", "add an agent"),
        ({"blocks": {}}, "blocks", "list"),
        ({"blocks": ["x"]}, "blocks[0]", "object"),
        ({"blocks": [{"type": "start"}]}, "blocks[0].id", "required"),
        ({"blocks": [{"id": "a"}]}, "blocks[0].type", "required"),
        ({"blocks": [{"id": "x" * 65, "type": "start"}]}, "blocks[0].id", "must match"),
        ({"blocks": [{"id": "", "type": "start"}]}, "blocks[0].id", "must match"),
        ({"blocks": [{"id": "a", "type": "agnet"}]}, "blocks[0].type", 'Did you mean "agent"'),
        ({"blocks": [agent(), agent()]}, "blocks[1].id", "ids must differ"),
        ({"blocks": [agent(), agent("b")]}, "blocks", "one entry"),
        ({"blocks": [START_BLOCK, agent()]}, "blocks[1]", "cannot be reached"),
        ({"blocks": [START_BLOCK, {"id": "s2", "type": "start"}]}, "blocks[1].type", "one entry"),
        (chain(agent(), START_BLOCK), "edges[0].target", "no edge may lead to it"),
        (chain(START_BLOCK, agent(), settings={"durable": 1}), "settings.durable", "true or false"),
        (chain(START_BLOCK, agent(), settings={"timeout_s": 604801}), "settings.timeout_s", "604800"),
        (chain(START_BLOCK, agent(), settings={"public": "yes"}), "settings.public", "true or false"),
        (chain(START_BLOCK, agent(), settings={"publik": True}), "settings.publik", 'Did you mean "public"'),
        (chain(START_BLOCK, agent(), settings=[]), "settings", "object"),
        (chain(START_BLOCK, agent(), variables=[]), "variables", "object"),
        (chain(START_BLOCK, agent(), edges={}), "edges", "list"),
        (
            chain(START_BLOCK, agent(), edges=[{"source": "start", "target": "aa"}]),
            "edges[0].target",
            "no block",
        ),
        (
            chain(START_BLOCK, agent(), edges=[{"source": "strt", "target": "a"}]),
            "edges[0].source",
            '"start"',
        ),
        (chain(START_BLOCK, agent(), edges=[{"source": "start"}]), "edges[0].target", "required"),
        (chain(START_BLOCK, agent(), edges=[{"source": "start", "target": "a"}] * 2), "edges[1]", "twice"),
        (
            chain(START_BLOCK, agent(), edges=[{"source": "start", "target": "a", "source_handle": "tru"}]),
            "edges[0].source_handle",
            '"tru" is no handle of the type start; leave it out for the plain edge.',
        ),
        (  # true without quotes, as YAML reads it
            chain(START_BLOCK, agent(), edges=[{"source": "start", "target": "a", "source_handle": True}]),
            "edges[0].source_handle",
            "must be text, not true; put it in quotes",
        ),
        (
            chain(
                START_BLOCK,
                agent(),
                edges=[{"source": "start", "target": "a"}, {"source": "a", "target": "a"}],
            ),
            "edges[1]",
            "cycle (a → a)",
        ),
    ],
)
def test_a_problem_has_its_path_and_a_cure(document, path, cure):
    assert cure in told(document)[path]


@pytest.mark.parametrize(
    ("config", "path", "cure"),
    [
        ({"model": None}, "model", "required"),
        ({"model": "nope/x"}, "model", "no family"),
        ({"model": "closed/two"}, "model", "it has: one"),
        ({"model": 3}, "model", "text"),
        ({"promt": "x"}, "promt", 'Did you mean "prompt"'),
        ({"prompt": "{{ x"}, "prompt", "line 1"),
        ({"prompt": "a\n{% macro f() %}{% endmacro %}"}, "prompt", "line 2: macro is not available"),
        ({"prompt": "{{ secrets.X }}"}, "prompt", "only be used in headers"),
        ({"prompt": "{{ input.x|uper }}"}, "prompt", '"upper"'),
        ({"thinking": "hgih"}, "thinking", "minimal"),
        ({"thinking": 0}, "thinking", "above 0"),
        ({"thinking": True}, "thinking", "true"),
        ({"temperature": "1"}, "temperature", "number"),
        ({"temperature": 2.5}, "temperature", "from 0 to 2"),
        ({"top_p": -1}, "top_p", "from 0 to 1"),
        ({"max_tokens": 0}, "max_tokens", "from 1 to"),
        ({"idle_s": 0}, "idle_s", "from 0.001"),
        ({"retries": 11}, "retries", "from 0 to 10"),
        ({"stop": [1]}, "stop[0]", "text"),
        ({"parallel_tool_calls": 1}, "parallel_tool_calls", "true or false"),
        ({"seed": 1.5}, "seed", "whole number"),
        ({"tools": "clock"}, "tools", "list"),
        ({"tools": [3]}, "tools[0]", "name of a tool"),
        ({"tools": ["clok"]}, "tools[0]", 'Did you mean "clock"'),
        ({"tools": [{}]}, "tools[0].name", "required"),
        ({"tools": [{"name": "x"}]}, "tools[0].name", "no registered tool"),
        ({"tools": ["clock", {"name": "clock", "result": 1}]}, "tools[1]", "declared twice"),
        ({"tools": [{"name": "a b", "result": 1}]}, "tools[0].name", "must match"),
        ({"tools": [{"name": "t", "result": 1, "http": {"url": "http://x"}}]}, "tools[0]", "keep one"),
        ({"tools": [{"name": "t", "http": None}]}, "tools[0].http", "url"),
        ({"tools": [{"name": "t", "http": {}}]}, "tools[0].http.url", "required"),
        ({"tools": [{"name": "t", "http": {"url": "ftp://x"}}]}, "tools[0].http.url", "http://"),
        ({"tools": [{"name": "t", "http": {"url": "{{ x"}}]}, "tools[0].http.url", "template syntax"),
        (
            {"tools": [{"name": "t", "http": {"url": "http://x", "method": "get"}}]},
            "tools[0].http.method",
            "GET",
        ),
        ({"tools": [{"name": "t", "http": {"url": "http://x", "uri": 1}}]}, "tools[0].http.uri", '"url"'),
        (
            {"tools": [{"name": "t", "http": {"url": "http://x", "timeout_s": 0}}]},
            "tools[0].http.timeout_s",
            "above 0",
        ),
        (
            {"tools": [{"name": "t", "http": {"url": "http://x", "headers": {"A": "{{ secrets }}"}}}]},
            "tools[0].http.headers.A",
            "secrets.NAME",
        ),
        (
            {"tools": [{"name": "t", "http": {"url": "http://x", "headers": {"A": 1}}}]},
            "tools[0].http.headers.A",
            "text",
        ),
        (
            {"tools": [{"name": "t", "result": 1, "parameters": {"type": "strin"}}]},
            "tools[0].parameters",
            "JSON Schema",
        ),
        (
            {"tools": [{"name": "t", "result": 1, "parameters": {"type": "string"}}]},
            "tools[0].parameters",
            "object",
        ),
        ({"tools": [{"name": "t", "result": 1, "approval": "sometimes"}]}, "tools[0].approval", "ask_once"),
        ({"tools": [{"name": "t", "result": 1, "aproval": "never"}]}, "tools[0].aproval", '"approval"'),
        (
            {"tools": [{"name": "t", "result": 1, "approval_deadline_s": 0}]},
            "tools[0].approval_deadline_s",
            "above 0",
        ),
        ({"tools": [{"mcp": "docs"}]}, "tools[0].mcp", "no MCP server"),
        ({"tool_choice": "clock"}, "tool_choice", "not among the agent's tools"),
        ({"tool_choice": "required"}, "tool_choice", "no tools"),
        ({"tool_choice": 1}, "tool_choice", "text"),
        ({"response_format": {"type": "objct"}}, "response_format", "JSON Schema"),
        ({"response_format": {"type": "array"}}, "response_format", "wrap it"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format", "itself"),
        ({"response_format": {"$ref": "http://x/y"}}, "response_format", "into the schema itself"),
        ({"response_format": {"properties": {"a": {"pattern": "(?=x)"}}}}, "response_format", "RE2"),
        ({"response_format": True}, "response_format", "object"),
        ({"memory": {"type": "conversation"}}, "memory", None),
        ({"memory": "conversation"}, "memory", None),
        ({"memory": {"type": "sliding_window", "limit": 2, "key": "{{ input.user }}"}}, "memory", None),
        ({"memory": {"type": "sliding_window_tokens", "limit": 1}}, "memory", None),
        ({"memory": {}}, "memory", None),
        ({"memory": "conversations"}, "memory", '"conversation"'),
        ({"memory": "sliding_window"}, "memory", "limit: 20"),
        ({"memory": 1}, "memory", "object"),
        ({"memory": {"type": "window"}}, "memory.type", "sliding_window"),
        ({"memory": {"kind": "conversation"}}, "memory.kind", "not known here"),
        ({"memory": {"type": "sliding_window"}}, "memory.limit", "how many messages"),
        ({"memory": {"type": "sliding_window_tokens"}}, "memory.limit", "how many tokens"),
        ({"memory": {"type": "sliding_window", "limit": 1}}, "memory.limit", "at least 2"),
        ({"memory": {"type": "sliding_window_tokens", "limit": 0}}, "memory.limit", "1"),
        ({"memory": {"type": "sliding_window", "limit": "5"}}, "memory.limit", "whole number"),
        ({"memory": {"type": "conversation", "limit": 5}}, "memory.limit", "sliding_window"),
        ({"memory": {"type": "none", "limit": 5}}, "memory.limit", "leave it out"),
        ({"memory": {"type": "none", "key": "k"}}, "memory.key", "not used"),
        ({"memory": {"type": "conversation", "key": " "}}, "memory.key", "no space"),
        ({"memory": {"type": "conversation", "key": ""}}, "memory.key", "empty"),
        ({"memory": {"type": "conversation", "key": "x" * 201}}, "memory.key", "200"),
        ({"memory": {"type": "conversation", "key": "{{ input.user"}}, "memory.key", "template syntax"),
        ({"redact": {}}, "redact", None),
        (
            {"redact": {"mode": "live", "detectors": ["email"], "mask": "<{kind}>", "applies": ["tools"]}},
            "redact",
            None,
        ),
        ({"redact": "strict"}, "redact", "object"),
        ({"redact": {"mode": "lax"}}, "redact.mode", "strict or live"),
        ({"redact": {"modus": "live"}}, "redact.modus", "mode"),
        ({"redact": {"detectors": "email"}}, "redact.detectors", "list"),
        ({"redact": {"mask": "{name}"}}, "redact.mask", "{kind}"),
        ({"redact": {"mask": "x" * 41}}, "redact.mask", "40"),
        ({"redact": {"applies": ["output"]}}, "redact.applies[0]", "answer"),
        ({"redact": {"applies": []}}, "redact.applies", "at least one"),
        ({"fallbacks": ["closed/one"]}, "fallbacks", None),
        ({"fallbacks": ["closed/two"]}, "fallbacks[0]", "it has: one"),
        ({"fallbacks": ["open/one"]}, "fallbacks[0]", "asked already"),
        ({"fallbacks": ["closed/one", "closed/one"]}, "fallbacks[1]", "asked already"),
        ({"fallbacks": "closed/one"}, "fallbacks", "list"),
        ({"fallbacks": [f"open/m{n}" for n in range(9)]}, "fallbacks", "at most 8"),
        ({"files": "{{ input.files }}"}, "files", None),
        ({"files": "{{ input.files"}, "files", "template syntax"),
        ({"files": "x.png"}, "files", "{{ input.files }}"),
        ({"files": {"url": "https://x/y"}}, "files", "list of files"),
        ({"files": ["https://x/y.png", "{{ input.one }}", {"text": "a"}]}, "files", None),
        ({"files": [{"data": "{{ input.d }}"}, {"url": "{{ input.u }}", "name": "n"}]}, "files", None),
        ({"files": ["ftp://x/y"]}, "files[0].url", "http://"),
        ({"files": [{"url": "file:///etc/passwd"}]}, "files[0].url", "http://"),
        ({"files": [{"data": "not base64!"}]}, "files[0]", "base64"),
        ({"files": [{"data": "data:image/png;base64"}]}, "files[0]", "comma"),
        ({"files": [{"text": "a", "url": "https://x/y"}]}, "files[0]", "one of url, data, text and file"),
        ({"files": [{"name": "a"}]}, "files[0]", "one of url, data, text and file"),
        ({"files": [{"txt": "a"}]}, "files[0].txt", '"text"'),
        ({"files": [7]}, "files[0]", "object"),
        ({"files": ["{{ x"]}, "files[0]", "template syntax"),
        ({"files": [{"text": "a"}] * 16}, "files", "at most 15"),
        ({"call_timeout_s": 0}, "call_timeout_s", "from"),
        ({"prompt_cache": "yes"}, "prompt_cache", "true or false"),
        ({"capture": "yes"}, "capture", "true or false"),
        ({"capture": True, "tools": [{"name": "release", "result": 1}]}, "tools[0]", "lets go"),
        ({"timeout_s": 0}, "timeout_s", "above 0"),
        ({"on_error": "ignore"}, "on_error", "fail | continue"),
    ],
)
def test_an_agents_config_is_checked(config, path, cure):
    found = told(chain(START_BLOCK, agent(**config)))
    if cure is None:
        assert found == {}
    else:
        assert cure in found[f"blocks[1].config.{path}"]
        assert len(found) == 1


def test_good_tools_in_every_form():
    tools = [
        "clock",
        {"name": "calculator", "approval": "never"},
        {"name": "fixed", "result": None},
        {
            "name": "open",
            "description": "d",
            "parameters": {"type": "object"},
            "result": {"a": "{{ not a template"},
        },
        {
            "name": "call",
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
            "http": {
                "method": "POST",
                "url": "{{ vars.base }}/x",
                "headers": {"A": "{{ args.q }}"},
                "query": {"n": 1},
                "body": {"q": "{{ args.q }}"},
                "timeout_s": 5,
            },
        },
    ]
    workflow = compiled(chain(START_BLOCK, agent(tools=tools, tool_choice="call")))
    assert workflow.blocks["a"].config.tools == tools


def test_what_may_be_a_mistake_is_a_warning():
    workflow = compiled(
        chain(START_BLOCK, agent(model="open/new", prompt="{{ inptu.x }}{{ blocks.b.content }}"))
    )
    assert [w.path for w in workflow.warnings] == [
        "blocks[1].config.model",
        "blocks[1].config.prompt",
        "blocks[1].config.prompt",
    ]
    assert 'Did you mean "input"' in workflow.warnings[1].message


@pytest.mark.parametrize("approval", ["always", "ask_once"])
def test_a_tool_that_needs_approval_is_right_in_every_form(approval):
    tools = [
        {"name": "clock", "approval": approval},
        {"name": "fixed", "result": 1, "approval": approval, "approval_deadline_s": 3600},
        {"name": "call", "http": {"url": "https://x/y"}, "approval": approval, "approval_deadline_s": 0.5},
        {"name": "free", "result": 1, "approval": "never"},
    ]
    assert compiled(chain(START_BLOCK, agent(tools=tools))).warnings == ()


def test_a_field_of_an_answer_that_every_agent_has_is_a_warning():
    schema = {"type": "object", "properties": {"content": {}, "city": {}, "model": {}}}
    workflow = compiled(chain(START_BLOCK, agent(response_format=schema)))
    assert [w.path for w in workflow.warnings] == [
        "blocks[1].config.response_format.properties.content",
        "blocks[1].config.response_format.properties.model",
    ]


def test_null_means_unset():
    document = chain(
        {**START_BLOCK, "name": None, "config": None, "position": None},
        agent(thinking=None, tools=None, tool_choice=None, timeout_s=None, retries=None),
        variables=None,
        settings={"timeout_s": None, "public": None},
    )
    workflow = compiled(document)
    assert workflow.settings == WorkflowSettings()
    assert workflow.blocks["a"].config.tools == []
    assert compiled({**document, "settings": None}).settings == WorkflowSettings()


def test_what_every_block_takes_is_in_its_config():
    response = {
        "id": "r",
        "type": "response",
        "config": {"timeout_s": 2.5, "retries": 2, "on_error": "continue"},
    }
    block = compiled(chain(START_BLOCK, agent(timeout_s=3), response)).blocks["r"]
    assert (block.timeout_s, block.retries, block.on_error) == (2.5, 2, "continue")
    found = told(chain(START_BLOCK, {**agent(), "timeout_s": 3}))
    assert found == {"blocks[1].timeout_s": "belongs into the block's config"}


def test_a_type_with_a_field_of_that_name_gets_it_itself():
    block = compiled(chain(START_BLOCK, agent(retries=2))).blocks["a"]
    assert (block.retries, block.config.retries) == (0, 2)


def test_rules_of_the_caller_and_of_the_type_are_asked():
    found = told(
        chain(START_BLOCK, agent()), check_agent=lambda config: [("thinking", f"not with {config.model}")]
    )
    assert found == {"blocks[1].config.thinking": "not with open/one"}


def test_other_defaults_for_settings():
    defaults = WorkflowSettings(timeout_s=30, public=True)
    workflow = compiled(chain(START_BLOCK, agent(), settings={"public": False}), settings=defaults)
    assert workflow.settings == WorkflowSettings(timeout_s=30, public=False)


@pytest.mark.parametrize(
    ("response", "agents"),
    [
        ({}, ("b",)),
        ({"body": "{{ blocks.a.content }}"}, ("a",)),
        ({"body": {"x": ["{{ blocks['b'].content }}", "{{ blocks.a.content }}"]}}, ("a", "b")),
        ({"body": "{{ blocks|tojson }}"}, ("a", "b")),
        ({"body": "{{ blocks[input.which].content }}"}, ("a", "b")),
        ({"body": "{{ blocks.get('a') }}"}, ("a", "b")),
        ({"body": "fixed"}, ()),
        ({"body": "{{ input.blocks }}"}, ()),
    ],
)
def test_agents_whose_output_reaches_the_runs_output(response, agents):
    document = chain(START_BLOCK, agent("a"), agent("b"), {"id": "r", "type": "response", "config": response})
    assert compiled(document).answer_agents() == agents


def test_without_a_response_the_last_agents_answer():
    document = {
        "blocks": [START_BLOCK, agent("a"), agent("b"), agent("c"), agent("oops")],
        "edges": [
            {"source": "start", "target": "a"},
            {"source": "a", "target": "b"},
            {"source": "a", "target": "c"},
            {"source": "b", "target": "oops", "source_handle": "error"},
        ],
    }
    workflow = compiled(document)
    assert workflow.answer_agents() == ("b", "c", "oops")
    assert workflow.predecessors("c") == ("a",)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
_KEYS = sorted(
    {
        "name",
        "blocks",
        "edges",
        "variables",
        "settings",
        "id",
        "type",
        "config",
        "position",
        "source",
        "target",
    }
    | {"source_handle", "model", "tools", "http", "result", "mcp", "parameters", "url", "thinking", "memory"}
    | {
        "response_format",
        "tool_choice",
        "prompt",
        "body",
        "headers",
        "timeout_s",
        "durable",
        "retries",
        "$ref",
    }
)
_words = st.sampled_from(
    [
        "start",
        "agent",
        "response",
        "a",
        "open/one",
        "closed/x",
        "clock",
        "auto",
        "object",
        "{{ input.x }}",
        "{{",
        "#",
    ]
)
_documents = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | _words | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=40,
)
_blocks = st.fixed_dictionaries(
    {"id": _words, "type": _words, "config": st.dictionaries(st.sampled_from(_KEYS), _documents, max_size=6)}
)
_edges = st.fixed_dictionaries({"source": _words, "target": _words}, optional={"source_handle": _documents})
_near = st.fixed_dictionaries(
    {"blocks": st.lists(_blocks | _documents, max_size=5), "edges": st.lists(_edges | _documents, max_size=5)}
)


@settings(max_examples=300, deadline=None)
@given(_json | _documents | _near)
def test_no_json_makes_it_raise_anything_else(document):
    """Either a workflow or problems with paths that a client can be sent."""
    found = problems(document)
    for problem in found:
        encoding.loads(encoding.dumps([problem.path, problem.message]))
    if not found:
        workflow = compiled(document)
        assert workflow.entry in workflow.blocks
        workflow.infos()
        workflow.answer_agents()
