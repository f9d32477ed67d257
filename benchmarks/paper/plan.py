"""What a run measures: the tasks of a data folder, the encoders compared, the pairs to fit on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.paper import use
from benchmarks.paper.data import (
    load_bitext,
    load_collection,
    load_labelled_texts,
    load_positive_pairs,
    load_scored_pairs,
    read_gains,
    read_rows,
    sample_collection,
)
from benchmarks.paper.systems.lineup import Lineup, ProjectionOf
from benchmarks.paper.tasks import (
    BitextMining,
    Classification,
    Clustering,
    Reranking,
    Retrieval,
    SemanticSimilarity,
    Task,
)
from uec_rag.encoders import CachedEncoder, Encoder, Role, load_encoder
from uec_rag.encoders.loading import EncoderLike

Pair = tuple[str, str]

FIT = ("tydiqa_goldp_en:train", "snli_en:dev")
"""Sets that are fitted on, by name and split: queries with passages, and entailments."""

PROXY = "msmarco_pairs_mini:train"
"""The pair task that calibration is measured on; never fitted on."""

_SEMREL = ("afr", "amh", "arb", "arq", "ary", "eng", "hau", "hin", "ind", "kin", "mar", "tel")

SETS = (
    "fiqa_small",
    "cranfield",
    "claude_docs_rag",
    "medline",
    "belebele_en",
    "noveleval",
    "poem_sentiment",
    "tweeteval_emotion",
    "banking77",
    "stsb_en",
    *(f"semrel24_{language}" for language in _SEMREL),
    *(f"tatoeba_laser:{language}" for language in ("deu", "fra", "rus", "cmn", "ara", "hin")),
    "stackoverflow_titles",
)
"""Sets that are reported where the data folder has them; of the bitext, languages."""

SMALL = ("belebele_en", "poem_sentiment", "stsb_en")
"""Sets on which models of their own, merged of others' weights, are measured too."""

LANGUAGE_SETS = {
    "en": ("xquad_en", "tydiqa_goldp_en:train"),
    "ru": ("xquad_ru", "tydiqa_goldp_ru"),
    "zh": ("xquad_zh", "cmrc2018_zh:trial"),
    "ar": ("xquad_ar", "tydiqa_goldp_ar"),
}
"""Language -> what is searched, and what is fitted on: the paper's experiment on MIRACL."""


@dataclass(frozen=True)
class Limits:
    """How large samples of the sets are.

    Attributes
    ----------
    fit_pairs : int
        Of each set that is fitted on.
    queries, passages : int
        Of a retrieval collection.
    test_texts : int
        Of a classification's test split and of a clustering.
    train_per_label : int
        Pool that a classification's ten training sets are drawn from.
    scored_pairs, language_pairs : int
        Of a similarity set; of one of a family of languages (semrel24), and of a bitext.
    proxy_pairs : int
        Positives of the pair task.
    language_queries, language_fit : int
        Queries of each language, and pairs fitted on, as the paper has them: 100 and 50.
    """

    fit_pairs: int = 600
    queries: int = 200
    passages: int = 400
    test_texts: int = 500
    train_per_label: int = 16
    scored_pairs: int = 500
    language_pairs: int = 150
    proxy_pairs: int = 400
    language_queries: int = 100
    language_fit: int = 120


@dataclass(frozen=True)
class Plan:
    """Everything that a run measures with one set of encoders.

    Attributes
    ----------
    tasks : list of Task
    pairs : list of (query, passage)
        What is fitted on.
    proxy : list of (query, passage)
        Positives of the pair task; empty where there is none.
    left_out : list of str
        What the data folder does not have, in words.
    languages : dict
        Name of a searched collection -> the pairs of its language; empty but for `LANGUAGE_SETS`.
    """

    tasks: list[Task]
    pairs: list[Pair]
    proxy: list[Pair] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    languages: dict[str, list[Pair]] = field(default_factory=dict)

    def texts(self) -> dict[Role, list[str]]:
        """Return the distinct texts that are embedded in each role."""
        found: dict[Role, dict[str, None]] = {"query": {}, "passage": {}}
        for task in self.tasks:
            for role, texts in task.texts():
                found[role] |= dict.fromkeys(texts)
        for pairs in (self.pairs, self.proxy):
            found["query"] |= dict.fromkeys(query for query, _ in pairs)
            found["passage"] |= dict.fromkeys(passage for _, passage in pairs)
        return {role: list(texts) for role, texts in found.items()}


def make_plan(
    data: Path,
    *,
    sets: Sequence[str] | None = None,
    fit: Sequence[str] | None = None,
    proxy: str = PROXY,
    limits: Limits | None = None,
) -> Plan:
    """Read a data folder's sets as tasks, and the pairs to fit on.

    Parameters
    ----------
    data : path
        A folder with a folder for each set.
    sets : sequence of str, optional
        Names of the sets to report; of a bitext with its language, "name:deu". By default those
        of `SETS` that are there, or whatever is there that is not fitted on.
    fit : sequence of str, optional
        Sets to fit on, "name" or "name:split"; by default those of `FIT` that are there.
    proxy : str
        The pair task, likewise; left out where it is not there.
    limits : Limits, optional

    Raises
    ------
    FileNotFoundError
        If a set that was asked for is not there, or there is none to report or to fit on.
    """
    limits = limits or Limits()
    left_out: list[str] = []
    chosen_fit = list(fit) if fit is not None else _present(data, FIT, left_out)
    if not chosen_fit:
        raise FileNotFoundError(
            f"--fit: {str(data)!r} has none of {list(FIT)}; name a set with queries and passages, "
            "as NAME or NAME:SPLIT."
        )
    if sets is not None:
        chosen = list(sets)
    else:
        chosen = _present(data, SETS, left_out)
        if len(left_out) and not chosen:
            fitted = {name.partition(":")[0] for name in [*chosen_fit, proxy]}
            chosen = [f.name for f in sorted(data.iterdir()) if f.is_dir() and f.name not in fitted]
            left_out.clear()
    tasks = [task for name in chosen for task in read_tasks(data, name, limits)]
    if not tasks:
        raise FileNotFoundError(f"DATA: {str(data)!r} holds no set to report; see --sets.")
    pairs = [pair for name in chosen_fit for pair in read_pairs(data, name, limits.fit_pairs)]
    there = _present(data, [proxy], left_out)
    return Plan(
        tasks,
        pairs,
        [pair for name in there for pair in read_pairs(data, name, limits.proxy_pairs)],
        left_out,
    )


def make_language_plan(data: Path, limits: Limits | None = None) -> Plan | None:
    """Read the experiment with language-specialised models; None where its sets are missing."""
    limits = limits or Limits()
    needed = [name for names in LANGUAGE_SETS.values() for name in names]
    if _present(data, needed, []) != needed:
        return None
    tasks: list[Task] = []
    languages = {}
    for searched, fitted in LANGUAGE_SETS.values():
        tasks += read_tasks(
            data, searched, Limits(queries=limits.language_queries, passages=limits.passages)
        )
        languages[searched] = read_pairs(data, fitted, limits.language_fit)
    return Plan(tasks, [pair for own in languages.values() for pair in own], languages=languages)


def read_tasks(data: Path, name: str, limits: Limits) -> list[Task]:
    """Read one set as the tasks that its files say it is.

    Raises
    ------
    FileNotFoundError
        If there is no such set.
    """
    base, _, language = name.partition(":")
    folder, small = data / base, base in SMALL
    if (folder / "corpus.jsonl.gz").is_file():
        collection = load_collection(folder)
        candidates = _judged(folder)
        if candidates is not None:
            own = {query: candidates[query] for query in collection.queries}
            return [Reranking(collection, small, candidates=own)]
        sampled = sample_collection(collection, limits.queries, limits.passages)
        return [Retrieval(sampled, small)]
    if (folder / "pairs.jsonl.gz").is_file():
        return _of_pairs(folder, language, limits, small)
    if (folder / "data.jsonl.gz").is_file():
        return _of_labelled(folder, limits, small)
    raise FileNotFoundError(
        f"DATA: no set {base!r} in {str(data)!r}; expected a folder with corpus.jsonl.gz, "
        "pairs.jsonl.gz or data.jsonl.gz."
    )


def _of_pairs(folder: Path, language: str, limits: Limits, small: bool) -> list[Task]:
    """Scored pairs are a similarity task, pairs of a language a bitext; others are for fitting."""
    rows = read_rows(folder / "pairs.jsonl.gz")
    if any("score" in row for row in rows):
        family = folder.name.startswith("semrel24_")
        limit = limits.language_pairs if family else limits.scored_pairs
        return [SemanticSimilarity(load_scored_pairs(folder, limit=limit), small)]
    languages = [language] if language else sorted({row["lang"] for row in rows if "lang" in row})
    return [
        BitextMining(load_bitext(folder, name, limit=limits.language_pairs), small)
        for name in languages
    ]


def _of_labelled(folder: Path, limits: Limits, small: bool) -> list[Task]:
    """A set with a training split is a classification; one without a clustering."""
    splits = {str(row["split"]) for row in read_rows(folder / "data.jsonl.gz")}
    if not {"train", "test"} <= splits:
        split = min(splits)
        return [Clustering(load_labelled_texts(folder, split, limit=limits.test_texts), small)]
    return [
        Classification(
            load_labelled_texts(folder, "test", limit=limits.test_texts),
            small,
            train=load_labelled_texts(folder, "train", per_label=limits.train_per_label),
        )
    ]


def read_pairs(data: Path, name: str, limit: int) -> list[Pair]:
    """Read a sample of a set's (query, passage) or entailed pairs, "name" or "name:split"."""
    base, _, split = name.partition(":")
    folder = data / base
    if (folder / "corpus.jsonl.gz").is_file():
        pairs = load_collection(folder, split or None).pairs()
        order = np.random.default_rng(0).permutation(len(pairs))[:limit]
        return [pairs[index] for index in order]
    for label in ("entailment", 1):
        try:
            return load_positive_pairs(folder, split or "train", label, limit=limit)
        except ValueError:
            continue
    raise ValueError(
        f"--fit: {name!r} has no pairs that are labelled 'entailment' or 1 in that split."
    )


def _present(data: Path, names: Sequence[str], left_out: list[str]) -> list[str]:
    there = [name for name in names if (data / name.partition(":")[0]).is_dir()]
    left_out += [f"{name}: not in the data folder" for name in names if name not in there]
    return there


def _judged(folder: Path) -> dict[str, list[str]] | None:
    """Each query's judged passages, if some are judged not relevant: candidates to rerank."""
    judged: dict[str, list[str]] = {}
    zeros = False
    for query, passage, gain in read_gains(folder / "qrels.tsv"):
        judged.setdefault(query, []).append(passage)
        zeros |= gain == 0
    return judged if zeros else None


MAIN, LANGUAGES = "main", "languages"


@dataclass(frozen=True)
class Group:
    """A set of encoders and what they are measured on.

    Attributes
    ----------
    name : str
        `MAIN`, or `LANGUAGES` for the experiment with language-specialised models.
    plan : Plan
    lineup : Lineup
    """

    name: str
    plan: Plan
    lineup: Lineup


def make_group(name: str, plan: Plan, models: Sequence[EncoderLike], cache: Path) -> Group:
    """Load encoders behind the embedding cache and build their line-up.

    Parameters
    ----------
    name : str
    plan : Plan
    models : sequence
        Whatever `load_encoder` takes, and a name in `use.PACKAGES`.
    cache : path
        Folder of the embedding cache.

    Raises
    ------
    ValueError
        If two encoders have one name.
    """

    def remember(encoder: Encoder) -> Encoder:
        return CachedEncoder(encoder, cache)

    def load(model: EncoderLike) -> Encoder:
        if model in use.PACKAGES:
            return remember(use.load(str(model)))
        try:
            # Both layers of one encoding: UEC.paper asks for the one, all else for the other.
            return ProjectionOf(remember(load_encoder(model, last_layer="ffn")))
        except ValueError:  # not a transformer that one can look into
            return remember(load_encoder(model))

    encoders = [load(model) for model in models]
    names = [encoder.name for encoder in encoders]
    if len(set(names)) < len(names):
        raise ValueError(f"--model: expected encoders of different names, got {names}.")
    return Group(name, plan, Lineup(encoders, plan.pairs, remember))
