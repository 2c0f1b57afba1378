"""What the code must look like: budgets, doors, docstrings, names kept equal to what they describe.

Law of this room: a rule that a linter can hold is in ruff.toml or setup.cfg; here are those that no linter
knows. A failure names the file, the line and the cure.
"""

from __future__ import annotations

import ast
import configparser
import os
import subprocess
import sys
import typing as t
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.support.shared import ROOT

PACKAGES = ("app", "plugins", "providers")
TOP = ("wsgi.py", "gunicorn.conf.py", "studio_plugin.py")
FILE_LINES, FUNCTION_LINES = 600, 80

#: Modules that nobody but these files and folders may import. import-linter holds the doors of outside
#: packages; it sees the standard library only by its first name, and nothing inside functions by reason.
DOORS: dict[str, tuple[str, ...]] = {
    # app/web/relay.py asks another worker of this host, on its own socket.
    "http.client": ("providers/", "app/net", "app/cli/", "app/web/relay.py"),
    "urllib.request": (),
    "sqlite3": ("app/store/",),
    # Never in a process that gevent has patched.
    "asyncio": ("app/engine/mcp_host/", "app/net/guarded_transport.py"),
    "gevent.subprocess": ("providers/", "app/cli/", "app/engine/mcp_pipe.py"),
    "subprocess": ("providers/", "app/cli/"),
}


@cache
def sources() -> tuple[Path, ...]:
    """Every module of the program."""
    found = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return (*found, *(ROOT / name for name in TOP if (ROOT / name).exists()))


@cache
def tree(path: Path) -> ast.Module:
    """``path``, parsed."""
    return ast.parse(path.read_text(), str(path))


def rel(path: Path) -> str:
    """``path`` as people write it."""
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> t.Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a module, nested ones too."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imports(path: Path) -> t.Iterator[tuple[int, str]]:
    """(line, dotted name) of all that a module imports, wherever it does."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def test_files_fit_the_budget() -> None:
    long = {rel(p): n for p in sources() if (n := len(p.read_text().splitlines())) > FILE_LINES}
    assert not long, f"over {FILE_LINES} lines, split by what changes together: {long}"


def test_functions_fit_the_budget() -> None:
    long = [
        f"{rel(path)}:{node.lineno} {node.name} ({lines} lines)"
        for path in sources()
        for node in functions(path)
        if (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES
    ]
    assert not long, f"over {FUNCTION_LINES} lines: {long}"


def test_every_module_opens_with_its_law() -> None:
    bare = [
        rel(path)
        for path in sources()
        if tree(path).body and not ast.get_docstring(tree(path)) and not _patches_first(tree(path))
    ]
    assert not bare, f"no module docstring: {bare}"


def _patches_first(module: ast.Module) -> bool:
    first = next((node for node in module.body if not _is_text(node)), None)
    return isinstance(first, ast.ImportFrom) and first.module == "gevent" and first.names[0].name == "monkey"


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


@pytest.mark.parametrize("name", ["wsgi.py", "gunicorn.conf.py", "app/cli/__init__.py", "tests/conftest.py"])
def test_entry_points_patch_before_they_import(name: str) -> None:
    module = ast.parse((ROOT / name).read_text())
    first = [node for node in module.body if not _is_text(node)][:3]
    if isinstance(first[0], ast.ImportFrom) and first[0].module == "__future__":
        first = first[1:]
    assert isinstance(first[0], ast.ImportFrom), f"{name} must patch before anything else"
    assert ast.unparse(first[0]) == "from gevent import monkey", f"{name} must patch before anything else"
    assert ast.unparse(first[1]) == "monkey.patch_all()", f"{name} must patch before anything else"


def test_doors_of_the_standard_library() -> None:
    broken = [
        f"{rel(path)}:{line} imports {name}; only {allowed or 'nobody'} may"
        for path in sources()
        for line, name in imports(path)
        for door, allowed in DOORS.items()
        if name == door and not rel(path).startswith(allowed or ("nobody",))
    ]
    assert not broken, "\n".join(broken)


def test_postponed_annotations_everywhere() -> None:
    without = [
        rel(path)
        for path in sources()
        if any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in tree(path).body)
        and not any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in tree(path).body)
        and not _patches_first(tree(path))
    ]
    assert not without, f"no 'from __future__ import annotations': {without}"


def test_nothing_is_left_to_do() -> None:
    words = ("TO" + "DO", "FIX" + "ME", "X" + "XX")
    found = [
        f"{rel(path)}:{number} {line.strip()}"
        for path in sources()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if any(word in line for word in words)
    ]
    assert not found, "\n".join(found)


def test_the_plugin_module_exports_what_it_says() -> None:
    import studio_plugin

    missing = [name for name in studio_plugin.__all__ if not hasattr(studio_plugin, name)]
    assert not missing
    public = {
        alias.asname or alias.name
        for node in tree(ROOT / "studio_plugin.py").body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    }
    assert public <= set(studio_plugin.__all__), "imported but not exported: the API is what __all__ says"


def test_every_package_has_an_init() -> None:
    folders = {path.parent for path in sources() if path.parent != ROOT}
    assert not [rel(folder) for folder in folders if not (folder / "__init__.py").exists()]


def test_import_contracts_have_no_ignores() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    sections = [name for name in config.sections() if name.startswith("importlinter:contract")]
    assert len(sections) >= 6
    assert not [name for name in sections if config.has_option(name, "ignore_imports")]


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda p: p.name)
def test_examples_compile(path: Path) -> None:
    from app import builtins, config
    from app.workflows.document import parse
    from app.workflows.validation import compile_document
    from plugins.manager import create_manager
    from plugins.registry import Registry

    settings = config.load({"STUDIO_MCP_SERVERS": str(ROOT / "examples" / "mcp_servers.json")})
    registry = Registry(create_manager(entry_points=False, builtins=builtins.plugins(settings)))
    document = parse(path.read_text())
    assert document["name"]
    compiled = compile_document(
        document,
        registry.block_types,
        registry.check_model,
        frozenset(registry.tools),
        servers=builtins.mcp_servers(settings),
    )
    responses = [block for block in compiled.blocks.values() if block.type.type_name == "response"]
    assert compiled.answer_agents() or responses


def test_every_block_type_has_an_example() -> None:
    from app import builtins, config
    from app.workflows.document import parse
    from plugins.manager import create_manager
    from plugins.registry import Registry

    plugins = builtins.plugins(config.load({}))
    registry = Registry(create_manager(entry_points=False, builtins=plugins))
    documents = [parse(path.read_text()) for path in (ROOT / "examples").glob("*.yaml")]
    shown = {block["type"] for document in documents for block in document["blocks"]}
    assert shown == set(registry.block_types)


def test_a_wheel_takes_along_what_is_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file inside the packages, the types' marker, and what a first start reads."""
    from app.cli.serve import EXAMPLES
    from app.config import files

    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    patterns = {name: config["options.package_data"][name].split() for name in PACKAGES}
    for package in PACKAGES:
        taken = {path for pattern in patterns[package] for path in (ROOT / package).glob(pattern)}
        there = {path for path in (ROOT / package).rglob("*") if path.is_file()}
        left = [path for path in there - taken if path.suffix != ".py" and "__pycache__" not in path.parts]
        assert not left, f"not in [options.package_data] of setup.cfg: {[rel(path) for path in left]}"
        assert ROOT / package / "py.typed" in taken
    installed = {
        f"{folder}/{path.name}"
        for folder, globs in config["options.data_files"].items()
        for pattern in globs.split()
        for path in ROOT.glob(pattern)
    }
    monkeypatch.setattr(files, "_ROOT", tmp_path)
    monkeypatch.setattr(sys, "prefix", "")
    for name in ("gunicorn.conf.py", *(f"examples/{example}.yaml" for example in EXAMPLES)):
        assert (ROOT / name).is_file()
        assert files.shipped(name).as_posix() in installed


def test_configuration_files_parse() -> None:
    for name in (".pre-commit-config.yaml",):
        assert yaml.safe_load((ROOT / name).read_text())


def test_nothing_heavy_is_imported_at_start(tmp_path: Path) -> None:
    heavy = ("litellm", "openai", "httpx", "pydantic", "requests", "langgraph", "aiohttp", "xllamacpp")
    code = (
        "import sys; from app import config; from app.store import Store; Store(config.load()).migrate();"
        f"import wsgi; print([name for name in {heavy!r} if name in sys.modules])"
    )
    env = {**os.environ, "STUDIO_DATA_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout.strip().endswith("[]"), done.stdout + done.stderr
