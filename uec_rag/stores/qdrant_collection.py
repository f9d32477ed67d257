"""The collection that Qdrant makes for passages: vectors, sparse vectors, payload indexes."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

from qdrant_client import QdrantClient, models

from uec_rag.stores.engine_notes import Notes
from uec_rag.stores.qdrant_filters import FACTS
from uec_rag.stores.qdrant_place import Place
from uec_rag.stores.qdrant_search import MEAN, SPREAD, words_name

NOTES = "uec_rag"
"""Under which a collection's metadata holds its notes."""


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise TypeError where Qdrant does not know what it is to make a collection with."""
    known = signature(QdrantClient.create_collection).parameters
    unknown = sorted(settings.keys() - known)
    if unknown:
        raise TypeError(
            f"settings: expected what QdrantClient.create_collection takes; it takes no {unknown}."
        )


def create(place: Place, collection: str, notes: Notes, settings: Mapping[str, Any]) -> None:
    """Make a collection.

    Parameters
    ----------
    place : Place
    collection : str
    notes : Notes
    settings : mapping
        Handed to Qdrant.
    """
    width, dot = notes.dimension, models.Distance.DOT
    none = models.HnswConfigDiff(m=0)  # of what only scores candidates
    place.create(
        collection,
        vectors_config={
            MEAN: models.VectorParams(size=width, distance=dot),
            SPREAD: models.VectorParams(
                size=width + notes.scales, distance=dot, hnsw_config=none, on_disk=True
            ),
        },
        sparse_vectors_config={
            words_name(block): models.SparseVectorParams() for block in range(len(notes.words))
        },
        metadata={NOTES: notes.metadata()},
        **settings,
    )


def index(place: Place, collection: str, notes: Notes) -> None:
    """Make the indexes of the payload that are not there yet."""
    client = place.client
    if place.indexed:
        keyword = models.PayloadSchemaType.KEYWORD
        place.ask(client.create_payload_index, collection, FACTS, keyword)
        whole = models.IntegerIndexParams(
            type=models.IntegerIndexType.INTEGER, lookup=True, range=False
        )
        for block in range(len(notes.words)):
            for part in ("terms", "length"):
                name = f"{words_name(block)}.{part}"
                place.ask(client.create_payload_index, collection, name, whole)
