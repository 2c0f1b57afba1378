"""A server of an older protocol, without the SDK: it knows the handshake, and some of its schemas are wrong.

Behaviour by variable: ``GROWS`` has one more tool after each call, and says so.
"""

import json
import os
import sys

OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}}
BROKEN = {"type": "object", "properties": {"n": {"type": 7}}}
tools = [
    {"name": "good", "description": "Fine.", "inputSchema": OBJECT},
    {
        "name": "broken",
        "description": "No schema.",
        "inputSchema": BROKEN,
    },
    {
        "name": "far",
        "description": "Refers away.",
        "inputSchema": {"type": "object", "$ref": "http://127.0.0.1:9/x"},
    },
    {"name": "bare", "inputSchema": {"type": "object"}},
    {"name": "with.dots/and more", "description": "Odd name.", "inputSchema": OBJECT},
]


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        info = {"name": "old", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        result = {"protocolVersion": "2025-03-26", "capabilities": capabilities, "serverInfo": info}
        send(id=number, result=result)
    elif method == "tools/list":
        first = not (message.get("params") or {}).get("cursor")
        page = {"tools": tools[:2], "nextCursor": "2"} if first else {"tools": tools[2:]}
        send(id=number, result=page)
    elif method == "tools/call":
        name = message["params"]["name"]
        send(id=number, result={"content": [{"type": "text", "text": f"{name} of old"}]})
        if os.environ.get("GROWS"):
            tools.append({"name": f"grown_{len(tools)}", "description": "Grown.", "inputSchema": OBJECT})
            send(method="notifications/tools/list_changed")
    elif number is not None:
        send(id=number, error={"code": -32601, "message": "Method not found"})
