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

from plugins.hookspecs import hookimpl
from plugins.spec import (
    BlockContext,
    BlockType,
    Capabilities,
    ConnectionSpec,
    Detector,
    ProviderFamily,
    ResolvedModel,
    Tool,
    ToolContext,
    ToolFailed,
)
from providers.auth import HeaderAuth, NoAuth, QueryAuth
from providers.spec import (
    AssistantMessage,
    Auth,
    Connection,
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
    UserMessage,
    Waits,
    Wire,
)

__all__ = [
    "AssistantMessage",
    "Auth",
    "BlockContext",
    "BlockType",
    "Capabilities",
    "Connection",
    "ConnectionSpec",
    "Detector",
    "FinishReason",
    "HeaderAuth",
    "HttpRequest",
    "Message",
    "ModelEvent",
    "ModelFinished",
    "ModelRequest",
    "NoAuth",
    "ProviderError",
    "ProviderErrorCode",
    "ProviderFamily",
    "QueryAuth",
    "ResolvedModel",
    "SourceCited",
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
    "UserMessage",
    "Waits",
    "Wire",
    "hookimpl",
]
