"""What a template may say, decided from its syntax alone.

Law of this room: a template is small, shallow and built from a short list of constructs; anything that
could call itself or reach outside (macros, includes, blocks, recursive loops) is refused here, before a
run. What may be spent while rendering is bounded in ``app/agents/templates.py``, which renders exactly
the filters and tests listed here.
"""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import jinja2
from jinja2 import nodes

from app.schemas.paths import did_you_mean


def words(text: str) -> frozenset[str]:
    """The words of a text: a list of names in a few lines."""
    return frozenset(text.split())


#: Characters of one template, tags in it, nodes of its syntax tree, nesting of expressions and of loops.
MAX_SOURCE = 256 * 1024
MAX_TAGS = 2_000
MAX_NODES = 20_000
MAX_DEPTH = 60
MAX_LOOPS = 6

FILTERS = words(
    "abs b64encode batch capitalize center cited count d default dictsort first float format groupby indent int items "
    "join last length list lower map max min reject rejectattr replace reverse round select selectattr "
    "slice sort string sum title tojson trim truncate unique upper urlencode wordcount wordwrap"
)
TESTS = words(
    "boolean defined divisibleby eq equalto even false float ge greaterthan gt in integer iterable le "
    "lessthan lower lt mapping ne none number odd sequence string true undefined upper == != > >= < <="
)
#: Names a template finds without having set them; ``secrets`` only where a field is secret-safe.
NAMES = ("input", "blocks", "vars", "loop", "args")
GLOBALS = ("range", "namespace")
#: In :func:`references`: the template uses ``blocks`` in a way that may reach any block.
ANY_BLOCK = "*"

_EXPRESSIONS: tuple[type[nodes.Node], ...] = (
    nodes.Name, nodes.NSRef, nodes.Const, nodes.TemplateData, nodes.Tuple, nodes.List, nodes.Dict, nodes.Pair,
    nodes.Keyword, nodes.CondExpr, nodes.Filter, nodes.Test, nodes.Call, nodes.Getitem, nodes.Getattr, nodes.Slice,
    nodes.Concat, nodes.Compare, nodes.Operand, nodes.BinExpr, nodes.UnaryExpr,
)  # fmt: skip
_STATEMENTS: tuple[type[nodes.Node], ...] = (
    nodes.Template, nodes.Output, nodes.For, nodes.If, nodes.Assign, nodes.AssignBlock, nodes.With, nodes.FilterBlock,
)  # fmt: skip
_PLAIN = jinja2.Environment(keep_trailing_newline=True)  # parses only; what comes out is no HTML


class TemplateRefused(ValueError):
    """A template that cannot be used; the text says where and what to write instead."""


@dataclass(frozen=True, slots=True)
class Template:
    """What is known of a template without rendering it.

    :ivar blocks: ids it reads from ``blocks``; :data:`ANY_BLOCK` when that cannot be told.
    :ivar unknown: names it uses that nothing sets.
    :ivar secrets: names it reads from ``secrets``.
    """

    blocks: frozenset[str]
    unknown: tuple[str, ...]
    secrets: frozenset[str]


def is_template(source: str) -> bool:
    """Whether there is anything to render; other text is itself."""
    return "{{" in source or "{%" in source or "{#" in source


def braced(expression: str) -> str:
    """An expression as the template that gives its value; it may have its braces already."""
    return expression if is_template(expression) else "{{ " + expression + " }}"


def in_braces(value: t.Any, expression: bool | str) -> t.Any:
    """``value`` with its expressions :func:`braced`, so that they can be judged as templates.

    :param expression: whether a text here is one; or the member that is one, in each object of a list, and then a text
        in the list is one, too.
    """
    if expression is True and isinstance(value, str):
        return braced(value)
    if isinstance(expression, str) and isinstance(value, (list, tuple)):
        return [_member_in_braces(item, expression) for item in value]
    return value


def _member_in_braces(item: t.Any, name: str) -> t.Any:
    if isinstance(item, str):
        return braced(item)
    there = isinstance(item, Mapping) and isinstance(item.get(name), str)
    return {**item, name: braced(item[name])} if there else item


def check(source: str) -> str | None:
    """What is wrong with a template's syntax, with the line; None when nothing is."""
    try:
        inspect(source)
    except TemplateRefused as refused:
        return str(refused)
    return None


def references(source: str) -> set[str]:
    """Ids of the blocks a template reads as ``blocks.<id>`` or ``blocks['<id>']``.

    Contains :data:`ANY_BLOCK` when it uses ``blocks`` in any other way. Empty for a template that is refused.
    """
    try:
        return set(inspect(source).blocks)
    except TemplateRefused:
        return set()


@functools.lru_cache(maxsize=1024)
def inspect(source: str) -> Template:
    """Parse and judge a template.

    :raises TemplateRefused: it does not parse, uses what templates have not, or is too large or deep.
    """
    if not is_template(source):
        return Template(frozenset(), (), frozenset())
    tree = parse(source, _PLAIN)
    # Not jinja2.meta: it computes constants, and {{ 1|round(-999999999) }} takes for ever.
    used: dict[str, None] = {}
    stored = set(GLOBALS)
    for name in tree.find_all(nodes.Name):
        if name.ctx == "load":
            used.setdefault(name.name)
        else:
            stored.add(name.name)
    undeclared = [name for name in used if name not in stored]
    unknown = tuple(n for n in undeclared if n not in NAMES and n != "secrets")
    secrets = frozenset(_secrets_read(tree)) if "secrets" in undeclared else frozenset[str]()
    return Template(frozenset(_blocks_read(tree)), unknown, secrets)


def parse(source: str, environment: jinja2.Environment) -> nodes.Template:
    """The checked syntax tree of a template.

    :raises TemplateRefused: see :func:`inspect`.
    """
    if len(source) > MAX_SOURCE:
        raise TemplateRefused(
            f"the template is longer than {MAX_SOURCE} characters; move text into variables"
        )
    if source.count("{{") + source.count("{%") > MAX_TAGS:
        raise TemplateRefused(f"the template has more than {MAX_TAGS} tags; use a for loop")
    try:
        tree = environment.parse(source)
    except jinja2.TemplateSyntaxError as error:
        message = str(error.message).replace("'end of print statement'", '"}}"')
        raise TemplateRefused(f"template syntax, line {error.lineno}: {message}") from None
    except (RecursionError, ValueError, OverflowError):
        # ValueError: a number literal of more digits than Python converts.
        raise TemplateRefused(
            "the template is nested too deeply or holds a number that is too long"
        ) from None
    _judge(tree)
    return tree


def _judge(tree: nodes.Template) -> None:
    count = 0
    stack: list[tuple[nodes.Node, int, int]] = [(tree, 0, 0)]
    while stack:
        node, depth, loops = stack.pop()
        count += 1
        if count > MAX_NODES:
            raise TemplateRefused(f"the template has more than {MAX_NODES} parts; split it up")
        if depth > MAX_DEPTH:
            raise TemplateRefused(
                f"line {node.lineno}: nested deeper than {MAX_DEPTH} levels; use set for parts"
            )
        problem = _problem_of(node)
        if problem:
            raise TemplateRefused(f"line {node.lineno}: {problem}")
        loops += isinstance(node, nodes.For)
        if loops > MAX_LOOPS:
            raise TemplateRefused(f"line {node.lineno}: more than {MAX_LOOPS} loops inside one another")
        stack.extend((child, depth + 1, loops) for child in node.iter_child_nodes())


def _problem_of(node: nodes.Node) -> str | None:
    if isinstance(node, nodes.Filter) and node.name not in FILTERS:
        return f'there is no filter "{node.name}". {did_you_mean(node.name, sorted(FILTERS))}'
    if isinstance(node, nodes.Test) and node.name not in TESTS:
        return f'there is no test "{node.name}". {did_you_mean(node.name, sorted(TESTS))}'
    if isinstance(node, (nodes.Call, nodes.Filter, nodes.Test)) and (node.dyn_args or node.dyn_kwargs):
        return "*arguments are not available in templates; write them out"
    if isinstance(node, nodes.For) and node.recursive:
        return "recursive loops are not available in templates; nest for loops"
    if not isinstance(node, (*_EXPRESSIONS, *_STATEMENTS)):
        word = type(node).__name__.lower()
        return f"{word} is not available in templates; there are set, if, for, with, filter and expressions"
    return None


def _blocks_read(tree: nodes.Template) -> Iterator[str]:
    """Block ids in the tree. Every ``blocks`` that is not the object of a known access may mean any block."""
    known: set[int] = set()
    for access in tree.find_all((nodes.Getattr, nodes.Getitem)):
        if isinstance(access, (nodes.Getattr, nodes.Getitem)) and (read := _block_of(access)) is not None:
            known.add(id(access.node))
            yield read
    for name in tree.find_all(nodes.Name):
        if name.name == "blocks" and name.ctx == "load" and id(name) not in known:
            yield ANY_BLOCK


def _secrets_read(tree: nodes.Template) -> Iterator[str]:
    """Names of the secrets in the tree: whose they are and where they go has to be known before a run.

    :raises TemplateRefused: one that cannot be told.
    """
    known: set[int] = set()
    for access in tree.find_all(nodes.Getattr):
        if isinstance(access.node, nodes.Name) and access.node.name == "secrets":
            known.add(id(access.node))
            yield access.attr
    for name in tree.find_all(nodes.Name):
        if name.name == "secrets" and id(name) not in known:
            raise TemplateRefused(f"line {name.lineno}: name the secret, as secrets.NAME")


#: Methods of ``blocks`` itself: after them there is no telling which block is meant.
_METHODS = frozenset({"get", "items", "keys", "values"})


def _block_of(access: nodes.Getattr | nodes.Getitem) -> str | None:
    if not (isinstance(access.node, nodes.Name) and access.node.name == "blocks"):
        return None
    if isinstance(access, nodes.Getattr):
        return None if access.attr in _METHODS else access.attr
    if isinstance(access.arg, nodes.Const) and isinstance(access.arg.value, str):
        return access.arg.value
    return None


def strings_in(value: t.Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every text in a tree of JSON values with the keys and indexes that lead to it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from strings_in(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from strings_in(item, (*path, index))
