"""What the page about vendors prints can be used: its examples configure a family, its figures are the families'."""

from __future__ import annotations

import re
import shlex

import pytest

from docs._tools.pages_plugins import registry
from plugins.connections import variable_prefix
from plugins.spec import ConnectionSpec
from tests.support.shared import ROOT

PAGE = (ROOT / "docs" / "providers.md").read_text()
#: Vendors that want more than a key, each with its example.
EXAMPLES = re.findall(r"^```sh\n(export .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def configured() -> list[tuple[str, dict[str, str]]]:
    """(model, environment) of every ``# model:`` line of the examples."""
    found = []
    for text in EXAMPLES:
        exports, *comments = text.strip().splitlines()
        environ = _variables(exports)
        for line in comments:
            model, _, more = line.removeprefix("# model: ").partition(", with ")
            found.append((model, {**environ, **_variables(more)}))
    return found


def test_messages_name_variables_that_the_page_names() -> None:
    settings = {
        "AZURE_API_KEY": "x",
        "CLOUDFLARE_API_KEY": "x",
        "SNOWFLAKE_PAT": "x",
        "DATABRICKS_TOKEN": "x",
    }
    regions = {"AWS_REGION": "us-east-1", "VERTEXAI_PROJECT": "p"}
    for environ in ({}, settings, regions):
        for family in registry().families.values():
            problem = registry().missing(family, environ)
            for name in re.findall(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b", str(problem or "")):
                generic = name == f"{variable_prefix(family.id)}_API_BASE" or name.endswith("_API_KEY")
                assert generic or name in PAGE, f"{name}, which {family.id} asks for, is not on the page"


def _variables(text: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in shlex.split(text) if "=" in word)
    return {name: value.replace("…", "printed") for name, _, value in pairs}


@pytest.mark.parametrize(
    ("model", "environ"), configured(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_an_example_configures_its_model(model: str, environ: dict[str, str]) -> None:
    resolved = registry().resolve(model, environ)
    assert resolved.connection.credentials
    assert resolved.connection.base_url.startswith("https://")


def test_azure_vertex_and_bedrock_have_an_example() -> None:
    assert {model.partition("/")[0] for model, _ in configured()} == {"azure", "vertex", "bedrock"}


@pytest.mark.parametrize("family", ["azure", "vertex", "bedrock"])
def test_the_tables_of_credentials_name_variables_that_are_read(family: str) -> None:
    title = {"azure": "Azure", "vertex": "Vertex AI", "bedrock": "Bedrock"}[family]
    section = PAGE.partition(f"**{title}.**")[2].partition("```")[0]
    spec = registry().families[family].connection
    prefix = f"STUDIO_{family.upper()}_"
    read = {
        *spec.base_vars,
        *spec.key_vars,
        *(name for setting in spec.settings for name in (*setting.variables, prefix + setting.name.upper())),
    }
    named = {name.partition("=")[0] for name in re.findall(r"`([A-Z][A-Z_]+(?:=[^`]*)?)`", section)}
    assert named - {"AZURE_API_VERSION"} <= read  # of that one the page says that it is not read


def test_the_families_own_limits_are_told() -> None:
    families = registry().families
    patient = {
        name for name, family in families.items() if family.connection.idle_s != ConnectionSpec().idle_s
    }
    told = re.search(r"`STUDIO_IDLE_S` \(60, or the family's own: 300 for (.*?), whose", PAGE)
    assert told
    assert set(re.findall(r"`([\w.-]+)`", told[1])) == patient
    assert {families[name].connection.idle_s for name in patient} == {300.0}
