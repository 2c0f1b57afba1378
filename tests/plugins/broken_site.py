"""A folder of broken plugins as pip would leave them, and one good one, for ``sys.path``."""

from __future__ import annotations

from pathlib import Path

_HEAD = "from studio_plugin import *\nimport time\n"

#: Entry point to the source of its module. Their names decide the order of loading: the good one is the last.
PLUGINS = {
    "a-import": "import no_such_module_anywhere\n",
    "b-exit": "raise SystemExit(3)\n",
    "c-sleeps": "import time\ntime.sleep(3600)\n",
    "d-spins": "while True: pass\n",
    "e-signature": _HEAD + "@hookimpl\ndef tools(config):\n    return []\n",
    "f-raises": _HEAD + "@hookimpl\ndef tools():\n    raise OSError('no luck')\n",
    "g-half": (
        _HEAD
        + "def run(arguments, context): return 1\n"
        + "@hookimpl\ndef tools():\n"
        + "    yield Tool('half', 'Half.', {'type': 'object'}, run)\n    raise KeyError('gone')\n"
    ),
    "h-slow-hook": _HEAD + "@hookimpl\ndef block_types():\n    time.sleep(3600)\n",
    "i-duplicate": (
        _HEAD
        + "@hookimpl\ndef tools():\n"
        + "    return [Tool('clock', 'Mine.', {'type': 'object'}, print), 'a text', Tool(7, '', {}, print)]\n"
    ),
    "j-exits": _HEAD + "@hookimpl\ndef pii_detectors():\n    import sys; sys.exit(2)\n",
    "k-panics": "class Panic(BaseException): pass\nraise Panic('at the disco')\n",
    "l-times-out": _HEAD + "import gevent\n@hookimpl\ndef tools():\n    raise gevent.Timeout(1)\n",
    "m-mixed": (
        _HEAD
        + "from providers.auth import NoAuth\n"
        + "@hookimpl\ndef provider_families():\n"
        + "    return ['a text', ProviderFamily('mixed', 'Mixed', 'openai_chat', NoAuth(),\n"
        + "        ConnectionSpec(default_base='http://127.0.0.1:9/v1', key_required=False),\n"
        + "        lambda model, row: Capabilities(price='cheap', context_window='128k'))]\n"
    ),
    "z-good": (
        _HEAD
        + "@hookimpl\ndef tools():\n"
        + "    return [Tool('greet', 'Says hello.', {'type': 'object'}, lambda arguments, context: 'hello')]\n"
    ),
}

#: Entry point to words of its report; None: nothing is wrong.
REASONS: dict[str, str | None] = {
    "a-import": "import of sp_a_import failed: ModuleNotFoundError",
    "b-exit": "import of sp_b_exit failed: SystemExit: 3",
    "c-sleeps": "did not load within",
    "d-spins": "did not load within",
    "e-signature": "config",
    "f-raises": "hook tools raised: OSError: no luck",
    "g-half": "hook tools raised: KeyError: 'gone'",
    "h-slow-hook": "hook block_types raised: TooSlow: it did not load within",
    "i-duplicate": '"clock" of plugin "i-duplicate" is left out, plugin "studio" has that id already',
    "j-exits": "hook pii_detectors raised: SystemExit: 2",
    "k-panics": "import of sp_k_panics failed: Panic: at the disco",
    "l-times-out": "hook tools raised: Timeout: 1 second",
    "m-mixed": "hook provider_families returned a str",
    "z-good": None,
}


def write(site: Path) -> Path:
    """Put all of them into ``site``."""
    site.mkdir(parents=True, exist_ok=True)
    for name, source in PLUGINS.items():
        module = "sp_" + name.replace("-", "_")
        (site / f"{module}.py").write_text(source)
        info = site / f"{module}-1.2.3.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.2.3\n")
        (info / "entry_points.txt").write_text(f"[studio]\n{name} = {module}\n")
    return site
