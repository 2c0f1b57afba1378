"""Workflow documents as text: JSON or YAML in, YAML out.

Law of this room: a parsed document is a plain tree of JSON values, bounded in size and depth, with
text keys. YAML is read by the core rules of YAML 1.2 (``yes`` and ``12:30`` are text, a date is
text), a repeated key is an error, and what :func:`export` writes parses to the same tree.
"""

from __future__ import annotations

import math
import re
import typing as t
from collections.abc import Callable, Hashable, Mapping

import yaml

from app import encoding
from app.errors import Problem, ValidationFailed
from app.schemas.paths import join, shown

#: Values in one document. An alias bomb of YAML, nine lines long, stands for a thousand million.
MAX_VALUES = 200_000
MAX_DEPTH = 100
#: Characters of a YAML text: its reader takes some seconds for a million. JSON may be as long as a body.
MAX_YAML = 1024 * 1024
_TOO_MANY = f"the document holds more than {MAX_VALUES} values"


def parse(source: str | Mapping[str, t.Any], pause: Callable[[], None] = lambda: None) -> dict[str, t.Any]:
    """A document from its text (JSON or YAML), or a checked copy of one that is parsed already.

    :param pause: called now and then, so that others may go on.
    :raises ValidationFailed: it does not parse, repeats a key, is no object, too large or too deep.
    """
    value = _read(source, pause) if isinstance(source, str) else source
    problems: list[Problem] = []
    tree = _Tree(problems, pause).copy(value, "", 0)
    if not problems and not isinstance(tree, dict):
        cure = 'write an object such as {"name": ..., "blocks": [...]}'
        problems.append(Problem("", f"a workflow document must be an object, not {shown(value)}; {cure}"))
    if problems:
        raise ValidationFailed(problems)
    return t.cast("dict[str, t.Any]", tree)


def export(document: Mapping[str, t.Any]) -> str:
    """A document as YAML in its own key order, for people to read, edit and import again."""
    return yaml.dump(encoding.plain(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def name_of(document: t.Any, otherwise: str = "Untitled") -> str:
    """What a workflow with this draft is called; a draft may be of any shape.

    :param otherwise: where it says nothing.
    """
    name = document.get("name") if isinstance(document, Mapping) else None
    return name[:255] if isinstance(name, str) and name.strip() else otherwise


def _read(text: str, pause: Callable[[], None]) -> t.Any:
    # Text that begins as JSON is mostly JSON, but {a: 1} is YAML.
    if text.lstrip()[:1] in ("{", "["):
        try:
            return encoding.loads(text)
        except ValueError:
            pass
    if len(text) > MAX_YAML:
        raise ValidationFailed([Problem("", f"the YAML is longer than {MAX_YAML} characters; send JSON")])
    try:
        return _Loader(text, pause).get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ValidationFailed(
            [Problem("", f"the document is neither JSON nor YAML: {error.problem or error.context}{where}")]
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        first = str(error).partition("\n")[0]
        raise ValidationFailed([Problem("", f"the document is neither JSON nor YAML: {first}")]) from None
    except RecursionError:
        raise ValidationFailed(
            [Problem("", f"the document is nested deeper than {MAX_DEPTH} levels")]
        ) from None


class _Tree:
    """Copies a value as a plain tree while counting; aliases are spelled out, so cycles end at the limits."""

    def __init__(self, problems: list[Problem], pause: Callable[[], None]) -> None:
        self._problems = problems
        self._pause = pause
        self._left = MAX_VALUES

    def copy(self, value: t.Any, path: str, depth: int) -> t.Any:
        self._left -= 1
        if self._left < 0:
            if self._left == -1:
                self._say("", _TOO_MANY)
            return None
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, str):
            return encoding.clean_text(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                self._say(path, "must be a finite number; JSON has no infinity and no NaN")
            return value
        if depth >= MAX_DEPTH:
            self._say(path, f"is nested deeper than {MAX_DEPTH} levels")
            return None
        self._pause()
        if isinstance(value, Mapping):
            return {
                (name := _key(key)): self.copy(item, join(path, name), depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.copy(item, join(path, index), depth + 1) for index, item in enumerate(value)]
        self._say(path, f"must be a JSON value, not a {type(value).__name__}")
        return None

    def _say(self, path: str, message: str) -> None:
        # A bomb's every leaf is too deep; a few are enough to see it.
        if len(self._problems) < 20:
            self._problems.append(Problem(path if len(path) <= 200 else path[:200] + "…", message))


def _key(key: t.Any) -> str:
    return encoding.clean_text(key) if isinstance(key, str) else encoding.dumps(key).decode()


class _Loader(yaml.SafeLoader):
    """Safe loading by YAML 1.2's core schema; a repeated key is an error, and so are more values than may be."""

    def __init__(self, text: str, pause: Callable[[], None]) -> None:
        super().__init__(text)
        self._pause = pause
        self._left = 2 * MAX_VALUES  # keys are nodes as well

    def compose_node(self, parent: t.Any, index: t.Any) -> t.Any:
        """See PyYAML."""
        self._pause()
        self._left -= 1
        if self._left < 0:
            raise ValidationFailed([Problem("", _TOO_MANY)])
        return super().compose_node(parent, index)

    def scan_line_break(self) -> t.Any:
        """See PyYAML; one value may be all of the text."""
        self._pause()
        return super().scan_line_break()  # type: ignore[no-untyped-call]

    def construct_object(self, node: t.Any, deep: bool = False) -> t.Any:
        """See PyYAML."""
        self._pause()
        return super().construct_object(node, deep)

    def construct_mapping(self, node: t.Any, deep: bool = False) -> dict[Hashable, t.Any]:
        """See PyYAML; refuses what it would overwrite in silence."""
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge" or not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    None, None, f'the key "{key.value[:100]}" is there twice', key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Writes what :class:`_Loader` reads back unchanged; text of several lines as a block."""

    def ignore_aliases(self, data: t.Any) -> bool:
        """Equal parts are written out, not linked."""
        return True


def _int_core(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = node.value
    if text[:2] == "0o":
        return int(text[2:], 8)
    return int(text, 16) if text[:2] == "0x" else int(text)


def _float_core(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    text = node.value.lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


_CORE: tuple[tuple[str, str, str], ...] = (
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
    ("merge", r"<<", "<"),
)


def _use_core_rules(cls: t.Any) -> None:
    """Replace YAML 1.1's guesses (``no``, ``1:30``, ``2024-01-01``, ``=``) by the core rules of 1.2."""
    cls.yaml_implicit_resolvers = {}
    for tag, pattern, first in _CORE:
        initials = [""] if first == "\0" else [("" if c == "\0" else c) for c in first]
        cls.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"^(?:{pattern})$"), initials)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    if any(rare in value for rare in "\x85\u2028\u2029"):
        style = '"'  # line breaks to YAML 1.1, which folds them away where they are not escaped
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_use_core_rules(_Loader)
_use_core_rules(_Dumper)
_Loader.add_constructor("tag:yaml.org,2002:int", _int_core)
_Loader.add_constructor("tag:yaml.org,2002:float", _float_core)
_Dumper.add_representer(str, _text)
