"""What templates render."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agents.templates import check, references, render, render_value
from app.errors import RunError

VARIABLES = {
    "input": {
        "message": "hi",
        "n": 3,
        "items": "ITEMS",
        "list": [1, 2, {"a": None}],
        "object": {"b": 1, "a": 2},
        "people": [{"g": 1, "n": "x"}, {"g": 1, "n": "y"}, {"g": 2, "n": "z"}],
        "_private": "p",
        "lone": "a\ud800b",
    },
    "blocks": {"agent_1": {"content": "yes", "toolCalls": {"list": [], "count": 4}}},
    "vars": {"greeting": "hello"},
}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("plain { text } %", "plain { text } %"),
        ("{{ input.message }}!", "hi!"),
        ("a\n{{ input.message }}\n", "a\nhi\n"),
        ("{{ vars.greeting }}, {{ blocks.agent_1.content }}", "hello, yes"),
        ("{{ input.missing }}{{ input.missing.deeper['x'].y[0] }}{{ nothing }}|", "|"),
        ("{{ input.items }} {{ blocks.agent_1.toolCalls.count }}", "ITEMS 4"),
        ("{{ input._private }}", "p"),
        ("{{ input.list }} {{ input.object }}", '[1,2,{"a":null}] {"b":1,"a":2}'),
        ("{{ true }} {{ none }} {{ 1.5 }} {{ input.list[2].a }}", "true  1.5 "),
        ("{{ 'a' ~ 1 ~ none ~ true ~ [1, none] }}", "a1true[1,null]"),
        ("{{ [input.nope] }}{{ {'a': input.nope} }}", '[null]{"a":null}'),
        ("{{ (1, 'a') }}", '[1,"a"]'),
        ("{% for x in input.list %}{{ loop.index }}/{{ loop.length }} {% endfor %}", "1/3 2/3 3/3 "),
        ("{% for k, v in input.object.items() %}{{ k }}{{ v }}{% endfor %}", "b1a2"),
        ("{% for k, v in input.object|dictsort %}{{ k }}{{ v }}{% else %}none{% endfor %}", "a2b1"),
        ("{% for x in input.missing %}x{% else %}none{% endfor %}", "none"),
        ("{% for x in range(5) if x is odd %}{{ x }}{{ loop.cycle('a', 'b') }}{% endfor %}", "1a3b"),
        (
            "{% set s = namespace(n=0) %}{% for i in range(4) %}{% set s.n = s.n + i %}{% endfor %}{{ s.n }}",
            "6",
        ),
        ("{% set x %}y{{ input.n }}{% endset %}{{ x }}{% filter upper %}abc{% endfilter %}", "y3ABC"),
        ("{% with a = 1 %}{{ a }}{% endwith %}{# note #}{% raw %}{{ x }}{% endraw %}", "1{{ x }}"),
        ("{% if input.n > 2 and 'h' in input.message %}a{% elif false %}b{% else %}c{% endif %}", "a"),
        (
            "{{ input.message[:1] }}{{ input.list[-1].a }}{{ input.list[:2] }}{{ input.missing[:2] }}",
            "h[1,2]",
        ),
        (
            "{{ 2 ** 3 }} {{ 7 // 2 }} {{ 7 % 4 }} {{ 'ab' * 2 }} {{ 1 + 2 * 3 - 4 }} {{ 1 / 4 }}",
            "8 3 3 abab 3 0.25",
        ),
        ("{{ [1] + [2] }} {{ [0] * 3 }} {{ -input.n }} {{ 'a' + 'b' }}", "[1,2] [0,0,0] -3 ab"),
        ("{{ '%s-%5.2f|%(x)s' % 1 if false else '%s-%5.2f' % ('a', 1.5) }}", "a- 1.50"),
        ("{{ '%(a)s' % {'a': [1]} }} {{ '%s %s'|format('x', none) }}", "[1] x "),
        (
            "{{ 'a b'.split(' ') }} {{ 'x'.upper() }} {{ ' y '.strip() }} {{ 'ab'.replace('a', 'c') }}",
            '["a","b"] X y cb',
        ),
        ("{{ ','.join(['a', 1]) }} {{ 'a,b'|replace(',', '-') }} {{ [1, 2]|join('+') }}", "a,1 a-b 1+2"),
        (
            "{{ input.object.get('a') }} {{ input.object.get('z', 9) }} {{ input.object.keys() }}",
            '2 9 ["b","a"]',
        ),
        ("{{ input.people|map(attribute='n')|join }} {{ input.people|sum('g') }}", "xyz 4"),
        (
            "{% for g in input.people|groupby('g') %}{{ g.grouper }}:{{ g.list|length }} {% endfor %}",
            "1:2 2:1 ",
        ),
        ("{{ input.people|selectattr('g', 'eq', 1)|map(attribute='n')|list }}", '["x","y"]'),
        (
            "{{ [3, 1, 2]|sort }} {{ [1, 1]|unique|list }} {{ [1, 2]|max }} {{ [1, 2]|first }} {{ 'ab'|last }}",
            "[1,2,3] [1] 2 1 b",
        ),
        (
            "{{ [1, 2, 3]|batch(2) }} {{ [1, 2, 3, 4]|slice(3) }} {{ [1, 2]|reverse|list }}",
            "[[1,2],[3]] [[1,2],[3],[4]] [2,1]",
        ),
        (
            "{{ 'a b c d'|wordwrap(3) }}|{{ 'x\ny'|indent(2, first=true) }}|{{ 'x'|center(3) }}|",
            "a b\nc d|  x\n  y| x |",
        ),
        (
            "{{ 3.7|round|int }} {{ '5'|int + 1 }} {{ 'x'|int(7) }} {{ '1.5'|float }} {{ -3|abs }}",
            "4 6 7 1.5 3",
        ),
        (
            "{{ {'a': 1}|tojson }} {{ {'a': 1}|tojson(indent=1) }} {{ '<'|tojson }}",
            '{"a":1} {\n "a": 1\n} "<"',
        ),
        (
            "{{ 'x y'|title }} {{ 'X'|lower }} {{ 'a b c'|wordcount }} {{ ' a '|trim }} {{ 'ab'|capitalize }}",
            "X Y x 3 a Ab",
        ),
        (
            "{{ 'abcdefghijk'|truncate(5, true) }} {{ 'ä &'|urlencode }} {{ input.zz|default('D') }}",
            "ab... %C3%A4%20%26 D",
        ),
        (
            "{{ input.object|items|list }} {{ 'a' is defined }} {{ input.zz is undefined }}",
            '[["b",1],["a",2]] true true',
        ),
        ("{{ input.lone }}", "a\ufffdb"),
        ("<b>{{ '<' }}</b>", "<b><</b>"),
    ],
)
def test_render(source, text):
    assert render(source, VARIABLES) == text


def test_a_text_that_is_one_expression_keeps_its_type():
    value = {
        "list": "{{ input.list }}",
        "number": ["{{ input.n }}", " {{ input.n }}\n", "{{ input.n }}!", "{{ input.n }}{{ input.n }}"],
        "missing": "{{ input.nope }}",
        "truth": "{{ input.n == 3 }}",
        "lazy": "{{ input.list|map('string') }}",
        "made": "{{ {'a': (input.nope, 1)} }}",
        "plain": "x",
        "kept": [None, 1, True, 2.5],
        "{{ key }}": "text",
        "comment": "{# nothing #}",
        "statement": "{% if true %}1{% endif %}",
    }
    assert render_value(value, VARIABLES) == {
        "list": [1, 2, {"a": None}],
        "number": [3, 3, "3!", "33"],
        "missing": None,
        "truth": True,
        "lazy": ["1", "2", '{"a":null}'],
        "made": {"a": [None, 1]},
        "plain": "x",
        "kept": [None, 1, True, 2.5],
        "{{ key }}": "text",
        "comment": "",
        "statement": "1",
    }


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("a\n{{ 1 / 0 }}", "line 2: division by zero"),
        ("{{ nothing() }}", "'nothing' is undefined"),
        ("{{ input.n() }}", "can be called"),
        ("{{ input.n + 'x' }}", "TypeError"),
        ("{{ input.nope + 1 }}", "no attribute 'nope'"),
        ("{{ 'secret'|int + 'x' }}", "TypeError"),
        ("{% macro f() %}{% endmacro %}", "macro is not available"),
        ("{{ x", "template syntax"),
    ],
)
def test_a_failure_has_the_line_and_the_reason(source, reason):
    with pytest.raises(RunError) as caught:
        render(source, VARIABLES)
    assert caught.value.code == "template_failed"
    assert reason in caught.value.message


def test_a_failure_shows_no_value_of_the_run():
    with pytest.raises(RunError) as caught:
        render("{{ input.key + 1 }}{{ [input.key]|sum }}", {"input": {"key": "sk-secret"}})
    assert "sk-secret" not in caught.value.message


@pytest.mark.parametrize(
    ("source", "blocks"),
    [
        ("{{ blocks.a.content ~ blocks['b c'].x }}", {"a", "b c"}),
        ("{% for x in blocks.a.list %}{% if blocks.d %}{% endif %}{% endfor %}", {"a", "d"}),
        ("{{ blocks }}", {"*"}),
        ("{{ blocks[input.x] }}", {"*"}),
        ("{{ blocks.values() }}", {"*"}),
        ("{{ input.blocks.a }}", set()),
        ("blocks.a", set()),
        ("{{ blocks.a", set()),
    ],
)
def test_references(source, blocks):
    assert references(source) == blocks


def test_check_says_what_is_wrong_and_where():
    assert check("{{ input.x }}") is None
    assert check("no template") is None
    assert "line 2" in (check("a\n{% for %}") or "")
    assert '"upper"' in (check("{{ x|uper }}") or "")


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(), _json)
def test_text_of_users_is_never_a_template(message, extra):
    """What comes in as input goes out as it is, however it looks."""
    message = message + "{{ 7 * 7 }}{% for"
    assert render("{{ input.message }}", {"input": {"message": message, "x": extra}}) == message
    assert render_value("{{ input }}", {"input": {"message": message}}) == {"message": message}


_pieces = st.sampled_from(
    ["{{", "}}", "{%", "%}", "{#", "#}", " input", ".x", "[", "]", "(", ")", "|", "upper", "for ", "in ", "if ", "end",
     "1", "'", "~", "*", " is ", "not ", "set ", "=", ",", "{", "}", "range", "\n"]
)  # fmt: skip


@given(st.lists(_pieces, max_size=25).map("".join))
def test_any_source_renders_or_fails_as_a_template(source):
    code = None
    try:
        assert isinstance(render(source, {"input": {"x": [1, "a"]}}), str)
    except RunError as error:
        code = error.code
    assert code == "template_failed" or (code is None and check(source) is None)
