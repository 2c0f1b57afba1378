"""The ``retrieve`` block: finds what a collection of documents says about a question.

Law of this room: what is found is quoted, never followed, and every passage says where it stands: its source and its
span, ``document text[start:end]``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.agents.driver import message
from app.schemas.paths import join
from app.workflows.template_syntax import is_template
from plugins.spec.blocks import BlockContext, BlockType, Passage, Use, VectorSearch

#: Most passages of one search.
MOST = 50


@dataclass(frozen=True, slots=True)
class RetrieveConfig:
    """Where is searched, and for what."""

    collection: str = field(
        metadata={
            "doc": "Name of the collection; documents come into it by `studio documents add` or the API.",
            "template": True,
            "nonempty": True,
        }
    )
    query: str | None = field(
        default=None,
        metadata={
            "doc": "What is searched for, as people ask it. Default: the input's `message`, or the whole input as JSON "
            "when it has none. An empty query finds nothing.",
            "template": True,
        },
    )
    top_k: int = field(default=5, metadata={"doc": "Most passages.", "low": 1, "high": MOST})
    mode: t.Literal["text", "embedding"] = field(
        default="text",
        metadata={"doc": "`text` finds by words (BM25); `embedding` by meaning, through a model."},
    )
    embedding_model: str | None = field(
        default=None,
        metadata={
            "doc": "Mode `embedding` only: the model that makes the vectors, as `<family>/<model>`. Default: the "
            "collection's own. It has to be that one, if the collection has one."
        },
    )
    min_score: float | None = field(
        default=None,
        metadata={
            "doc": "Passages below this score are left out. Scores of words and of vectors have different scales.",
            "advanced": True,
        },
    )


def check(config: RetrieveConfig, path: str) -> list[tuple[str, str]]:
    """A model belongs to one mode."""
    if config.embedding_model is not None and config.mode != "embedding":
        return [
            (join(path, "embedding_model"), "is for the mode embedding; leave it out, or set mode: embedding")
        ]
    return []


def uses(config: RetrieveConfig) -> tuple[Use, ...]:
    """What is searched, and what a search by vectors needs, as far as it is known before a run."""
    fixed = None if is_template(config.collection) else config.collection.strip()
    searched = () if fixed is None else (Use("collection", ("collection",), fixed),)
    if config.mode != "embedding":
        return searched
    path = ("collection",) if config.embedding_model is None else ("embedding_model",)
    return (*searched, Use("embedding", path, VectorSearch(fixed, config.embedding_model)))


def run(context: BlockContext, config: RetrieveConfig) -> Mapping[str, t.Any]:
    """Search once.

    :raises RunError: ``template_failed``, or the embedding model failed. :raises BlockError: ``collection_unknown``,
        ``search_failed``, ``embedding_model_missing``, ``embedding_model_differs``, ``embeddings_missing``.
    """
    collection = context.render(config.collection).strip()
    query = message(context) if config.query is None else context.render(config.query)
    found = context.search(collection, query, config.top_k, mode=config.mode, model=config.embedding_model)
    kept = [p for p in found if config.min_score is None or p.score >= config.min_score]
    results = [_result(index, passage) for index, passage in enumerate(kept, 1)]
    return {
        "results": results,
        "citations": [{k: v for k, v in result.items() if k != "text"} for result in results],
        "context": _context(kept),
        "query": query,
        "count": len(results),
    }


def _result(index: int, passage: Passage) -> dict[str, t.Any]:
    return {
        "index": index,
        "text": passage.text,
        "source": passage.source,
        "title": passage.title or passage.source,
        "documentId": passage.document_id,
        "start": passage.start,
        "end": passage.end,
        "score": passage.score,
    }


def _context(passages: Sequence[Passage]) -> str:
    """The passages as a prompt takes them, numbered as ``results`` are."""
    return "\n\n".join(
        f"[{index}] {passage.source}\n{passage.text}" for index, passage in enumerate(passages, 1)
    )


RETRIEVE = BlockType(
    type_name="retrieve",
    config=RetrieveConfig,
    run=run,
    summary="Finds passages in a collection of documents; its output quotes them with source and span.",
    outputs=("results", "citations", "context", "query", "count"),
    check=check,
    uses=uses,
)
