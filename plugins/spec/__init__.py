"""The protocols and small values plugins are written against; re-exported by ``studio_plugin``."""

from plugins.spec.blocks import BlockContext, BlockType, Child, Passage, StoredFile, Use, VectorSearch
from plugins.spec.decisions import Answer, Ask
from plugins.spec.detectors import Detector
from plugins.spec.families import (
    Capabilities,
    ConnectionSpec,
    Embeddings,
    ProviderFamily,
    ResolvedEmbedding,
    ResolvedModel,
    Setting,
)
from plugins.spec.memory import Exchange, Memory
from plugins.spec.rows import Row
from plugins.spec.runners import (
    NodeRun,
    RunnerContext,
    RunnerEdge,
    RunnerFailed,
    RunnerGraph,
    RunnerNode,
    RunnerSettings,
    WorkflowRunner,
)
from plugins.spec.tools import Tool, ToolContext, ToolFailed

__all__ = [
    "Answer",
    "Ask",
    "BlockContext",
    "BlockType",
    "Capabilities",
    "Child",
    "ConnectionSpec",
    "Detector",
    "Embeddings",
    "Exchange",
    "Memory",
    "NodeRun",
    "Passage",
    "ProviderFamily",
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
    "StoredFile",
    "Tool",
    "ToolContext",
    "ToolFailed",
    "Use",
    "VectorSearch",
    "WorkflowRunner",
]
