"""Fit an ensemble on the passages of an index, without labels.

Questions are made of the passages: their headings, and the first sentence of one, which the rest of
it answers. That such questions are answered says little about those of users, so that confidence is
set to the level that it has for `UEC()` on such questions, see `uec_rag.ensemble.fit.fit`.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from uec_rag.base.gaussian import Gaussian
from uec_rag.documents.questions import make_questions
from uec_rag.encoders.base import Encoded, TermEncoder
from uec_rag.ensemble.convolution import blocks
from uec_rag.ensemble.known_vectors import with_caches
from uec_rag.ensemble.uec import UEC
from uec_rag.laplace.pairs import MINIMUM
from uec_rag.stores.base import Passage, Store

ENOUGH = 64
"""The smallest number of passages to fit an ensemble on."""

_MOST_PAIRS = 300
_MOST_READ = 20_000  # passages that questions are drawn from
_MOST_LISTED = 2000  # the same, of another package's store
_SENTENCE = 5  # words from which a question is taken for a sentence, which stands nowhere by chance
_AT_ONCE = 4096  # passages in memory at a time

_log = logging.getLogger("uec_rag")


def pairs_from_passages(
    passages: Sequence[Passage], most: int = _MOST_PAIRS
) -> list[tuple[str, str]]:
    """Make questions of passages, each with the text that answers it, in random order.

    See `uec_rag.documents.questions.make_questions`. Where passages overlap, the first sentence of
    one stands in another, too, which would look like its answer, and is taken out there.
    """
    shuffled = random.Random(0).sample([*passages], len(passages))
    made = make_questions(shuffled, most)
    pairs = zip(made.questions, made.relevant, strict=True)
    sentences = [question for question in made.questions if len(question.split()) >= _SENTENCE]
    cleaned = ((q, _without(sentences, made.answers[answers[0]])) for q, answers in pairs)
    return [(question, answer) for question, answer in cleaned if answer]


def _without(sentences: Sequence[str], text: str) -> str:
    """Return a text without some sentences; unchanged if it has none of them."""
    flat = " ".join(text.split())
    found = [sentence for sentence in sentences if sentence in flat]
    for sentence in found:
        flat = flat.replace(sentence, " ")
    return flat.strip() if found else text


def sample_passages(store: Store) -> list[Passage]:
    """Return passages to fit an ensemble on: up to 20,000 of ours, or 2,000 of a source.

    There are none if a source cannot list them.
    """
    return store.examples(_MOST_READ if store.can_list else _MOST_LISTED)


def fit_without_labels(
    uec: UEC, passages: Sequence[Passage], *, show_progress: bool | None = None
) -> UEC | None:
    """Return a copy of an ensemble that is fitted on questions made of passages.

    None if fewer than 32 questions can be made, or an encoder has another last layer than the
    identity, so that stored vectors do not determine its Gaussians.
    """
    from uec_rag.ensemble.fit import fit

    pairs = pairs_from_passages(passages)
    fitted = with_caches(uec)
    dense = [each for each in fitted.encoders if not isinstance(each, TermEncoder)]
    different = len({answer for _, answer in pairs})
    if different < MINIMUM or not dense or uec.fitted.space != "direct":
        return None
    probes = [encoder.encode([pairs[0][1]], "passage") for encoder in dense]
    if not all(np.array_equal(probe.embedding, probe.features) for probe in probes):
        return None
    start = time.perf_counter()
    _log.warning(
        "uec_rag: fitting on %s questions made of the passages: %s texts are embedded by %s, once.",
        len(pairs),
        2 * len(pairs),
        " and ".join(encoder.name for encoder in dense),
    )
    fitted.fitted = fit(
        fitted.encoders,
        uec.fitted,
        pairs,
        uec.options,
        show_progress=show_progress,
        are_generated=True,
    )
    _log.warning("uec_rag: fitted in %.0f s.", time.perf_counter() - start)
    return fitted


def refit(store: Store, old: UEC, new: UEC) -> Iterator[tuple[list[Passage], Gaussian]]:
    """Yield all passages of a store with their Gaussians after a fit; no model is run.

    Parameters
    ----------
    store : Store
        A view with Gaussians of `old`.
    old, new : UEC
        The ensemble before and after a fit, of encoders whose last layer is the identity.
    """
    widths = [encoder.dimension for encoder in new.encoders]
    passages = store.passages()
    while some := [*islice(passages, _AT_ONCE)]:
        means = store.vectors([passage.id for passage in some]).mean
        texts = [passage.searched for passage in some]
        encoded = [
            encoder.encode(texts, "passage")
            if isinstance(encoder, TermEncoder)
            else Encoded(unit, unit)
            for encoder, unit in zip(
                new.encoders, blocks(means, widths, old.fitted.weights), strict=True
            )
        ]
        parts = new.fitted.gaussians(encoded)
        yield some, new.fitted.combine_as(parts, "passage")
