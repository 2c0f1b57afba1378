"""Neither litellm nor an SDK is loaded to start the app, list capabilities and resolve a model of each family."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.shared import ROOT

FORBIDDEN = (
    "aiohttp", "anthropic", "boto3", "botocore", "cohere", "google.auth", "google.genai", "google.generativeai",
    "groq", "httpx", "litellm", "mistralai", "numpy", "ollama", "openai", "pydantic", "requests", "tiktoken",
    "tokenizers", "transformers",
)  # fmt: skip

_SCRIPT = """
from gevent import monkey; monkey.patch_all()
import json, sys
from app import config, create_app
from app.store import Store
from plugins import capabilities
from plugins.connections import RegistryError

settings = config.load({"STUDIO_DATA_DIR": sys.argv[1]})
Store(settings).migrate()
app = create_app(settings)
registry = app.extensions["studio"].plugins
capabilities.rows(registry)
from plugins.conformance.recordings import Ground
from plugins.conformance.rig import environment
resolved = []
for family in registry.families.values():
    names = list(registry.models(family)[0]) or ["any"]
    try:
        registry.resolve(f"{family.id}/{names[0]}", environment(family, "http://127.0.0.1:9", Ground()))
        resolved.append(family.id)
    except RegistryError:
        pass
environ = environment(registry.families["openai"], "http://127.0.0.1:9", Ground())
registry.embedders.resolve("openai/text-embedding-3-small", environ)
print(json.dumps([resolved, sorted(sys.modules)]))
"""


def test_the_app_starts_and_resolves_without_an_sdk(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    resolved, modules = json.loads(done.stdout)
    assert {"openai-compatible", "anthropic", "scripted", "local"} <= set(resolved)
    loaded = [name for name in FORBIDDEN if name in modules]
    assert loaded == []
