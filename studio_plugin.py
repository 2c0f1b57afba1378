"""The one module a plugin imports: the marker, the specs and the vocabulary of wires.

``__all__`` is the public API and is versioned with the program. A plugin that only registers
ready-made objects may do without it and use ``pluggy.HookimplMarker("studio")``.

::

    from studio_plugin import Tool, hookimpl


    @hookimpl
    def tools():
        return [Tool("shout", "Upper case.", {"type": "object"}, lambda arguments, context: "HEY")]

Announce the module under the entry-point group ``studio``.
"""

from __future__ import annotations

import typing as _t

from plugins.hookspecs import hookimpl
from plugins.spec import (
    Answer,
    Ask,
    BlockContext,
    BlockType,
    Capabilities,
    Child,
    ConnectionSpec,
    Detector,
    Embeddings,
    Exchange,
    Memory,
    NodeRun,
    Passage,
    ProviderFamily,
    ResolvedEmbedding,
    ResolvedModel,
    Row,
    RunnerContext,
    RunnerEdge,
    RunnerFailed,
    RunnerGraph,
    RunnerNode,
    RunnerSettings,
    Setting,
    StoredFile,
    Tool,
    ToolContext,
    ToolFailed,
    Use,
    VectorSearch,
    WorkflowRunner,
)
from providers.auth import HeaderAuth, NoAuth, QueryAuth
from providers.spec import (
    AssistantMessage,
    Auth,
    Connection,
    Embedded,
    EmbeddingRequest,
    EmbeddingWire,
    FetchingAuth,
    FilePart,
    FinishReason,
    HttpRequest,
    Message,
    ModelEvent,
    ModelFinished,
    ModelRequest,
    ProviderError,
    ProviderErrorCode,
    SourceCited,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallReady,
    ToolCallStarted,
    ToolResult,
    ToolSpec,
    Usage,
    UsageStated,
    UserMessage,
    Waits,
    Wire,
)

if _t.TYPE_CHECKING:
    from plugins import conformance
    from plugins.claims import claims
    from plugins.langgraph_app.app import GraphApp
    from providers.decoding import EventStreamDecoder
    from providers.embedding import HttpEmbeddingWire
    from providers.http import HttpWire

__all__ = [
    "Answer",
    "Ask",
    "AssistantMessage",
    "Auth",
    "BlockContext",
    "BlockType",
    "Capabilities",
    "Child",
    "Connection",
    "ConnectionSpec",
    "Detector",
    "Embedded",
    "EmbeddingRequest",
    "EmbeddingWire",
    "Embeddings",
    "EventStreamDecoder",
    "Exchange",
    "FetchingAuth",
    "FilePart",
    "FinishReason",
    "GraphApp",
    "HeaderAuth",
    "HttpEmbeddingWire",
    "HttpRequest",
    "HttpWire",
    "Memory",
    "Message",
    "ModelEvent",
    "ModelFinished",
    "ModelRequest",
    "NoAuth",
    "NodeRun",
    "Passage",
    "ProviderError",
    "ProviderErrorCode",
    "ProviderFamily",
    "QueryAuth",
    "ResolvedEmbedding",
    "ResolvedModel",
    "Row",
    "RunnerContext",
    "RunnerEdge",
    "RunnerFailed",
    "RunnerGraph",
    "RunnerNode",
    "RunnerSettings",
    "Setting",
    "SourceCited",
    "StoredFile",
    "TextDelta",
    "ThinkingDelta",
    "Tool",
    "ToolCall",
    "ToolCallReady",
    "ToolCallStarted",
    "ToolContext",
    "ToolFailed",
    "ToolResult",
    "ToolSpec",
    "Usage",
    "UsageStated",
    "Use",
    "UserMessage",
    "VectorSearch",
    "Waits",
    "Wire",
    "WorkflowRunner",
    "claims",
    "conformance",
    "hookimpl",
]


#: What is loaded when it is first asked for: a server without such a plugin never needs it.
_LATER = {
    "EventStreamDecoder": "providers.decoding",
    "GraphApp": "plugins.langgraph_app.app",
    "HttpEmbeddingWire": "providers.embedding",
    "HttpWire": "providers.http",
    "claims": "plugins.claims",
}


def __getattr__(name: str) -> _t.Any:
    """Names of :data:`_LATER`, and the kit."""
    from importlib import import_module

    if name == "conformance":
        return import_module("plugins.conformance")
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
