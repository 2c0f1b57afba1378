"""The protocols and small values plugins are written against; re-exported by ``studio_plugin``."""

from plugins.spec.blocks import BlockContext, BlockType, Child, Passage, Use, VectorSearch
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
from plugins.spec.tools import Tool, ToolContext, ToolFailed

__all__ = [
    "BlockContext",
    "BlockType",
    "Capabilities",
    "Child",
    "ConnectionSpec",
    "Detector",
    "Embeddings",
    "Exchange",
    "Memory",
    "Passage",
    "ProviderFamily",
    "ResolvedEmbedding",
    "ResolvedModel",
    "Row",
    "Setting",
    "Tool",
    "ToolContext",
    "ToolFailed",
    "Use",
    "VectorSearch",
]
