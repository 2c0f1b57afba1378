"""What embedding models want before a text, by their names.

Law of this room: facts of models, whoever serves them. A model that was trained with words before its texts finds less
without them; one that was not is told none. Sources: the models' own cards on huggingface.co (nomic-embed-text, E5,
mxbai-embed-large, BGE, Snowflake Arctic Embed, EmbeddingGemma, Qwen3-Embedding); for gemini-embedding-2, which takes
EmbeddingGemma's, ai.google.dev: embeddings.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

_SEARCH = {"query": "Represent this sentence for searching relevant passages: "}
_INSTRUCT = {
    "query": "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "
}
_GEMMA = {"document": "title: none | text: ", "query": "task: search result | query: "}

#: The first that is found in a name counts.
_LINES: tuple[tuple[re.Pattern[str], Mapping[str, str]], ...] = tuple(
    (re.compile(pattern), prefixes)
    for pattern, prefixes in (
        (r"nomic-embed-text", {"document": "search_document: ", "query": "search_query: "}),
        (r"e5-mistral|e5-large-instruct|qwen3-embedding", _INSTRUCT),
        (r"\be5-(?:small|base|large)", {"document": "passage: ", "query": "query: "}),
        (r"arctic-embed-[ml]-v2|arctic-embed2", {"query": "query: "}),
        (r"mxbai-embed-large|arctic-embed|bge-(?:small|base|large)-en", _SEARCH),
        (r"embeddinggemma|embedding-gemma|gemini-embedding-2", _GEMMA),
    )
)


def prefixes(model: str) -> Mapping[str, t.Any]:
    """The switch ``prefixes`` for ``model``, or no switch."""
    name = model.lower()
    return next(({"prefixes": words} for pattern, words in _LINES if pattern.search(name)), {})
