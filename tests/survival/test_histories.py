"""Whatever is added, replaced, deleted, saved and loaded: a dict knows as much."""

import random
import shutil
import tempfile
import uuid
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.helpers import FORGED, NUMERIC, bag_of_words, data_of, pairs, passages
from tests.stores.kinds import KINDS, beside
from tests.stores.test_filters import FILTERS, METADATA
from tests.survival.scale import report, times
from uec_rag import UEC, Retriever
from uec_rag.stores import Passage
from uec_rag.stores.candidates import CandidateStore
from uec_rag.stores.filters import matches, parse

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

STEPS = 50
# Of each kind: how many in every test run, and in the long one.
HISTORIES = data_of("histories.json")


@cache
def ensemble(kind):
    """What embeds in histories of a kind."""
    if "words" in kind:
        return UEC([bag_of_words(24, "first"), "bm25"]).fit(pairs(100))
    structure = "diag" if "diagonal" in kind else "kron"
    return UEC([bag_of_words(24, "first"), bag_of_words(8, "second", 1)], structure=structure).fit(
        pairs(100)
    )


def nearly(text):
    """Texts that say almost the same; the first has the very vector."""
    first, second, *rest = text.split()
    yield " ".join([second, first, *rest])
    yield " ".join([first, second, *rest, first])
    yield " ".join([second, *rest])


BASES = passages(16, seed=11)
TEXTS = [variant for text in BASES for variant in (text, *nearly(text))]
QUERIES = [" ".join(text.split()[:3]) for text in BASES[:6]] + ["unknown words"]
IDS = [f"p{number}" for number in range(40)]

ABOUT = [*METADATA, FORGED, METADATA[0] | FORGED]

# Many small choices at once, which hypothesis would make one by one.
chances = st.builds(random.Random, st.integers(0, 2**32))


class History(RuleBasedStateMachine):
    """An index, and what a dict says must be in it."""

    kind: str
    done = 0

    @initialize(filled=st.integers(0, 40))
    def start(self, filled):
        store_kind = self.kind.partition(",")[0]
        self.folder = Path(tempfile.mkdtemp())
        self.uec = ensemble(self.kind)
        self.index = Retriever(self.uec, KINDS[store_kind](self.folder / "store"))
        self.held, self.saved, self.steps = {}, None, 0
        self.add(random.Random(filled), filled)

    @property
    def in_memory(self):
        return self.kind.startswith(("memory", "folder"))

    def teardown(self):
        if hasattr(self, "folder"):
            if not self.in_memory:
                self.index.store.close()
            shutil.rmtree(self.folder)

    def write(self, given):
        self.index.add(
            [text for text, _ in given.values()],
            ids=[*given],
            metadatas=[metadata for _, metadata in given.values()],
        )
        for id_, (text, metadata) in given.items():
            self.held.pop(id_, None)
            kept = {key: value for key, value in metadata.items() if not key.startswith("uec_")}
            self.held[id_] = Passage(id_, text, kept)

    @rule(chance=chances, count=st.integers(1, 12))
    def add(self, chance, count):
        chosen = chance.sample(IDS, count)
        self.write({id_: (chance.choice(TEXTS), chance.choice(ABOUT)) for id_ in chosen})

    @precondition(lambda self: self.held)
    @rule(chance=chances)
    def replace_by_nearly_the_same(self, chance):
        passage = self.held[chance.choice([*self.held])]
        text = chance.choice([*nearly(passage.text), passage.text])
        self.write({passage.id: (text, passage.metadata)})

    @rule(chance=chances, count=st.integers(1, 8))
    def delete(self, chance, count):
        gone = chance.sample(IDS, count)
        there = [id_ for id_ in gone if self.held.pop(id_, None)]
        assert self.index.delete(gone) == len(there)

    @precondition(lambda self: len(self.held) > 35)
    @rule()
    def clear(self):
        self.index.clear()
        self.held.clear()

    @rule(chance=chances, count=st.integers(0, 5))
    def get(self, chance, count):
        asked = chance.sample(IDS, count)
        assert self.index.get(asked) == [self.held[id_] for id_ in asked if id_ in self.held]
        there = [id_ for id_ in dict.fromkeys(asked) if id_ in self.held]
        if there:
            vectors = self.index.vectors(there)
            expected = self.uec.embed([self.held[id_].text for id_ in there])
            np.testing.assert_allclose(vectors.mean, expected.mean, atol=1e-5)
            np.testing.assert_allclose(vectors.variance, expected.variance, rtol=1e-4)

    def best(self, view, asked, k):
        """The best of a view, by the fit."""
        fit = self.uec.fitted
        if isinstance(view, CandidateStore):
            view = view.fetch([""], asked, 100)
        return view.search(asked, k, beta=fit.options.beta, fit=fit)

    def wanted(self, filter_):
        """What a filter lets through."""
        if filter_ is None:
            return [*self.held.values()]
        return [passage for passage in self.held.values() if matches(parse(filter_), passage)]

    @rule(
        query=st.sampled_from(QUERIES),
        k=st.sampled_from([1, 3, 10, 60]),
        filter_=st.one_of(st.none(), FILTERS),
    )
    def search(self, query, k, filter_):
        """Hits are the best of what a filter lets through, with the numbers that they have."""
        wanted = self.wanted(filter_)
        asked = self.uec.embed([query], "query")
        found = self.best(self.index.store.snapshot(filter_), asked, k)
        hits = [passage.id for passage in found.passages[0]]
        assert len({*hits}) == len(hits) == min(k, len(wanted))
        assert {*hits} <= {passage.id for passage in wanted}
        assert found.passages[0] == [self.held[id_] for id_ in hits]
        if wanted:
            plain = Retriever(self.uec)  # of the same passages, without a history
            held = [*self.held.values()]
            plain.add([p.text for p in held], [p.id for p in held], [p.metadata for p in held])
            best = self.best(plain.store.snapshot(filter_), asked, k)
            for name in ("scores", "mu", "sigma2"):
                expected, got = (getattr(one, name) for one in (best, found))
                np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
        self.ask(self.index, query, k, filter_, wanted)

    def ask(self, index, query, k, filter_, wanted):
        """A search as users have it: of different texts."""
        result = index.search([query], k, filter=filter_)
        assert len(result.ids[0]) == min(k, len({passage.text for passage in wanted}))
        assert {*result.ids[0]} <= {passage.id for passage in wanted}
        for name in NUMERIC:
            assert np.isfinite(getattr(result, name)).all(), name
        assert ((result.confidence >= 0) & (result.confidence <= 1)).all()
        assert (np.diff(result.scores) <= 1e-6).all()
        return result

    @precondition(lambda self: self.in_memory)
    @rule(go_on=st.booleans())
    def save(self, go_on):
        folder = self.folder / uuid.uuid4().hex
        self.index.save(folder)
        self.saved = folder, dict(self.held)
        loaded = Retriever.load(folder, self.uec)
        loaded.check()
        one, other = (index.search([QUERIES[0]], 10) for index in (loaded, self.index))
        # Of texts of one vector either may come first: rounding differs with where they lie.
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-5, atol=1e-6)
        if go_on:
            self.index = loaded
        if self.index.folder == folder:
            self.saved = None

    @precondition(lambda self: self.saved is not None and self.in_memory)
    @rule()
    def go_back(self):
        folder, held = self.saved
        self.index, self.held, self.saved = Retriever.load(folder, self.uec), dict(held), None

    @precondition(lambda self: not self.in_memory)
    @rule()
    def let_another_go_on(self):
        """Another process, so to speak."""
        self.index = Retriever(self.uec, beside(self.index.store))

    @invariant()
    def is_what_the_dict_says(self):
        if not hasattr(self, "index"):
            return
        type(self).done += 1
        self.steps += 1
        assert len(self.index) == len(self.held)
        there, held = [*self.index.passages()], [*self.held.values()]
        if not self.in_memory:  # an engine has them in an order of its own
            there, held = ([*sorted(some, key=lambda p: p.id)] for some in (there, held))
        assert there == held
        if not self.steps % 4:
            self.search(QUERIES[self.steps // 4 % len(QUERIES)], 5, None)


@pytest.mark.parametrize("kind", HISTORIES)
def test_an_index_is_what_its_history_says(kind):
    machine = type("OfAKind", (History,), {"kind": kind})
    examples = times(*HISTORIES[kind])
    run_state_machine_as_test(
        machine,
        settings=settings(
            settings.default,
            max_examples=examples,
            stateful_step_count=STEPS,
            phases=[Phase.generate],  # to shrink takes minutes, and a history reads well as it is
        ),
    )
    report(f"{kind}: {machine.done:,} operations in {examples} histories")
