"""Pages made from what the built-in plugins offer: block types, tools, scripts.

Law of this room: the same objects as at run time, of the built-in plugins only, so that what happens to be
installed here does not change a page.
"""

from __future__ import annotations

import inspect
import json
import re
import typing as t
from functools import cache

from docs._tools.markdown import code, prose, table

#: A term alone on its line, and what it means indented below it.
_TERM = re.compile(r"^(``[\w-]+``[^\n]*)\n((?: {4}\S.*\n)+)", re.MULTILINE)
_LAST_COMMA = re.compile(r",(\s*[}\]])")


@cache
def registry() -> t.Any:
    """What the built-in plugins add up to."""
    from app import builtins, config
    from plugins.manager import create_manager
    from plugins.registry import Registry

    made = Registry(create_manager(entry_points=False, builtins=builtins.plugins(config.load({}))))
    broken = [f"{row.name}: {row.error}" for row in made.manager.report() if row.error]
    if broken:  # a server goes on without a broken part; a page must not
        raise RuntimeError("; ".join(broken))
    return made


def blocks() -> str:
    """One section per block type, from its configuration class."""
    from app.schemas.derive import describe

    sections = [
        "# Block types",
        "Fields of `config`. Every block also takes [`timeout_s`, `retries` and "
        "`on_error`](../workflow-document.md#when-a-block-fails). Templates are Jinja2; what they "
        "see is described in [The workflow document](../workflow-document.md).",
    ]
    for name, block in sorted(registry().block_types.items()):
        rows = [
            (f"`{doc.name}`", doc.type, "required" if doc.required else _default(doc.default), doc.doc)
            for doc in describe(block.config)
        ]
        handles = ", ".join("plain" if handle == "" else f"`{handle}`" for handle in block.handles)
        sections += [
            f"## {name}",
            block.summary,
            f"Outgoing edges: {handles}." if handles else "",
            table(("Field", "Type", "Default", "Meaning"), rows),
        ]
        if name == "agent":
            sections += [_MODELS, "<!-- capabilities:begin -->\n<!-- capabilities:end -->"]
    return "\n\n".join(part for part in sections if part)


_MODELS = (
    "What an agent may ask of each model; anything else is a 400 that names what there is, before a run exists. Models that "
    "take the same share a row; `…` is any model of the family. What they show is in [Capabilities](../capabilities.md)."
)


def _default(value: t.Any) -> str:
    return "" if value in (None, [], {}, "") else f"`{value}`"


def checks() -> str:
    """The kinds of checks a guardrail can make."""
    from app.agents.guard_checks import KINDS
    from app.schemas.derive import describe

    rows = []
    for kind, made in KINDS.items():
        fields = [
            f"`{doc.name}`{'' if doc.required else '?'}: {_lower(doc.doc)}"
            for doc in describe(made)
            if doc.name != "name"
        ]
        rows.append((f"`{kind}`", prose(made.__doc__), "; ".join(fields)))
    return table(("kind", "what it does", "fields"), rows)


def _lower(text: str) -> str:
    """A sentence as part of another one."""
    return text[:1].lower() + text[1:].rstrip(".")


def tools() -> str:
    """Registered tools with their parameters."""
    sections = [
        "# Tools",
        "Tools an agent can name in `tools`. Inline ones need no code: see "
        "[The workflow document](../workflow-document.md#tools).",
    ]
    for name, tool in sorted(registry().tools.items()):
        schema = json.dumps(dict(tool.parameters), indent=2, ensure_ascii=False)
        sections += [f"## {name}", tool.description, code(schema, "json")]
    return "\n\n".join(sections)


def scripts() -> str:
    """The scripted family: its file format and the scripts that come with it."""
    from providers import script_schema, scripted

    shipped = scripted.Scripts()
    rows = [(f"`scripted/{name}`", shipped.load(name).description) for name in shipped.names()]
    return "\n\n".join(
        [
            "# The scripted family",
            "A model that says what a file tells it to, word by word, with the delays, tool calls, errors and stalls the "
            "file asks for. It is there for demos and tests and says so in its name: no model runs. "
            "`scripted/NAME` is `STUDIO_SCRIPTS_DIR/NAME.yaml`, else one of these:",
            table(("Model", "What it shows"), rows),
            "## Writing a script",
            _literal_blocks(script_schema.__doc__ or ""),
        ]
    )


def recordings() -> str:
    """How recorded answers are kept, for the page about plugins."""
    from plugins.conformance import recordings as module

    text, _, _ = inspect.cleandoc(module.__doc__ or "").partition("Law of this room:")
    _, _, text = text.partition("\n\n")  # the title, which the page has
    text = _TERM.sub(lambda found: f"- {found[1]}: {' '.join(found[2].split())}\n", text)
    page = _literal_blocks(text, "json")
    head, fence, rest = page.partition("```json\n")
    sample, end, tail = rest.partition("```")
    sample = _LAST_COMMA.sub(r"\1", sample)
    json.loads(sample)  # readers copy it
    return head + fence + sample + end + tail


def _literal_blocks(docstring: str, language: str = "yaml") -> str:
    """A docstring whose ``::`` paragraphs become fenced blocks."""
    out: list[str] = []
    open_block = False
    fence = f"```{language}"
    for line in prose(docstring).splitlines():
        indented = line.startswith("    ") or not line
        if open_block and not indented:
            while out[-1] == "":
                out.pop()
            out += ["```", ""]
            open_block = False
        if line.endswith("::"):
            out += [line.removesuffix(":"), "", fence]
            open_block = True
        elif not (open_block and out[-1] == fence and not line):
            out.append(line.removeprefix("    ") if open_block else line)
    return "\n".join([*out, "```"] if open_block else out)
