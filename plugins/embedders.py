"""Models that make vectors: which family has some, and everything a call of one needs.

Law of this room: as for models that answer: ``<family>/<model>``, addresses and credentials of the moment, every error
with its cure. A family without embeddings is refused by name, never asked in the hope that it has some.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from plugins import model_map
from plugins.connections import RegistryError, Variables, connect, max_concurrency
from plugins.spec.families import Embeddings, ProviderFamily, ResolvedEmbedding
from plugins.wires import load_embedding_wire
from plugins.wording import did_you_mean, listed


class NoEmbeddings(RegistryError):
    """The family makes no vectors, or its closed list lacks the model."""


class Embedders:
    """The embedding models of one app.

    :param families: by id.
    :param variables: by family.
    :param split: gives family and model of a model id, or raises a ``RegistryError``.
    """

    def __init__(
        self,
        families: Mapping[str, ProviderFamily],
        variables: Mapping[str, Variables],
        split: Callable[[str], tuple[ProviderFamily, str]],
    ) -> None:
        self._families = families
        self._variables = variables
        self._split = split

    def families(self) -> list[str]:
        """Ids of the families that make vectors, sorted."""
        return sorted(family.id for family in self._families.values() if family.embeddings is not None)

    def check(self, model_id: str) -> str | None:
        """Whether ``model_id`` can make vectors, without looking at the environment's keys; for validation.

        :returns: a warning sentence for a name its family has not heard of, else None.
        :raises RegistryError: no such family, or none that makes vectors.
        """
        family, model, embeddings = self._find(model_id)
        if (
            embeddings.models is not None
            or not embeddings.known
            or model_map.is_known(model, embeddings.known)
        ):
            return None
        near = did_you_mean(model, embeddings.known)
        return f'{family.title} may not have an embedding model "{model}"{near}; it is asked for as written'

    def resolve(
        self,
        model_id: str,
        environ: Mapping[str, str] = os.environ,
        idle_s: float | None = None,
        connect_s: float = 10.0,
    ) -> ResolvedEmbedding:
        """Everything a call of ``model_id`` needs, with the address and credentials of this moment.

        :raises RegistryError: as :meth:`check`.
        :raises NotConfigured: an address or a required credential is missing or malformed.
        """
        family, model, embeddings = self._find(model_id)
        variables = self._variables[family.id]
        connection = connect(family, variables, environ)
        batch = embeddings.batch
        dialect = dict(embeddings.dialect)
        if embeddings.model_dialect is not None:
            dialect.update(embeddings.model_dialect(model))
        price = model_map.embedding_price(family.registry_prefix, embeddings.registry_providers, model)
        return ResolvedEmbedding(
            family=family,
            model=model,
            wire=load_embedding_wire(embeddings.wire),
            connection=replace(connection, idle_s=idle_s or connection.idle_s, connect_s=connect_s),
            dialect=dialect,
            batch=batch(model) if callable(batch) else batch,
            price=embeddings.price if price is None else price,
            max_concurrency=max_concurrency(family, variables, environ),
        )

    def _find(self, model_id: str) -> tuple[ProviderFamily, str, Embeddings]:
        family, model = self._split(model_id)
        if family.embeddings is None:
            raise NoEmbeddings(
                f'{family.title} makes no embeddings, so "{model_id}" cannot be used for them; '
                f"families that do are {listed(self.families())}"
            )
        closed = family.embeddings.models
        if closed is not None and model not in closed:
            raise NoEmbeddings(
                f'{family.title} has no embedding model "{model}"{did_you_mean(model, closed)}; '
                f"it has {listed(f'{family.id}/{name}' for name in closed)}"
            )
        return family, model, family.embeddings
