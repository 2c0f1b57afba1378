"""A server of the Model Context Protocol, by hand: ``shelf_server.py``, with a secret in ``KEY``.

Law of this room: all it needs of the protocol is in three messages. It says back what it was sent beside the secret it
was started with, and writes that to its standard error.
"""

from __future__ import annotations

import json
import os
import sys
import typing as t


def serve(key: str) -> None:
    """Answer until nobody asks any more."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            told = _answer(message["method"], message.get("params") or {}, key)
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}), flush=True)


def _answer(method: str, params: dict[str, t.Any], key: str) -> dict[str, t.Any]:
    if method == "initialize":
        info = {"name": f"so {key}", "version": "1"}
        capabilities: dict[str, t.Any] = {"tools": {}}
        return {"result": {"protocolVersion": "2025-03-26", "capabilities": capabilities, "serverInfo": info}}
    if method == "tools/list":
        tool = {"name": "said", "description": f"Says it with {key}.", "inputSchema": {"type": "object"}}
        return {"result": {"tools": [tool]}}
    if method != "tools/call":
        return {"result": {}}
    print(f"called with {key}", file=sys.stderr, flush=True)
    given = params.get("arguments", {})
    if given.get("fails"):
        text = f"It is not {given.get('back')}: {key}"
        return {"result": {"content": [{"type": "text", "text": text}], "isError": True}}
    told = {
        "back": given.get("back"),
        "key": key,
        "hex": key.encode().hex(),
        "again": json.dumps({"key": key}),
    }
    return {"result": {"content": [], "structuredContent": told}}


serve(os.environ["KEY"])
