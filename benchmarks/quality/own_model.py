r"""A user's own model, fitted without labels on the passages that it is to search.

    python -m benchmarks.quality.own_model level DATA
    python -m benchmarks.quality.own_model table MANUALS MODELS
    python -m benchmarks.quality.own_model table MANUALS MODELS --only restic,madetech,caddy \
        --questions further
    python -m benchmarks.quality.own_model table MANUALS MODELS --most 250
    python -m benchmarks.quality.own_model ranking DATA MODELS
    python -m benchmarks.quality.own_model over MANUALS MODELS --only uv,git,debian

MODELS is a folder of SentenceTransformer models, which are black boxes here, without prompts: what
a LangChain embedding is to this package. `level` prints mean and deviation of the log odds of
`in_corpus` that `UEC()` gives for the questions that a fit is made of, on collections: what
`uec_rag.ensemble.fit` has as its constants. `table` asks the questions to the twelve manuals, see
`first_week`, of each model as it is and after a fit, and fitted beside the model of `UEC()`; no
number is fitted on these. "Their AUROC" is that of questions in own words whose passage is found
over those without an answer. `ranking` prints nDCG@10 on collections, of each model alone and
fitted on their passages with words. `over` prints how many questions with an answer find it within
four, in the order of a store that keeps the vectors of a model, by `UECRetriever.over` that store,
and by `UEC()`.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.metrics import roc_auc_score

from benchmarks.paper.data import load_collection
from benchmarks.paper.metrics import mean_ndcg
from benchmarks.quality import shared
from benchmarks.quality.first_week import FOLDERS, KINDS, ask, passages_in
from benchmarks.quality.hybrid import searched
from benchmarks.quality.over import nearest
from benchmarks.quality.proof import MOST
from benchmarks.quality.shared import CACHE, Data, Manuals, Sets, read_tables, sampled, shipped
from benchmarks.tables import print_table, run_script
from uec_rag import UEC, Retriever
from uec_rag.confidence.fit_view import level_of
from uec_rag.documents.generated_questions import pairs_from_passages
from uec_rag.encoders import CachedEncoder
from uec_rag.encoders.black_box import BlackBoxEncoder
from uec_rag.ensemble.fit import fit_posteriors
from uec_rag.index.learn import fit_without_labels
from uec_rag.laplace.pairs import check_pairs
from uec_rag.stores.passage import Passage
from uec_rag.stores.source import Source, SourceStore

ENGLISH = "fiqa_small,cranfield,claude_docs_rag,medline,cisi,chroma_chunking,belebele_en"
ENGLISH += ",tydiqa_goldp_en,squad_sample,xquad_en"
MOST_FOUND = 4
MODELS = "all-MiniLM-L6-v2,gte-small"

Names = Annotated[str, typer.Option("--names", help="Models, comma-separated.")]
Folder = Annotated[Path, typer.Argument(metavar="MODELS", help="Folder of the models.")]


class OwnEmbedding:
    """A model as a LangChain embedding has it, which is loaded at the first text not in a cache."""

    def __init__(self, folder: Path) -> None:
        self.model_name, self._folder = folder.name, folder
        self._model: Any = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages."""
        if self._model is None:
            from sentence_transformers import SentenceTransformer

            self._model = SentenceTransformer(str(self._folder), device="cpu")
            self._model.prompts, self._model.default_prompt_name = {}, None
        return self._model.encode(texts, batch_size=16, normalize_embeddings=True).tolist()

    def embed_query(self, text: str) -> list[float]:
        """Embed a question."""
        return self.embed_documents([text])[0]


def own_encoder(folder: Path) -> CachedEncoder:
    """A model as a black box whose vectors are kept on disk."""
    black_box = BlackBoxEncoder(OwnEmbedding(folder))
    return CachedEncoder(black_box, CACHE, revision=f"own/{folder.name}")


def part_of(
    passages: Sequence[Passage], asked: Sequence[dict[str, str]], name: str, most: int
) -> list[Passage]:
    """Some passages of a manual: three for each answer, and whole files drawn at random."""
    chosen = dict[str, Passage]()
    for row in asked:
        if row["documents"] == name and (texts := shared.expected_texts(row)):
            found = (passage for passage in passages if shared.has_any(passage, texts))
            chosen.update((passage.id, passage) for passage in islice(found, 3))
    order = defaultdict[str, float](random.Random(most).random)
    for passage in sorted(passages, key=lambda one: order[one.metadata["source"]]):
        if len(chosen) >= most:
            break
        chosen[passage.id] = passage
    return [passage for passage in passages if passage.id in chosen]


def level(data: Data, sets: Sets = ENGLISH) -> None:
    """Print the moments of the log odds of `UEC()` by collection, and their means."""
    uec, rows, levels = shipped(), [], []
    model = uec.fitted.confidence_model
    for name in sets.split(","):
        collection = load_collection(data / name).passages
        pairs = pairs_from_passages([Passage(*one) for one in collection.items()][:3000])
        checked = [check_pairs(pairs)] * len(uec.encoders)
        _, asked = fit_posteriors(uec.encoders, checked, uec.fitted.options, False)
        levels.append(level_of(model, asked.asked_by(uec.fitted).views(uec.fitted, 0)))
        rows.append([name, str(len(pairs)), *(f"{x:.2f}" for x in levels[-1])])
    rows.append(["mean", "", *(f"{x:.2f}" for x in np.mean(levels, axis=0))])
    header = ["collection", "questions", "mean", "deviation"]
    print_table("Log odds of in_corpus over questions made of passages", header, rows)


def table(
    manuals: Manuals,
    folder: Folder,
    names: Names = MODELS,
    only: Annotated[str, typer.Option(help="Some of the manuals, comma-separated.")] = "",
    questions: Annotated[str, typer.Option(help="Tables of questions.")] = "first_week,own_words",
    most: Annotated[int, typer.Option(help="Passages of each manual, with the answers.")] = 0,
) -> None:
    """Print the shares of right decisions."""
    chosen = only.split(",") if only else ["python", *FOLDERS]
    asked = read_tables(*questions.split(","))
    corpora = {name: passages_in(manuals, name) for name in chosen}
    if most:
        corpora = {name: part_of(some, asked, name, most) for name, some in corpora.items()}
    rows = [_row("UEC()", corpora, asked, lambda _: shipped())]
    for name in names.split(","):
        encoder = own_encoder(folder / name)
        ways = {
            "alone": lambda _, e=encoder: UEC([e]),
            "and words": lambda _, e=encoder: UEC([e, "bm25"]),
            "and words, fitted": lambda some, e=encoder: fit_without_labels(UEC([e, "bm25"]), some),
            "and UEC()'s, fitted": lambda some, e=encoder: fit_without_labels(
                UEC([shipped().encoders[0], e, "bm25"]), some
            ),
        }
        rows += [_row(f"{name}, {way}", corpora, asked, make) for way, make in ways.items()]
    header = ["", *KINDS, "mean", "AUROC", "own words found", "their AUROC", "wrong answers"]
    header += ["questions", "seconds of fits"]
    print_table("Right decisions", header, rows)


def ranking(data: Data, folder: Folder, names: Names = MODELS, sets: Sets = ENGLISH) -> None:
    """Print nDCG@10 of `UEC()`, and of each model alone and fitted with words."""
    rows = []
    for name in sets.split(","):
        collection = sampled(load_collection(data / name), MOST)
        passages = [Passage(id_, text) for id_, text in collection.passages.items()]
        ensembles = [shipped()]
        for model in names.split(","):
            encoder = own_encoder(folder / model)
            ensembles += [UEC([encoder]), fit_without_labels(UEC([encoder, "bm25"]), passages)]
        found = ([list(hits) for hits in searched(uec, collection)] for uec in ensembles)
        rows.append([name, *(f"{mean_ndcg(collection, ids):.3f}" for ids in found)])
    columns = [f"{model}{way}" for model in names.split(",") for way in (", alone", ", fitted")]
    print_table("nDCG@10", ["collection", "UEC()", *columns], rows)


def over(
    manuals: Manuals,
    folder: Folder,
    names: Names = MODELS,
    only: Annotated[str, typer.Option(help="Manuals, comma-separated.")] = ",".join(FOLDERS),
) -> None:
    """Print the numbers of questions whose answer is found within four, by kind."""
    rows = [row for row in read_tables("first_week", "own_words") if shared.expected_texts(row)]
    found = defaultdict[tuple[str, str], list[bool]](list)
    kinds = [kind for kind, right in KINDS.items() if right == "answer"]
    for manual in only.split(","):
        passages = passages_in(manuals, manual)
        asked = [row for row in rows if row["documents"] == manual]
        questions = [row["question"] for row in asked]
        ways = {"UEC()": shared.index_of(shipped(), passages).search(questions, MOST_FOUND)}
        lists = {way: result.passages for way, result in ways.items()}
        for name in names.split(","):
            source = source_of_model(own_encoder(folder / name), passages)
            index = Retriever(UEC([own_encoder(folder / name), "bm25"]))
            index._store = SourceStore(index.uec.encoders, source)
            lists[f"{name}, plain store"] = [
                source.find(question, None)[:MOST_FOUND] for question in questions
            ]
            lists[f"{name}, over it"] = index.search(questions, MOST_FOUND).passages
        for way, of_questions in lists.items():
            for row, hits in zip(asked, of_questions, strict=True):
                texts = shared.expected_texts(row)
                found[way, row["kind"]].append(any(shared.has_any(hit, texts) for hit in hits))
    table = [
        [way, *(f"{sum(found[way, kind])} of {len(found[way, kind])}" for kind in kinds)]
        for way in dict.fromkeys(way for way, _ in found)
    ]
    print_table(f"Found within {MOST_FOUND}: {only}", ["", *kinds], table)


def source_of_model(encoder: CachedEncoder, passages: Sequence[Passage]) -> Source:
    """A store that keeps a model's vectors, and finds the fifty nearest passages."""
    vectors = encoder.encode([passage.text for passage in passages], "passage").embedding
    places = {passage.id: place for place, passage in enumerate(passages)}
    return Source(
        "a model's nearest",
        nearest(encoder, passages, 50),
        lambda ids: {id_: vectors[places[id_]].tolist() for id_ in ids},
        lambda ids: [passages[places[id_]] for id_ in ids],
        lambda most: passages[:most],
    )


def _row(
    label: str,
    corpora: dict[str, list[Passage]],
    asked: Sequence[dict[str, str]],
    make: Callable[[list[Passage]], UEC | None],
) -> list[str]:
    """Ask all questions of an ensemble, which is made for each manual."""
    right, there, sure = defaultdict[str, list[bool]](list), list[bool](), list[float]()
    found, apart = list[bool](), list[tuple[bool, float]]()
    wrong, seconds = 0, 0.0
    for name, passages in corpora.items():
        start = time.perf_counter()
        uec = make(passages)
        seconds += time.perf_counter() - start
        for one in ask(uec, passages, [row for row in asked if row["documents"] == name]):
            right[one.kind].append(one.right)
            wrong += one.decision.action == "answer" and not one.right
            if one.kind != "ambiguous":
                there.append(KINDS[one.kind] == "answer")
                sure.append(one.decision.confidence)
            if one.kind == "own words":
                found.append(one.found)
            if one.kind == "absent" or (one.kind == "own words" and one.found):
                apart.append((one.found, one.decision.confidence))
    shares = [float(np.mean(right[kind])) for kind in KINDS]
    count = sum(map(len, right.values()))
    numbers = [*shares, float(np.mean(shares)), float(roc_auc_score(there, sure))]
    numbers += [float(np.mean(found)), float(roc_auc_score(*zip(*apart, strict=True)))]
    return [label, *(f"{x:.3f}" for x in numbers), str(wrong), str(count), f"{seconds:.0f}"]


if __name__ == "__main__":
    run_script(level, table, ranking, over)
