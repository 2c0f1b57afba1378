"""``studio documents embed``, and the vectors of ``documents add`` and ``documents search``.

Law of this room: a model that cannot be used is said before a file is read. What a vendor fails leaves the documents
stored, and the message says so.
"""

from __future__ import annotations

import sys
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager

import click

from app.cli.context import load_plugins, settings
from app.errors import Problem, StudioError, ValidationFailed

if t.TYPE_CHECKING:
    from app.engine.embedding import Alone
    from app.store import Store
    from plugins.spec import Passage


class Vectors:
    """Makes the vectors of one collection for a command.

    :param model: as the command names it; None: the collection's own, if it has one.
    :param option: how the command calls it.
    :raises ValidationFailed: the model cannot be used here.
    """

    def __init__(
        self, store: Store, collection: str, model: str | None, option: str, *, change: bool = False
    ) -> None:
        self._collection, self._change = collection, change
        self._parts: Alone | None = None
        self.model: str | None = None
        if model is None and store.documents.vectors.model(collection) is None:
            return  # most collections: no plugin is loaded for them
        from app.clock import SystemClock
        from app.engine import embedding
        from plugins.connections import RegistryError

        self._parts = embedding.Alone(settings(), store, load_plugins(), SystemClock())
        try:
            self.model = embedding.accept(self._parts, collection, model, change=change)
        except RegistryError as error:
            raise ValidationFailed([Problem(option, error.message)]) from None

    def make(self, *, again: bool = False, most: int | None = None) -> None:
        """Make what is missing, and say on standard error what it used. Without a model nothing is done.

        :raises StudioError: more than ``most`` are missing.
        """
        if self._parts is None or self.model is None:
            return
        from app.engine import embedding

        with _told(self._collection, self.model):
            made = embedding.fill(
                self._parts,
                self._collection,
                self.model,
                again=again,
                change=self._change,
                most=most,
                told=_progress,
            )
        if made.vectors:
            cost = "price unknown" if made.cost is None else f"${made.cost:.4f}"
            click.echo(f"{made.vectors} vectors by {made.model}, {made.tokens} tokens, {cost}", err=True)

    def search(self, query: str, limit: int) -> list[Passage]:
        """The passages nearest to ``query``, nearest first; missing vectors are made first.

        :raises StudioError: ``embedding_model_missing``, ``embeddings_missing``.
        """
        if self._parts is None or self.model is None:
            from app.store.vectors import ModelMissing

            raise ModelMissing(self._collection)
        from app.agents.vector_search import MOST_ON_DEMAND
        from app.engine import embedding

        self.make(most=MOST_ON_DEMAND)
        with _told(self._collection, self.model):
            return embedding.search(self._parts, self._collection, query, limit, self.model)


@contextmanager
def _told(collection: str, model: str) -> Iterator[None]:
    from providers.spec import ProviderError

    try:
        yield
    except ProviderError as error:
        raise StudioError(
            error.code,
            f"{model}: {error.message} The documents of '{collection}' are stored; some have no vectors. Later: studio "
            f"documents embed {collection} {model}",
        ) from error


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{done} of {of} vectors", nl=done == of, err=True)
