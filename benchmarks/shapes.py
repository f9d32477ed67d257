"""One concatenated vector a passage in Qdrant against one for each member: recall and time.

python -m benchmarks.shapes --passages 3000 --markdown
python -m benchmarks.shapes --qdrant URL                   # a server
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from qdrant_client import QdrantClient, models

from benchmarks.search import K, build, machine
from benchmarks.synthetic import WIDTH, Corpus
from benchmarks.tables import print_table
from tests.stores.edge_client import EdgeClient
from uec_rag import Gaussian
from uec_rag.base.gaussian import PROBIT
from uec_rag.stores import MemoryStore
from uec_rag.stores.qdrant.query import SPREAD

_ASKED = 40
_CANDIDATES = 256
_BATCH = 128


def main(
    passages: Annotated[int, typer.Option(help="Corpus size.")] = 20_000,
    encoders: Annotated[int, typer.Option(help="Encoders of 384 dimensions each.")] = 2,
    qdrant: Annotated[str | None, typer.Option(help="URL of a Qdrant server.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print a Markdown table.")] = False,
) -> None:
    """Print the table."""
    described, corpus = machine(), Corpus(encoders, noise=4.0)
    client: Any = EdgeClient(Path(tempfile.mkdtemp())) if qdrant is None else QdrantClient(qdrant)
    uec, names = corpus.uec, [f"member{i}" for i in range(corpus.encoders)]
    pi = np.full((_ASKED, corpus.encoders), 1 / corpus.encoders, dtype=np.float32)
    query = uec.fitted.combine(corpus.queries(_ASKED), pi)
    reference = MemoryStore()
    build(corpus, passages, reference)
    wanted = reference.search(query, K, beta=uec.fitted.beta)
    spread = np.concatenate([query.variance, _weights(query, reference)], axis=1)
    rows = []
    for title, widths in (("one vector", {"mean": uec.dimension}), ("one a member", None)):
        widths = widths or dict.fromkeys(names, WIDTH)
        start = time.perf_counter()
        _fill(client, widths, reference, passages)
        built = time.perf_counter() - start
        for each in (_CANDIDATES, 4 * K):
            requests = [
                _request(query.mean[i], spread[i], widths, each, uec.fitted.beta)
                for i in range(_ASKED)
            ]
            start = time.perf_counter()
            found = [client.query_batch_points("shapes", [one])[0].points for one in requests]
            ms = 1e3 * (time.perf_counter() - start) / _ASKED
            recall = np.mean(
                [
                    len({str(p.payload["number"]) for p in points} & {p.id for p in row}) / K
                    for points, row in zip(found, wanted.passages, strict=True)
                ]
            )
            rows.append([title, str(each), f"{recall:.3f}", f"{ms:.1f}", f"{built:.0f}"])
        client.delete_collection("shapes")
    title = f"{passages:,} passages, {_ASKED} queries. {described}"
    header = ["vectors", "candidates of each", "recall@10", "ms a query", "s to build"]
    print_table(title, header, rows, markdown=markdown)


def _weights(query: Gaussian, store: MemoryStore) -> np.ndarray:
    second = query.mean**2 + query.variance
    profile = store.sample(1).profile
    return second if profile is None else second @ profile.T


def _fill(client: Any, widths: dict[str, int], store: MemoryStore, count: int) -> None:
    state = store._state
    spread = state.means.dimension + state.scales.shape[1]
    dot = models.Distance.DOT
    client.create_collection(
        "shapes",
        vectors_config={
            **{name: models.VectorParams(size=w, distance=dot) for name, w in widths.items()},
            SPREAD: models.VectorParams(
                size=spread, distance=dot, hnsw_config=models.HnswConfigDiff(m=0)
            ),
        },
    )
    edges = np.cumsum([0, *widths.values()])
    for start in range(0, count, _BATCH):
        rows = slice(start, min(count, start + _BATCH))
        mean, scales = state.means.rows(rows), state.scales[rows]
        points = []
        for i, (one, more) in enumerate(zip(mean, scales, strict=True), start):
            vector = {
                name: one[edges[place] : edges[place + 1]].tolist()
                for place, name in enumerate(widths)
            }
            vector[SPREAD] = [*(one**2).tolist(), *more.tolist()]
            points.append(models.PointStruct(id=i, vector=vector, payload={"number": i}))
        client.upsert("shapes", points, wait=True)
    if isinstance(client, EdgeClient):
        client.optimize("shapes")


def _request(
    mean: np.ndarray, spread: np.ndarray, widths: dict[str, int], each: int, beta: float
) -> models.QueryRequest:
    """The ten best by s_hat of the nearest by every one of some vectors."""
    edges = np.cumsum([0, *widths.values()])
    asked = [
        (name, mean[edges[place] : edges[place + 1]].tolist()) for place, name in enumerate(widths)
    ]
    near = [models.Prefetch(query=one, using=name, limit=each) for name, one in asked]
    total = each * len(asked)
    scored = [
        models.Prefetch(prefetch=near, query=one, using=name, limit=total)
        for name, one in [*asked, (SPREAD, spread.tolist())]
    ]
    last = f"$score[{len(asked)}]"
    shrinking = models.SumExpression(
        sum=[1.0, models.MultExpression(mult=[float(PROBIT) * beta, last])]
    )
    mu = models.SumExpression(sum=[f"$score[{place}]" for place in range(len(asked))])
    score = models.DivParams(left=mu, right=models.SqrtExpression(sqrt=shrinking))
    formula = models.FormulaQuery(formula=models.DivExpression(div=score), defaults={})
    return models.QueryRequest(prefetch=scored, query=formula, limit=K, with_payload=True)


if __name__ == "__main__":
    typer.run(main)
