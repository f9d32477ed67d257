"""The weights of what tells a mistyped word from one that no passage has.

    python -m benchmarks.quality.spelling DATA

Words of questions to collections are asked of 20, 200 and 5,000 passages: as they are, with one
mistake, and as they are of other collections. Where no passage has a word and some have a near
one, a softmax over the word and the near ones is fitted; a mistake has the weight `RATE`, a word as
it is the rest. Mistakes are missing, added, swapped and other letters (4 : 2 : 2 : 2), but never
the first letter.
Printed are the weights in `uec_rag.evidence.words` and `uec_rag.encoders.lexical.near_words`, and
what four folds of collections that were not fitted on make of mistyped and of correct words.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.paper.data import Collection, load_collection
from benchmarks.quality.shared import Data
from benchmarks.tables import print_table, run_script
from uec_rag import UEC
from uec_rag.base.text import FUNCTION_WORDS, telling_words
from uec_rag.encoders.lexical import keys_of, near_words, stem_of, term_key
from uec_rag.evidence.words import names_in
from uec_rag.retrieval.spelling import _SPELLABLE, _UNUSUAL

SETS = "fiqa_small,cranfield,claude_docs_rag,medline,cisi,chroma_chunking,belebele_en"
SETS += ",tydiqa_goldp_en,squad_sample,boolq_dev"
SIZES, ASKED = (20, 200, 5000), 100
RATE = 0.05  # share of words that are mistyped
LETTERS = "etaoinsrhldcumfpgwybvkxjqz"
NAMES = ["kept", "length", "rarity", "unusual", "count", "share", "stripped", "function"]
NAMES += ["adds", "swaps"]
BY_LETTERS = [name not in ("rarity", "unusual") for name in NAMES]

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Example:
    """A word, the features of it and of the near ones, which of them are right, and its weight."""

    collection: str
    features: Matrix
    right: NDArray[np.bool_]
    is_mistyped: bool
    weight: float


def mistyped(word: str, rng: random.Random) -> str:
    """A word with one mistake."""
    kind, at = rng.choices(("gone", "more", "swap", "other"), (4, 2, 2, 2))[0], len(word)
    at = rng.randrange(1, len(word) - (kind == "swap" and len(word) > 2))
    if kind == "gone":
        return word[:at] + word[at + 1 :]
    if kind == "more":
        return word[:at] + rng.choice((word[at], word[at - 1], rng.choice(LETTERS))) + word[at:]
    if kind == "swap":
        return word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :]
    return word[:at] + rng.choice(LETTERS) + word[at + 1 :]


def example(
    name: str,
    typed: str,
    meant: str | None,
    counts: Counter[int],
    size: int,
    rarity: Callable[[str], float],
) -> Example | None:
    """The example of a word; None if passages have it, or none that is near."""
    near_ones, keys, _ = near_words(typed)
    held = [
        (near, count)
        for near, key in zip(near_ones, keys.tolist(), strict=True)
        if (count := counts[key] + (near in FUNCTION_WORDS))
    ]
    if not held or counts[term_key(stem_of(typed))]:
        return None
    rare = rarity(typed)
    rows = [[1.0, len(typed), rare, min(rare, _UNUSUAL), 0, 0, 0, 0, 0, 0]]
    for near, count in held:
        rare = rarity(near)
        of_near = [np.log1p(count), np.log((count + 0.5) / (size + 1))]
        of_near += [min(len(near) - len(stem_of(near)), 4), near in FUNCTION_WORDS]
        of_near += [len(near) > len(typed), sorted(near) == sorted(typed)]
        rows.append([0, 0, rare, min(rare, _UNUSUAL), *of_near])
    same = [meant is not None and stem_of(near) == stem_of(meant) for near, _ in held]
    right = np.array([not any(same), *same])
    weight = 1 - RATE if meant is None else RATE
    return Example(name, np.array(rows, dtype=float), right, any(same), weight)


def examples(collections: Sequence[Collection], rarity: Callable[[str], float]) -> list[Example]:
    """The words of questions, asked of passages of each collection."""
    rng, made = random.Random(0), list[Example]()
    for collection in collections:
        others = [
            text for one in collections if one is not collection for text in one.queries.values()
        ]
        names, texts = [*collection.queries], [*collection.passages.values()]
        rng.shuffle(names)
        rng.shuffle(texts)
        for size in SIZES:
            own = names[: max(10, min(ASKED, size // 2))]
            kept = [collection.passages[id_] for one in own for id_ in collection.relevant[one]]
            kept = [*kept[:size], *texts[: max(0, size - len(kept))]]
            counts = Counter(key for text in kept for key in {*keys_of(text).tolist()})
            asked = [collection.queries[one] for one in own]
            for question in asked + rng.sample(others, max(len(own) // 2, 10)):
                words: list[str] = _SPELLABLE.findall(question)
                named = names_in(question, words) if words else set[str]()
                for word in {*words} - named:
                    typed = mistyped(word.lower(), rng)
                    pairs = [(word.lower(), None)] * len(telling_words([word], FUNCTION_WORDS))
                    if len(typed) > 2 and typed not in FUNCTION_WORDS:
                        pairs.append((typed, word.lower()))
                    some = (
                        example(collection.name, *pair, counts, len(kept), rarity) for pair in pairs
                    )
                    made += filter(None, some)
    return made


def softmax(logits: Matrix, starts: NDArray[np.intp]) -> Matrix:
    """The softmax of each example's logits."""
    sizes = np.diff(np.append(starts, len(logits)))
    odds = np.exp(logits - np.repeat(np.maximum.reduceat(logits, starts), sizes))
    return np.asarray(odds / np.repeat(np.add.reduceat(odds, starts), sizes))


def starts_of(some: Sequence[Example]) -> NDArray[np.intp]:
    """The first row of each example."""
    return np.cumsum([0, *(len(one.features) for one in some[:-1])])


def fit(some: Sequence[Example], used: NDArray[np.bool_]) -> Matrix:
    """The weights of features that maximise the likelihood, all collections alike."""
    count = Counter(one.collection for one in some)
    rows, starts = np.concatenate([one.features * used for one in some]), starts_of(some)
    right = np.concatenate([one.right for one in some])
    weight = np.array([one.weight * len(some) / count[one.collection] for one in some])
    sizes = np.diff(np.append(starts, len(rows)))

    def loss(weights: Matrix) -> tuple[float, Matrix]:
        shares = softmax(rows @ weights, starts)
        told = np.maximum(np.add.reduceat(shares * right, starts), 1e-12)
        error = shares - shares * right / np.repeat(told, sizes)
        slope = rows.T @ (error * np.repeat(weight, sizes)) + weights
        return float((weights**2).sum() / 2 - weight @ np.log(told)), slope

    return np.asarray(minimize(loss, np.zeros(len(NAMES)), jac=True, method="L-BFGS-B").x)


def outcomes(some: Sequence[Example], weights: Matrix) -> Counter[tuple[bool, str]]:
    """How many mistyped and correct words are kept, corrected rightly, or wrongly."""
    told = Counter[tuple[bool, str]]()
    for one in some:
        shares = softmax(one.features @ weights, np.array([0]))
        best = int(shares[1:].argmax()) + 1
        outcome = (
            "kept" if shares[0] > shares[1:].sum() else "right" if one.right[best] else "wrong"
        )
        told[one.is_mistyped, outcome] += 1
    return told


def main(data: Data) -> None:
    """Print the weights, and what becomes of words of other collections."""
    rarity = UEC().rarity
    loaded = [load_collection(data / name) for name in SETS.split(",")]
    made = examples(loaded, rarity)
    weights, told = [], []
    for title, used in (
        ("with rarity", np.ones(len(NAMES), bool)),
        ("by letters", np.array(BY_LETTERS)),
    ):
        weights.append([title, *(f"{weight:.2f}" for weight in fit(made, used))])
        total = Counter[tuple[bool, str]]()
        for fold in range(4):
            out = {one.name for one in loaded[fold::4]}
            learned = fit([one for one in made if one.collection not in out], used)
            total += outcomes([one for one in made if one.collection in out], learned)
        for is_mistyped in (True, False):
            some = {of: total[is_mistyped, of] for of in ("right", "kept", "wrong")}
            n = sum(some.values())
            kind = "mistyped" if is_mistyped else "not mistyped by one letter of a near word"
            told.append([title, kind, str(n), *(f"{count / n:.3f}" for count in some.values())])
    print_table("Weights", ["", *NAMES], weights)
    columns = ["", "words", "number", "corrected rightly", "kept", "corrected wrongly"]
    print_table("Words of collections that were not fitted on", columns, told)


if __name__ == "__main__":
    run_script(main)
