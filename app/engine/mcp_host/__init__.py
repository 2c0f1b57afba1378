"""The process that speaks to MCP servers: ``python -m app.engine.mcp_host``, one per worker.

Law of this room: the only one that imports the SDK and runs an asyncio loop, and never in a process that gevent has
patched. Nothing outside imports it; whoever needs it starts it (``app.engine.mcp_pipe``). It holds no settings and
no secrets but those that come with a request.
"""
