"""Qdrant's real engine in this process, with the part of QdrantClient that the store uses."""

import tempfile
from pathlib import Path
from types import SimpleNamespace

import qdrant_edge as edge
from qdrant_client import models


class EdgeClient:
    """Collections, each a shard of `qdrant-edge-py` in a folder of its own."""

    def __init__(self, folder: Path):
        self._folder, self._shards, self._configs = folder, {}, {}

    def collection_exists(self, name):
        return name in self._shards

    def create_collection(self, name, vectors_config, sparse_vectors_config, metadata):
        vectors = {key: _vector_params(given) for key, given in vectors_config.items()}
        idf = edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)
        config = edge.EdgeConfig(vectors, dict.fromkeys(sparse_vectors_config, idf))
        self._folder.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(dir=self._folder)
        self._shards[name] = edge.EdgeShard.create(folder, config)
        self._configs[name] = SimpleNamespace(metadata=metadata)

    def delete_collection(self, name):
        self._shards.pop(name).close()

    def get_collection(self, name):
        return SimpleNamespace(config=self._configs[name])

    def upsert(self, name, points, wait):
        made = [edge.Point(one.id, _vectors(one.vector), one.payload) for one in points]
        self._shards[name].update(edge.UpdateOperation.upsert_points(made))

    def delete(self, name, chosen, wait):
        self._shards[name].update(edge.UpdateOperation.delete_points(chosen.points))

    def count(self, name, count_filter, exact):
        request = edge.CountRequest(exact=exact, filter=_filter(count_filter))
        count = self._shards[name].count(request)
        return SimpleNamespace(count=count)

    def scroll(self, name, scroll_filter, limit, offset, with_payload, with_vectors):
        return self._shards[name].scroll(
            edge.ScrollRequest(offset, limit, _filter(scroll_filter), True, with_vectors)
        )

    def query_batch_points(self, name, asked):
        return [SimpleNamespace(points=self._shards[name].query(_request(one))) for one in asked]

    def optimize(self, name):
        """Build its indexes now."""
        self._shards[name].optimize()

    def close(self):
        for shard in self._shards.values():
            shard.close()


def _vector_params(given):
    hnsw = given.hnsw_config and edge.HnswIndexConfig(given.hnsw_config.m or 0, 100, 10_000)
    return edge.EdgeVectorParams(
        size=given.size, distance=edge.Distance.Dot, on_disk=given.on_disk, hnsw_config=hnsw
    )


def _request(asked: models.QueryRequest):
    nearest, where = edge.Query.Nearest(_vector(asked.query), asked.using), _filter(asked.filter)
    more = {"with_vector": bool(asked.with_vector), "with_payload": bool(asked.with_payload)}
    return edge.QueryRequest(limit=asked.limit, query=nearest, filter=where, **more)


def _vectors(asked):
    return {name: _vector(vector) for name, vector in asked.items()}


def _vector(asked):
    if isinstance(asked, models.SparseVector):
        return edge.SparseVector(asked.indices, asked.values)
    return asked


def _filter(asked):
    if asked is None:
        return None
    parts = ("must", "should", "must_not")
    return edge.Filter(
        **{name: [*map(_condition, held)] for name in parts if (held := getattr(asked, name))}
    )


def _condition(asked):
    match asked:
        case models.Filter():
            return _filter(asked)
        case models.HasIdCondition(has_id=ids):
            return edge.HasIdCondition({*ids})
        case models.FieldCondition(range=models.Range() as bounds):
            given = {name: getattr(bounds, name) for name in ("gt", "gte", "lt", "lte")}
            return edge.FieldCondition(asked.key, range=edge.RangeFloat(**given))
        case models.FieldCondition(match=models.MatchAny(any=values)):
            return edge.FieldCondition(asked.key, match=edge.MatchAny(values))
    return edge.FieldCondition(asked.key, match=edge.MatchValue(asked.match.value))
