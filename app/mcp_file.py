"""The file of MCP servers that ``STUDIO_MCP_SERVERS`` names, in the format other clients of MCP use too.

Law of this room: pure but for reading that one file; what is wrong in it is told as one ValueError with all of it.
``${NAME}`` is left as it is: values come from the environment of the moment a server is used.
"""

from __future__ import annotations

import json
import re
import typing as t
from collections.abc import Mapping
from pathlib import Path

import yaml

from plugins.spec.mcp import McpServer

NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
MAX_BYTES = 1024 * 1024
_SHAPE = '{"mcpServers": {"NAME": {"command": …, "args": […]} or {"url": …}}}'
#: What other programs write beside ``command`` or ``url`` to say which of the two it is.
_STDIO, _HTTP = ("stdio",), ("http", "streamable-http", "streamable_http", "streamableHttp")


def read(path: str) -> Mapping[str, McpServer]:
    """The servers of a JSON or YAML file, by name; those marked ``disabled`` are left out.

    :raises ValueError: the file cannot be read or used; with the cure.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror}); name a JSON or YAML file") from None
    if len(data) > MAX_BYTES:
        raise ValueError(f"is larger than {MAX_BYTES} bytes")
    try:
        return servers(_tree(data.decode("utf-8-sig")))
    except UnicodeDecodeError:
        raise ValueError("is not in UTF-8") from None


def _tree(text: str) -> t.Any:
    """The value in a file. JSON is not taken for YAML, which has no tabs and other escapes.

    :raises ValueError: it is neither, or holds a key twice; what is there is not said, since it may be a secret.
    """
    wrong = ""
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text, object_pairs_hook=_once)
        except json.JSONDecodeError as error:
            wrong = f"line {error.lineno}, column {error.colno}: {error.msg}"
        except RecursionError as error:
            wrong = type(error).__name__
    try:
        return yaml.load(text, Loader=_Loader)  # a safe one
    except (yaml.YAMLError, RecursionError) as error:
        wrong = wrong or _place(error)
    raise ValueError(f"is neither JSON nor YAML ({wrong}); write {_SHAPE}")


def _place(error: Exception) -> str:
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    if mark is None:
        return type(error).__name__
    problem = t.cast(yaml.MarkedYAMLError, error).problem
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


def _once(pairs: list[tuple[str, t.Any]]) -> dict[str, t.Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"names {next(name for name in names if names.count(name) > 1)[:60]!r} twice")
    return made


class _Loader(yaml.SafeLoader):
    """YAML in which no key is there twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[t.Any, t.Any]:
        """See the class."""
        _once([(key.value, None) for key, _ in node.value if isinstance(key, yaml.ScalarNode)])
        return super().construct_mapping(node, deep)


def servers(tree: t.Any) -> Mapping[str, McpServer]:
    """The servers of a parsed file; see :func:`read`."""
    listed = (
        next((tree[key] for key in ("mcpServers", "servers") if key in tree), None) if _object(tree) else None
    )
    if not _object(listed):
        raise ValueError(f"holds no servers; write {_SHAPE}")
    found: dict[str, McpServer] = {}
    problems: list[str] = []
    for name, raw in listed.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            problems.append(f"the name {str(name)[:60]!r} must match {NAME.pattern}")
        elif not _object(raw):
            problems.append(f"{name} must be an object with command or url")
        elif raw.get("disabled") is not True:
            wrong = list(_problems(raw))
            problems += [f"{name}: {problem}" for problem in wrong]
            if not wrong:
                found[name] = _server(name, raw)
    if problems:
        raise ValueError("; ".join(problems))
    return found


def _object(value: t.Any) -> t.TypeGuard[Mapping[t.Any, t.Any]]:
    return isinstance(value, Mapping)


def _server(name: str, raw: Mapping[str, t.Any]) -> McpServer:
    return McpServer(
        name,
        raw.get("command"),
        tuple(raw.get("args") or ()),
        dict(raw.get("env") or {}),
        raw.get("cwd"),
        raw.get("url"),
        dict(raw.get("headers") or {}),
        trusted=True,
    )


def _problems(raw: Mapping[str, t.Any]) -> t.Iterator[str]:
    """Keys that Studio does not know are other programs' business."""
    command, url, kind = raw.get("command"), raw.get("url"), raw.get("type", raw.get("transport"))
    if (command is None) == (url is None):
        yield "give command or url, one of them"
    elif kind == "sse":
        yield "the transport sse is not spoken; give the server's streamable HTTP address"
    elif kind is not None and kind not in (_STDIO if url is None else _HTTP):
        yield f"type {str(kind)[:40]!r} does not fit; leave it out"
    for key in ("command", "url", "cwd"):
        if raw.get(key) is not None and not (isinstance(raw[key], str) and raw[key].strip()):
            yield f"{key} must be text"
    if isinstance(url, str) and not url.lower().startswith(("http://", "https://", "${")):
        yield "url must begin with http:// or https://"
    args = raw.get("args")
    if args is not None and not (isinstance(args, list) and all(isinstance(arg, str) for arg in args)):
        yield "args must be a list of texts"
    for key in ("env", "headers"):
        given = raw.get(key)
        if given is not None and not (
            _object(given) and all(isinstance(v, str) for kv in given.items() for v in kv)
        ):
            yield f"{key} must be an object of texts"
