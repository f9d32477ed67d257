"""The gate answers where the risk of a wrong answer is under control, and only there."""

import asyncio
import contextlib
import json
import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import Counting, index_of, labelled, refused, rightness
from uec_rag import UEC, Advice, Retriever
from uec_rag.confidence.decision import Decision, decide
from uec_rag.confidence.risk import Guarantee, expected_threshold
from uec_rag.gates.gate import Gate
from uec_rag.gates.labelled_search import LabelledSearch
from uec_rag.gates.policy import Stamp
from uec_rag.gates.rulings import Judged, Pending
from uec_rag.questions.replies import Reading
from uec_rag.retrieval.diversity import Diversity
from uec_rag.retrieval.results import SearchResult
from uec_rag.stores.local import View
from uec_rag.stores.qdrant import QdrantStore

RISK = 0.25


@pytest.fixture(scope="module")
def of_800(full, texts):
    return LabelledSearch.from_queries(full, *labelled(texts, 800, unanswerable_rate=0.2))


@pytest.fixture(scope="module")
def gate(of_800):
    return Gate.from_search(of_800, max_risk=RISK)


@pytest.mark.parametrize("make", [Gate.from_labels, LabelledSearch.from_queries])
def test_what_does_not_search_is_refused(full, make):
    with pytest.raises(TypeError, match=r"retriever: expected a uec_rag\.Retriever, got Local"):
        make(full.store, ["badero"], [["p0"]])


def test_it_answers_only_above_its_threshold(gate, full, texts):
    result = full.search(labelled(texts, 300, seed=1)[0], gate.k)
    above = result.confidence > gate.threshold
    assert 0.05 < above.mean() < 0.95
    asks = np.array([d.action == "clarify" for d in gate.decide(result)])
    assert [d.action == "answer" for d in gate.decide(result)] == (above & ~asks).tolist()
    assert gate.decide(result) == result.decide(gate.threshold)


@pytest.mark.slow
def test_on_other_queries_it_is_rarely_wrong_though_answering_all_would_be(gate, full, texts):
    queries, relevant = labelled(texts, 3000, seed=2, unanswerable_rate=0.2)
    result = full.search(queries, gate.k)
    right = rightness(result, relevant).any(axis=1)
    answered = np.array([d.action == "answer" for d in gate.decide(result)])
    assert (~right).mean() > RISK + 0.1
    assert answered.mean() > 0.1
    error = np.sqrt(RISK * (1 - RISK) / answered.sum())
    assert (~right[answered]).mean() <= RISK + 2 * error


def test_a_decision_of_another_search_than_it_was_made_for_is_warned_of(gate, full, texts):
    asked = labelled(texts, 3, seed=5)[0]
    decided = full.search(asked, 9)[0].decision  # whose confidence is of as many as the gate's
    with warnings.catch_warnings(action="error"):
        gate.decide_again(decided)
        gate.decide_again(Decision("answer", "without a word on what it rests on"))
    with pytest.warns(UserWarning, match="another calibration or filter"):
        gate.decide_again(full.search(asked, filter={"even": True})[0].decision)
    with pytest.warns(UserWarning, match="about the first 9 hits, and the gate was made for 4"):
        gate.decide_again(replace(decided, hits=9))


def basis(index, filter=None):
    """What the confidence of a search rests on."""
    return index.search(["badero"], filter=filter)[0].decision.basis


def test_what_confidence_rests_on_is_told_by_calibration_and_filter(gate, full, texts):
    calibrated = full.snapshot()
    assert basis(calibrated) == basis(full)
    calibrated.calibrate(*labelled(texts, 60))
    assert (gate.fits(full), gate.fits(calibrated)) == (True, False)
    filters = [None, {"even": True}, {"even": False}, lambda passage: True]
    each = [*(basis(full, filter) for filter in filters), basis(calibrated)]
    assert len({*each}) == 5


def test_a_filter_written_in_another_order_is_the_same_filter(full):
    even, odd, ids = {"even": True}, {"even": False}, {"$id": [f"p{i}" for i in range(50)]}
    for one, other in (
        (even | {"$or": [ids, even, odd]}, {"$or": (ids, even, odd)} | even),
        ({"$and": [lambda p: True]}, {"$and": [lambda p: p.text != ""]}),
        ({"even": {"$in": {True, False}}}, {"even": {"$in": {False, True}}}),
    ):
        assert basis(full, one) == basis(full, other) != basis(full)


@pytest.mark.slow
def test_it_is_calibrated_on_what_a_filter_leaves(full, texts):
    asked = labelled(texts, 400)
    odd = Gate.from_labels(full, *asked, max_risk=0.65, filter={"even": False})
    found = full.search(asked[0], odd.k, filter={"even": False})
    right = rightness(found, asked[1]).any(axis=1)
    above = np.array([d.action == "answer" for d in odd.decide(found)])
    assert odd.guarantee.wrong == int((~right[above]).sum())
    assert odd.guarantee.answered == int(above.sum())


def test_it_is_saved_to_a_file_and_loaded(gate, full, texts, tmp_path):
    never = Gate.from_labels(full, *labelled(texts, 30), max_risk=0.05)
    assert math.isinf(never.guarantee.threshold)
    for one in (never, gate):
        one.save(tmp_path / "gate.json")
        loaded = Gate.load(tmp_path / "gate.json")
        assert loaded == one
        assert loaded.fits(full)
    assert [file.name for file in tmp_path.iterdir()] == ["gate.json"]
    with pytest.raises(FileNotFoundError, match="there is no gate in"):
        Gate.load(tmp_path / "other.json")
    for content, said in (("[]", "expected an object"), ('{"k": "4"}', "Gate: expected the field")):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(ValueError, match=said):
            Gate.load(tmp_path / "bad.json")


@pytest.fixture(scope="module")
def counted(fit_pairs, texts):
    """An index whose encoder says how many texts it was given."""
    encoder = Counting()
    retriever = index_of(
        UEC([encoder], coefficients="uniform").fit(fit_pairs),
        texts[:50],
        [f"p{i}" for i in range(50)],
    )
    return retriever, encoder


ASKED = ["badero golugo", "mapifi"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"max_risk": math.nan}, ValueError, "max_risk: expected a number in (0, 1), got nan."),
        ({"max_risk": True}, TypeError, "max_risk: expected a number in (0, 1)"),
        ({"certainty": 95}, ValueError, "certainty: expected a number in (0, 1), got 95."),
        ({"certainty": None}, TypeError, "certainty: expected a number in (0, 1)"),
        ({"k": 0}, ValueError, "k: expected an integer >= 1, got 0"),
        ({"filter": "x"}, TypeError, "filter: expected a mapping"),
        ({"filter": {"lang": {"$like": "d"}}}, ValueError, "has the unknown operator '$like'"),
    ],
)
def test_bad_input_is_refused_before_anything_is_encoded(counted, arguments, error, message):
    retriever, encoder = counted
    before = encoder.count
    with pytest.raises(error, match=re.escape(message)):
        Gate.from_labels(
            retriever, **({"queries": ASKED, "relevant_ids": [["p1"], ["p2", "p3"]]} | arguments)
        )
    assert encoder.count == before


@pytest.mark.parametrize("given", [0.5, 0.3, 0.9])
def test_a_threshold_beside_an_expected_share_is_refused(given):
    with pytest.raises(
        ValueError, match=r"max_wrong: .* stands for a threshold of .*: omit thresh"
    ):
        Gate(given, max_wrong=0.1)
    own = Gate(max_wrong=0.1)
    assert Gate(own.threshold, max_wrong=0.1) == own
    assert Gate.restore(own.metadata()) == own


def test_a_gate_fits_no_index_of_another_method_but_of_another_release(full, monkeypatch):
    gate = Gate(0.5, stamp=Stamp(full.stamp().basis))
    assert gate.fits(full)
    monkeypatch.setattr("uec_rag.base.__version__", "9.0")
    assert gate.fits(full)
    monkeypatch.setattr("uec_rag.retrieval.rankings._METHOD", 9)
    assert not gate.fits(full)


MADE_WITH = tuple((f"p{number}", "a hash") for number in range(20))
MODEL, OTHER_MODEL = (1.0, 0.0) * 3 + (0.99,), (0.0, 1.0) * 3 + (0.99,)  # by three probes
STAMP = Stamp("settings", "corpus", (MODEL,), MADE_WITH)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"probes": (OTHER_MODEL,)}, "another embedding model"),
        ({"probes": ()}, "another embedding model"),
        ({"corpus": "other"}, "made for other passages"),
        ({"passages": MADE_WITH[2:]}, ""),  # a tenth is gone
        ({"passages": MADE_WITH[3:]}, "3 of the 20 compared passages"),
        ({"basis": "other"}, "another calibration or filter"),
    ],
)
def test_a_stamp_says_what_differs_and_what_it_does_not_know_does_not(changed, said):
    now = replace(STAMP, **changed)
    assert (said in STAMP.differs(now)) if said else STAMP.differs(now) == ""
    assert Stamp().differs(now) == ""


def test_a_gate_is_searched_as_deep_as_it_was_made_and_as_its_advisor_reads():
    assert [Gate(k=6).depth(k) for k in (3, 9)] == [6, 9]
    assert Gate(advisor=lambda *_: True).depth(3) == 10
    promised = Gate(0.5, TestNumbers.GUARANTEE, k=6)
    assert [gate.hits_needed(3) for gate in (Gate(k=6), promised)] == [3, 6]


class TestOfOtherPassages:
    """As many passages as before, but others: the numbers are the same, and nothing was said."""

    @pytest.fixture
    def index(self, fitted, texts):
        return index_of(fitted, texts[:60])

    @pytest.fixture
    def gate(self, index, texts):
        return Gate.from_labels(index, *labelled(texts[:60], 40), max_wrong=0.3)

    def replace_all(self, index, texts):
        index.add(texts[60:120], [f"p{i}" for i in range(60)])

    def ways(self, index, gate):
        view = index.with_gate(gate)
        yield lambda: index.search([VAGUE])
        yield lambda: index.search([VAGUE], diversity=Diversity())
        yield lambda: asyncio.run(index.asearch([VAGUE]))
        yield lambda: view.search([VAGUE])
        yield lambda: replace(gate).search(index, [VAGUE])

    @pytest.mark.parametrize("way", range(5))
    def test_a_search_after_a_change_says_so_once(self, index, gate, texts, way):
        index.gate = gate
        with warnings.catch_warnings(action="error"):
            index.search([VAGUE])
        ways = [*self.ways(index, gate)]
        self.replace_all(index, texts)
        with warnings.catch_warnings(record=True, action="always") as told:
            for one in (ways[way], *self.ways(index, gate)):
                one()
        assert len([one for one in told if "made for other passages" in str(one.message)]) == 1

    def test_as_many_others_in_an_engine_are_noticed_by_those_that_it_was_made_with(
        self, fitted, texts
    ):
        index = index_of(fitted, texts[:60], store=QdrantStore(location=":memory:"))
        gate = Gate.from_labels(index, *labelled(texts[:60], 40), max_wrong=0.3)
        assert gate.fits(index)
        self.replace_all(index, texts)
        assert not gate.fits(index)  # which looks them up again
        with pytest.warns(
            UserWarning, match=r"\d+ of the \d+ compared passages that the gate was made with"
        ):
            gate.search(index, [VAGUE])

    def test_a_saved_index_says_so_when_its_gate_is_loaded(self, index, gate, texts, tmp_path):
        self.replace_all(index, texts)
        index.save(tmp_path / "idx")
        gate.save(tmp_path / "idx" / "gate.json")
        loaded = Retriever.load(tmp_path / "idx", index.uec)
        with pytest.warns(UserWarning, match="made for other passages"):
            loaded.search([VAGUE])

    def test_passages_are_read_once_for_each_state_of_the_index(self, fitted, gate, texts, reads):
        index = index_of(fitted, texts[:60])
        index.gate = gate
        reads.clear()
        for expected in (1, 2):
            for way in self.ways(index, gate):
                way()
            assert len(reads) == expected
            index.add(texts[3:4], ["p3"])  # as it was


@pytest.fixture
def reads(monkeypatch):
    """Counts how often all passages of a store are read."""
    counted, passages = [], View.passages

    def read(view):
        counted.append(view)
        return passages(view)

    monkeypatch.setattr(View, "passages", read)
    return counted


@pytest.mark.slow
def test_a_gate_tells_other_questions_from_those_that_it_was_made_with(full, texts):
    queries, relevant = labelled(texts, 200, seed=5)
    gate = Gate.from_labels(full, queries, relevant, max_risk=0.5)
    restored = Gate.restore(json.loads(json.dumps(gate.metadata())))
    usual = full.search(labelled(texts, 200, seed=6)[0], gate.k).confidence
    other = full.search([f"nothing of {i} here" for i in range(64)], gate.k).confidence
    for each in (gate, restored):
        assert each.drift(usual) is None
        assert "questions are not like those that the gate was" in each.drift(other)


class TestExpected:
    """Without labels, a gate takes the threshold that kept a share on other collections."""

    def test_it_answers_above_that_threshold(self, full, queries):
        found = full.search(queries, 4)
        assert Gate(max_wrong=0.1).decide(found) == found.decide(expected_threshold(0.1))

    def test_its_report_and_metadata_promise_nothing(self):
        gate = Gate(max_wrong=0.1)
        assert "At most 10.0% of all questions are expected to be answered wrongly" in gate.report
        assert "Nothing is guaranteed" in gate.report
        known = gate.metadata()
        assert (known["max_wrong"], known["guarantee"]) == (0.1, None)
        assert Gate.restore(known) == gate

    @pytest.mark.parametrize(
        "other",
        [
            {"threshold": 0.7},
            {"advisor": lambda question, texts: True},
            {"k": 10},
            {"guarantee": Guarantee(0.5, 0.1, None, 100, 50, 2, 9)},
        ],
    )
    def test_it_is_the_only_thing_to_choose(self, other):
        with pytest.raises(ValueError, match="wrong"):
            Gate(max_wrong=0.1, **other)


class TestNumbers:
    """What is no number of its kind is refused at the door, with the argument's name."""

    GUARANTEE = Guarantee(0.5, 0.1, 0.05, 100, 50, 2, 29)

    @pytest.mark.parametrize(("wrong", "error", "said"), refused("Gate"))
    def test_of_a_gate(self, wrong, error, said):
        with pytest.raises(error, match=said):
            Gate(**wrong)
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Gate.restore(Gate(0.5, self.GUARANTEE).metadata() | wrong)

    @pytest.mark.slow
    def test_every_flipped_bit_of_a_saved_gate_is_noticed_or_changes_nothing(self, tmp_path):
        file, gate = tmp_path / "gate.json", Gate(0.5, self.GUARANTEE, stamp=Stamp("basis", "9"))
        gate.save(file)
        whole = file.read_bytes()
        for bit in range(8 * len(whole)):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            file.write_bytes(flipped)
            with contextlib.suppress(ValueError):
                assert Gate.load(file) == gate

    def test_of_a_decision(self, full, queries):
        found = full.search(queries, 4)
        for wrong, error in (("0.5", TypeError), (float("nan"), ValueError), (None, TypeError)):
            with pytest.raises(error, match="threshold: expected a number"):
                found.decide(wrong)
        with pytest.raises(ValueError, match="k: expected an integer >= 1, got 0"):
            found.decide(0.5, 0)


@pytest.mark.slow
@pytest.mark.parametrize("promise", [{"max_risk": 0.2}, {"max_risk": 0.4}, {"max_wrong": 0.05}])
def test_one_search_makes_the_gate_of_every_promise(full, texts, promise):
    queries, relevant = labelled(texts, 100, unanswerable_rate=0.2)
    searched = LabelledSearch.from_queries(full, queries, relevant)
    made = Gate.from_labels(full, queries, relevant, **promise)
    assert Gate.from_search(searched, **promise).metadata() == made.metadata()
    answered = np.array([one.action == "answer" for one in made.decide(searched.result)])
    counted = made.guarantee.answered, made.guarantee.wrong
    assert (answered.sum(), (answered & ~searched.right).sum()) == counted


@pytest.fixture(scope="module")
def searched(full, texts):
    queries, relevant = labelled(texts, 100, seed=4, unanswerable_rate=0.2)
    return LabelledSearch.from_queries(full, queries, relevant)


class TestOfAllQuestions:
    """`wrong`: at most a share of all questions gets a wrong answer, on average."""

    def test_it_is_the_default_and_a_hundred_labels_answer_what_the_risk_leaves(self, searched):
        made = Gate.from_search(searched, max_wrong=0.1)
        assert Gate.from_search(searched).metadata() == made.metadata()
        assert made.guarantee.wrong <= 9
        assert made.guarantee.answered > Gate.from_search(searched, max_risk=0.1).guarantee.answered
        assert "at most 10.0% of all questions answered wrongly" in made.report

    def test_only_one_promise_is_made(self, full):
        with pytest.raises(ValueError, match="max_wrong, max_risk: expected one of them, got both"):
            Gate.from_labels(full, ["a"], [["p1"]], max_wrong=0.1, max_risk=0.1)
        with pytest.raises(ValueError, match="advisor, max_risk: expected one of them, got both"):
            Gate.from_labels(full, ["a"], [["p1"]], max_risk=0.1, advisor=lambda *_: True)
        with pytest.raises(TypeError, match="advisor: expected a callable"):
            Gate.from_labels(full, ["a"], [["p1"]], advisor="judge")


def ambiguous(searched, unsaid):
    """The same search, with a probability of being underspecified for each question."""
    two = (Reading("one", ("p1",), 0.5), Reading("other", ("p2",), 0.5))
    results = []
    for one, p in zip(searched.result, unsaid, strict=True):
        vague = replace(one.decision, underspecified=float(p), in_corpus=1.0, readings=two)
        results.append(replace(one, decision=decide(vague)))
    result = SearchResult(results)
    return replace(searched, result=result)


def test_what_is_asked_back_gets_no_wrong_answer(searched):
    known = ambiguous(searched, np.where(searched.right, 0.0, 0.9))
    assert Gate.from_search(known, max_wrong=0.1).guarantee.wrong == 0
    assert Gate.from_search(known, max_wrong=0.1).guarantee.answered == searched.right.sum()


class Reader:
    """An advisor that knows which texts answer which question, and remembers what it was asked."""

    def __init__(self, advice, rewrites=()):
        self.advice, self.rewrites, self.asked = advice, dict(rewrites), []

    def __call__(self, question, texts):
        self.asked.append((question, [*texts]))
        if question in self.rewrites:
            return Advice("no", rewrite=self.rewrites[question])
        return self.advice(question, texts)


VAGUE = "ba de fi go"  # words of no passage


@pytest.fixture(scope="module")
def found(full, texts):
    queries = labelled(texts, 60, seed=8, unanswerable_rate=0.3)[0]
    return queries, full.search(queries)


class TestAdvisor:
    def doubted(self, gate, found):
        return [query for query, one in zip(*found, strict=True) if gate.is_doubted(one.decision)]

    def test_it_is_asked_once_about_each_question_in_doubt_and_about_no_other(self, full, found):
        reader = Reader(lambda question, texts: True)
        gate = Gate(advisor=reader)
        result = gate.search(full, found[0])
        doubted = self.doubted(gate, found)
        assert 0 < len(doubted) < len(found[0])
        assert sorted(question for question, _ in reader.asked) == sorted(doubted)
        for query, one, before in zip(found[0], result, found[1], strict=True):
            if query in doubted:
                asks_back = before.decision.action == "clarify"
                assert one.decision.action == ("clarify" if asks_back else "answer")
                assert one.decision.advice == "answer"
            else:
                assert one.decision == before.decision
        assert all(len(texts) == 10 for _, texts in reader.asked)

    def test_confidence_below_and_above_doubt_is_decided_without_it(self):
        gate = Gate(advisor=lambda question, texts: None)
        for confidence, unsaid, is_doubted in (
            (0.05, 0.9, False),
            (0.06, 0.0, True),
            (0.85, 0.0, True),
            (0.86, 0.5, False),
            (0.86, 0.51, True),
        ):
            decision = Decision("answer", "", confidence=confidence, underspecified=unsaid)
            assert gate.is_doubted(decision) == is_doubted

    def test_always_it_is_also_asked_before_each_answer_and_its_no_is_final(self, full, found):
        reader = Reader(lambda question, texts: False)
        gate = Gate(advisor=reader, ask="always")
        result = gate.search(full, found[0])
        sure = [one.query for one in found[1] if one.decision.confidence > gate.doubt[1]]
        assert sure
        assert {*sure, *self.doubted(Gate(), found)} == {question for question, _ in reader.asked}
        assert "answer" not in {decision.action for decision in result.decisions}
        assert Gate.restore(gate.metadata()).ask == "always"

    def test_always_has_no_guarantee_and_no_other_word_is_taken(self, gate):
        with pytest.raises(
            ValueError, match="ask: expected 'borderline' for a gate with a guarantee"
        ):
            replace(gate, ask="always")
        with pytest.raises(
            ValueError, match="ask: expected 'borderline', 'always' or 'shadow', got 'never'"
        ):
            Gate(ask="never")

    def test_a_rewrite_is_searched_in_the_same_filter_and_answered_if_it_is_certain(self, full):
        even = {"even": True}
        exact = next(p for p in full.passages() if p.metadata["even"])
        reader = Reader(lambda *_: False, {VAGUE: exact.text})
        gate = Gate(advisor=reader, doubt=(0.0, 1.0))
        [one] = gate.search(full, [VAGUE], filter=even)
        assert one.decision.confidence > gate.rewritten
        assert (one.decision.action, one.decision.searched_as) == ("answer", exact.text)
        assert one.query == VAGUE
        assert one.ids == full.search([exact.text], filter=even)[0].ids
        assert exact.text in one.decision.reason
        told = one.metadata(0)
        assert (told["uec_advice"], told["uec_searched_as"]) == ("answer", exact.text)
        [other] = Gate(
            advisor=Reader(lambda *_: False, {VAGUE: "ba de fi"}), doubt=(0.0, 1.0)
        ).search(full, [VAGUE])
        assert (other.decision.action, other.decision.advice) == ("abstain", "no")
        assert other.ids == full.search([VAGUE])[0].ids

    def test_in_a_chosen_reading_no_rewrite_is_searched(self, full):
        chosen, other = [*full.passages()][:2]
        gate = Gate(advisor=Reader(None, {VAGUE: other.text}), doubt=(0.0, 1.0))
        assert gate.search(full, [VAGUE])[0].decision.searched_as == other.text
        index = full.snapshot()
        index.gate = gate
        for result in (
            index.search([VAGUE], within=[chosen.id]),
            asyncio.run(index.asearch([VAGUE], within=[chosen.id])),
        ):
            assert (result[0].ids, result[0].decision.action) == ([chosen.id], "abstain")
        turns = [VAGUE, "Do you mean Rye or Wheat?"]
        [replied] = index.search(["Rye"], history=[turns])
        assert replied.decision.searched_as == ""

    def test_a_rewrite_that_is_the_question_is_not_searched(self, full):
        gate = Gate(advisor=Reader(None, {VAGUE: VAGUE.upper()}), doubt=(0.0, 1.0))
        [one] = gate.search(full, [VAGUE])
        assert (one.decision.action, one.decision.searched_as) == ("abstain", "")

    def test_options_are_offered_and_else_the_readings(self, full, found):
        two = (Reading("p1", ("p1",), 0.5), Reading("p2", ("p2",), 0.5))
        known = Decision("answer", "", readings=two, confidence=0.5)
        for options, offered in (
            (("p2", "other"), "Do you mean p2 or other?"),
            (("one",), "Do you mean p1 or p2?"),
        ):
            gate = Gate(advisor=lambda *_, options=options: Advice("clarify", options))
            [(decided, _)] = Pending(gate, [Judged(known, None, ["a text"])], ["which?"]).finish()
            assert (decided.action, decided.clarifying_question) == ("clarify", offered)
        assert decided.candidates == ("p1", "p2")
        reply = [[found[0][0], "Do you mean p2 or other?"]]
        assert full.search(["other"], history=reply)[0].ids  # an option without passages

    def test_one_that_fails_leaves_the_threshold_and_says_so(self, full, found):
        def failing(question, texts):
            raise ConnectionError

        gate = Gate(advisor=failing)
        for one, before in zip(gate.search(full, found[0]), found[1], strict=True):
            assert one.decision.action == before.decision.action
            if gate.is_doubted(before.decision):
                assert one.metadata(0)["uec_advice"] == "none: it failed with ConnectionError"

    async def test_the_same_asynchronously(self, full, found):
        async def advisor(question, texts):
            return len(question) % 2 == 0

        gate = Gate(advisor=advisor)
        found_later = await full.with_gate(gate).asearch(found[0])
        assert found_later.decisions == gate.search(full, found[0]).decisions

    def test_one_that_searches_its_own_index_is_not_asked_from_within(self, full, found):
        index, within = full.snapshot(), []

        def advisor(question, texts):
            within.extend(index.search([question]))
            return True

        index.gate = Gate(advisor=advisor)
        doubted = self.doubted(index.gate, found)
        index.search(found[0])
        assert sorted(one.query for one in within) == sorted(doubted)
        assert {one.decision.advice for one in within} == {
            "none: it was asked from within an advisor"
        }

    def test_it_reads_the_turns_before_the_question(self, full, texts):
        reader = Reader(lambda *_: True)
        history = [[texts[0], texts[1]]]
        Gate(advisor=reader, doubt=(0.0, 1.0)).search(full, [VAGUE], history=history)
        assert reader.asked[0][0] == "\n".join([texts[0], texts[1], VAGUE])

    def test_with_labels_the_promise_holds_for_all_that_it_does(self, searched):
        truth = dict(zip(searched.result.queries, searched.right.tolist(), strict=True))
        reader = Reader(lambda question, texts: truth[question])
        made = Gate.from_search(searched, max_wrong=0.02, advisor=reader)
        assert len(reader.asked) == 100
        decided = made.decide(searched.result)
        answered = np.array([one.action == "answer" for one in decided])
        assert answered.sum() == made.guarantee.answered
        assert (answered & ~searched.right).sum() == made.guarantee.wrong <= 1
        assert answered.sum() > Gate.from_search(searched, max_wrong=0.02).guarantee.answered
        assert "An advisor is asked from confidence" in made.report

    def test_a_calibrated_gate_is_saved_without_its_advisor_and_gets_it_back(
        self, searched, tmp_path
    ):
        reader = Reader(lambda *_: True)
        made = Gate.from_search(searched, max_wrong=0.1, advisor=reader)
        made.save(tmp_path / "gate.json")
        again = Gate.load(tmp_path / "gate.json", reader)
        assert again == made
        assert again.advisor is reader
        assert Gate.load(tmp_path / "gate.json").advisor is None
        with pytest.raises(ValueError, match="calibrated without one, so its guarantee would not"):
            replace(Gate.from_search(searched, max_wrong=0.1), advisor=reader)

    @pytest.mark.parametrize("fails", [False, True], ids=["has none", "fails"])
    def test_without_its_advisor_it_is_as_careful_as_a_gate_without_one(
        self, searched, tmp_path, fails
    ):
        """Each wrong answer that the advisor would have refused was given, without a word."""
        truth = dict(zip(searched.result.queries, searched.right.tolist(), strict=True))
        made = Gate.from_search(
            searched, max_wrong=0.05, advisor=Reader(lambda question, texts: truth[question])
        )
        made.save(tmp_path / "gate.json")
        loaded = Gate.load(tmp_path / "gate.json", Reader(lambda *_: None) if fails else None)
        assert loaded.threshold >= searched.threshold(max_wrong=0.05).threshold
        decided = loaded.decide(searched.result)
        answered = np.array([one.action == "answer" for one in decided])
        assert (answered & ~searched.right).sum() <= 4
        assert answered.any()
        assert ("without one, as now, it answers fewer" in loaded.report) == (not fails)


class TestOfAFolder:
    """The gate in an index's folder."""

    @pytest.fixture
    def file(self, small, tmp_path):
        small.save(tmp_path / "idx")
        return tmp_path / "idx" / "gate.json"

    def test_it_is_looked_for_when_the_index_is_opened(self, small, file):
        Gate(0.9).save(file)
        opened = Retriever.load(file.parent, small.uec)
        assert opened.gate == Gate(0.9)
        Gate(0.8).save(file)
        assert opened.gate == Gate(0.8)
        file.unlink()
        assert opened.gate is None
        assert Retriever.load(file.parent, small.uec).gate is None

    def test_a_damaged_one_is_reported_when_it_is_to_decide(self, small, file):
        file.write_text("{")
        opened = Retriever.load(file.parent, small.uec)
        with pytest.raises(ValueError, match="gate"):
            opened.search(["badero"])
        opened.gate = None
        assert len(opened.search(["badero"])) == 1

    def test_one_of_a_newer_version_is_said_to_be_perhaps_that(self, file):
        Gate(0.9).save(file)
        state = json.loads(file.read_text()) | {"new_field": 1}
        for kept in (state, {name: state[name] for name in state if name != "sha256"}):
            file.write_text(json.dumps(kept))
            with pytest.raises(ValueError, match="newer uec-rag"):
                Gate.load(file)
