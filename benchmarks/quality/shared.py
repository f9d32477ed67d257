"""What scripts share: their arguments, ensembles that cache, indexes, questions to manuals."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, TypeAlias
from unittest.mock import patch

import numpy as np
import typer
from numpy.typing import ArrayLike

import uec_rag.confidence
from benchmarks.paper.data import Collection, sample_collection
from benchmarks.paper.metrics import mean_ndcg
from benchmarks.quality.manuals import rows_of
from uec_rag import UEC, Retriever, SearchResult
from uec_rag.base.files import cache_folder
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.logistic import RANGE, Calibrator, fit_logistic
from uec_rag.encoders import CachedEncoder, Encoder, load_encoder
from uec_rag.encoders.base import TermEncoder
from uec_rag.retrieval.results import Result
from uec_rag.stores.passage import Passage

SETS = "fiqa_small,cranfield,claude_docs_rag,medline,cisi,belebele_en"
FITTED_ON = "tydiqa_goldp_en"
CACHE = cache_folder() / "embeddings"
TABLES = Path(__file__).parent / "questions"

Data: TypeAlias = Annotated[Path, typer.Argument(envvar="UEC_DATA", help="Folder of collections.")]
Manuals: TypeAlias = Annotated[
    Path, typer.Argument(metavar="MANUALS", help="Folder of the manuals, see `manuals`.")
]
Unseen: TypeAlias = Annotated[Path, typer.Argument(metavar="UNSEEN", help="Folder of the six.")]
Sets: TypeAlias = Annotated[str, typer.Option(help="Collections to report, comma-separated.")]


def cached(encoder: Encoder) -> Encoder:
    """The encoder, which looks for vectors on disk before it makes them."""
    return encoder if isinstance(encoder, TermEncoder) else CachedEncoder(encoder, CACHE)


def fit_calibrator(
    features: FloatArray,
    labels: ArrayLike,
    penalty: float = 0.001,
    weights: ArrayLike | None = None,
) -> Calibrator:
    """Fit a `Calibrator` to features (..., F), NaN where not known, and labels of either kind.

    `penalty`: ridge penalty on the weights of the standardised features, per example. `weights`:
    of each example; 1 by default.
    """
    flat = features.reshape(-1, features.shape[-1]).astype(np.float64)
    right = np.asarray(labels, dtype=bool).ravel()
    counts = np.ones(len(right)) if weights is None else np.ravel(weights).astype(np.float64)
    counts *= len(counts) / counts.sum()
    known = ~np.isnan(flat)
    each = counts[:, None] * known
    each /= np.maximum(each.sum(axis=0), 1e-30)
    location = (each * np.where(known, flat, 0)).sum(axis=0)
    spread = np.sqrt((each * np.where(known, flat - location, 0) ** 2).sum(axis=0))
    spread = np.maximum(spread, 1e-3)
    standard = np.nan_to_num(np.clip((flat - location) / spread, -RANGE, RANGE))
    strength = 2 * penalty * len(right)
    learned, bias = fit_logistic(standard, right, counts, np.zeros(flat.shape[1]), strength, 0.0)
    weights_, location_, spread_ = (tuple(each.tolist()) for each in (learned, location, spread))
    return Calibrator(weights_, location_, spread_, bias)


def write_learned(
    file: str, learned: Mapping[str, object], package: ModuleType = uec_rag.confidence
) -> None:
    """Put what was learned into a file of a package, where all else stays."""
    path = Path(str(package.__file__)).parent / file
    known = json.loads(path.read_text(encoding="utf-8")) | {
        key: _rounded(value) for key, value in learned.items()
    }
    path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return round(value, 5) if isinstance(value, float) else value


@contextmanager
def replaced(name: str, value: object) -> Iterator[None]:
    """Put a value in place of a module's, in `uec_rag`: a public one wherever it is imported."""
    module, _, own = f"uec_rag.{name}".rpartition(".")
    known = [path for path in sys.modules if path.startswith("uec_rag.")]
    users = [path for path in known if own in vars(sys.modules[path])]
    with ExitStack() as stack:
        for path in [module] if own.startswith("_") else users:
            stack.enter_context(patch(f"{path}.{own}", value))
        yield


def unfitted(names: Sequence[str]) -> UEC:
    """An ensemble of models, not fitted."""
    return UEC([cached(load_encoder(name)) for name in names])


def shipped(preset: str = "english") -> UEC:
    """The ensemble of a preset, fitted as it comes with the package."""
    uec = UEC(preset)
    uec.encoders = [cached(encoder) for encoder in uec.encoders]
    return uec


def index_of(uec: UEC, passages: Sequence[Passage]) -> Retriever:
    """An index of passages."""
    index = Retriever(uec, fit=False)
    index.add([p.text for p in passages], [p.id for p in passages], [p.metadata for p in passages])
    return index


def numbered(texts: Sequence[str]) -> list[Passage]:
    """Passages of texts, by their places."""
    return [Passage(str(at), text) for at, text in enumerate(texts)]


def index_collection(uec: UEC, collection: Collection) -> Retriever:
    """An index of a collection."""
    index = Retriever(uec, fit=False)
    index.add([*collection.passages.values()], ids=[*collection.passages])
    return index


def index_rows(uec: UEC, rows: Sequence[Mapping[str, Any]]) -> Retriever:
    """An index of the rows of a corpus, behind their titles."""
    index, titles = Retriever(uec), [row.get("title") or "" for row in rows]
    texts = [f"{title} {row['text']}".strip() for title, row in zip(titles, rows, strict=True)]
    metadatas = [{"title": title} if title else {} for title in titles]
    index.add(texts, [str(row["_id"]) for row in rows], metadatas)
    return index


def ask_all(uec: UEC, collection: Collection, k: int) -> SearchResult:
    """What all questions of a collection find in it."""
    return index_collection(uec, collection).search([*collection.queries.values()], k)


def ndcg10(uec: UEC, collection: Collection) -> float:
    """nDCG@10 of an ensemble on a collection."""
    return mean_ndcg(collection, ask_all(uec, collection, 10).ids)


def with_questions(collection: Collection, names: Sequence[str]) -> Collection:
    """A collection with some of its questions."""
    return replace(
        collection,
        queries={name: collection.queries[name] for name in names},
        relevant={name: collection.relevant[name] for name in names},
    )


def sampled(collection: Collection, queries: int) -> Collection:
    """A collection with a fixed sample of its questions."""
    return sample_collection(collection, queries, len(collection.passages))


def read_tables(*names: str) -> list[dict[str, str]]:
    """The rows of tables of questions."""
    return [row for name in names for row in rows_of(f"questions/{name}")]


def expected_texts(row: Mapping[str, str]) -> list[str]:
    """The texts of which a passage that answers a question has one."""
    return [text.strip() for text in row["passage"].split("|") if text.strip()]


def has_any(passage: Passage, texts: Sequence[str]) -> bool:
    """Whether a passage or the name of its file has one of some texts, in any case and layout."""
    whole = _plain(f"{passage.metadata.get('source', '')}\n{passage.text}")
    return any(_plain(text) in whole for text in texts)


def _plain(text: str) -> str:
    """Without case, and without what lays a page out: breaks of lines, quotes and Markdown."""
    text = re.sub("[`*|]", "", text)
    quotes = {ord(mark): '"' for mark in "\u201c\u201d"} | {ord(m): "'" for m in "\u2018\u2019"}
    return " ".join(text.translate(quotes).casefold().split())


def relevant_ids(passages: Sequence[Passage], rows: Sequence[Mapping[str, str]]) -> list[set[str]]:
    """The passages that answer each of some questions to a manual; none answers an absent one."""
    found = []
    for row in rows:
        texts = expected_texts(row)
        found.append({passage.id for passage in passages if has_any(passage, texts)})
        if texts and not found[-1]:
            raise ValueError(f"{row['question']}: no passage has any of {texts}.")
    return found


def is_found(row: Mapping[str, str], result: Result) -> bool:
    """Whether one of the hits answers a question to a manual."""
    texts = expected_texts(row)
    return any(has_any(passage, texts) for passage in result.passages)
