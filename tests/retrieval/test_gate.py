"""The gate answers where the risk of a wrong answer is under control, and only there."""

import contextlib
import json
import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import WORDS, Counting, index_of, labelled, rightness
from uec_rag import UEC, IndexCorrupted, Retriever
from uec_rag.confidence.decision import Decision
from uec_rag.confidence.readings import ASK, Reading
from uec_rag.confidence.risk import RiskThreshold
from uec_rag.retrieval.gate import Gate, LabelledSearch, shared_answers
from uec_rag.retrieval.result import surest_decision

RISK = 0.25


@pytest.fixture(scope="module")
def of_800(full, texts):
    return LabelledSearch.of(full, *labelled(texts, 800, unanswerable=0.2))


@pytest.fixture(scope="module")
def gate(of_800):
    return of_800.gate(risk=RISK)


@pytest.mark.parametrize("make", [Gate.calibrate, LabelledSearch.of, Gate.budget])
def test_what_does_not_search_is_refused(full, make):
    labels = [] if make == Gate.budget else [[["p0"]]]
    with pytest.raises(TypeError, match=r"retriever: expected a uec_rag\.Retriever, got Memory"):
        make(full.store, ["badero"], *labels)


def test_it_answers_only_above_its_threshold(gate, full, texts):
    result = full.search(labelled(texts, 300, seed=1)[0], gate.k)
    above = result.confidence > gate.threshold.threshold
    assert 0.05 < above.mean() < 0.95
    assert [d.action == "answer" for d in gate.decide(result)] == above.tolist()
    assert gate.decide(result) == result.decide(gate.threshold.threshold)


def test_on_other_queries_it_is_rarely_wrong_though_answering_all_would_be(gate, full, texts):
    queries, relevant = labelled(texts, 3000, seed=2, unanswerable=0.2)
    result = full.search(queries, gate.k)
    right = rightness(result, relevant).any(axis=1)
    answered = np.array([d.action == "answer" for d in gate.decide(result)])
    assert (~right).mean() > RISK + 0.1
    assert answered.mean() > 0.1
    assert (~right[answered]).mean() <= RISK


def test_more_hits_give_more_right_answers(full, texts):
    asked = labelled(texts, 800, unanswerable=0.2)
    few, many = (Gate.calibrate(full, *asked, risk=RISK, k=k) for k in (1, 20))
    assert few.threshold.answered < many.threshold.answered
    assert (few.k, many.k) == (1, 20)


def test_the_report_says_what_was_promised_and_what_was_seen(gate):
    assert "at most 25.0% wrong answers with 95% certainty" in gate.report
    counted = (
        f"Of 800 calibration queries that get no clarifying question, {gate.threshold.answered} are"
    )
    assert counted in gate.report


def test_it_decides_anew_on_a_query_that_was_decided_at_another_threshold(gate):
    above, below = gate.threshold.threshold + 0.01, gate.threshold.threshold - 0.01
    for sure, before, action in (
        (above, "abstain", "answer"),
        (below, "answer", "abstain"),
        (gate.threshold.threshold, "answer", "abstain"),
    ):
        assert gate.redecide(Decision(before, "", confidence=sure)).action == action


def test_what_a_question_may_mean_stays_whatever_the_gates_threshold(gate):
    two = (Reading("the printer", ("a",), 0.5), Reading("the scanner", ("b",), 0.4))
    for sure in (0.01, 0.99):
        for unsaid, action in ((ASK, "clarify"), (0.1, "answer" if sure > 0.5 else "abstain")):
            decision = Decision("abstain", "", two, sure, underspecified=unsaid)
            again = gate.redecide(decision)
            assert (again.action, again.readings) == (action, two)
            assert again.underspecified == unsaid


def test_a_decision_of_another_search_than_it_was_made_for_is_warned_of(gate, full, texts):
    asked = labelled(texts, 3, seed=5)[0]

    def decided(k, **options):
        result = full.search(asked, k, **options)
        return surest_decision([result[0].metadata(0, details=True)])

    with warnings.catch_warnings(action="error"):
        gate.redecide(decided(gate.k))
        gate.redecide(Decision("answer", "without a word on what it rests on"))
        gate.redecide(decided(9))  # whose confidence is of as many as the gate's
    with pytest.warns(UserWarning, match="another calibration, share of unanswerable questions"):
        gate.redecide(decided(gate.k, unanswerable=0.5))
    with pytest.warns(UserWarning, match="about the first 9 hits, and the gate was made for 4"):
        gate.redecide(replace(decided(9), hits=9))


def test_what_confidence_rests_on_is_told_by_calibration_share_and_filter(full, texts):
    basis = full.basis()
    others = [
        full.basis({"even": True}),
        full.basis({"even": False}),
        full.basis(lambda passage: True),
        full.basis(unanswerable=0.3),
    ]
    view = full.snapshot()
    assert view.basis() == basis
    view.calibrate(*labelled(texts, 60))
    assert len({basis, *others, view.basis()}) == 6


def test_a_filter_written_in_another_order_is_the_same_filter(full):
    one = {"lang": "en", "$or": [{"year": {"$gte": 2020, "$lt": 2024}}, {"even": True}]}
    other = {"$or": ({"year": {"$lt": 2024, "$gte": 2020}}, {"even": True}), "lang": "en"}
    assert full.basis(one) == full.basis(other) != full.basis({"lang": "en"})
    assert full.basis({"$where": lambda p: True}) == full.basis({"$where": lambda p: False})
    names = [f"name {i}" for i in range(50)]
    assert full.basis({"of": {"$in": {*names}}}) == full.basis({"of": {"$in": {*names[::-1]}}})


def test_it_is_calibrated_on_what_a_filter_leaves(full, texts):
    asked = labelled(texts, 400)
    odd = Gate.calibrate(full, *asked, risk=0.65, filter={"even": False})
    found = full.search(asked[0], odd.k, filter={"even": False})
    right = rightness(found, asked[1]).any(axis=1)
    above = found.confidence.astype(float) > odd.threshold.threshold
    assert odd.threshold.wrong == int((~right[above]).sum())
    assert odd.threshold.answered == int(above.sum())


def test_it_comes_back_from_its_metadata_in_json(gate, full, texts):
    assert Gate.restore(json.loads(json.dumps(gate.metadata()))) == gate
    never = Gate.calibrate(full, *labelled(texts, 30), risk=0.05)
    restored = Gate.restore(json.loads(json.dumps(never.metadata())))
    assert restored == never
    assert math.isinf(restored.threshold.threshold)
    with pytest.raises(ValueError, match="Gate: expected the fields of a saved"):
        Gate.restore({"k": 4})


def test_it_is_saved_to_a_file_and_loaded(gate, full, tmp_path):
    gate.save(tmp_path / "gate.json")
    loaded = Gate.load(tmp_path / "gate.json")
    assert loaded == gate
    assert loaded.fits(full)
    assert [file.name for file in tmp_path.iterdir()] == ["gate.json"]
    with pytest.raises(FileNotFoundError, match="there is no gate in"):
        Gate.load(tmp_path / "other.json")
    (tmp_path / "bad.json").write_text("[]")
    with pytest.raises(IndexCorrupted, match="expected an object"):
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
        ({"risk": math.nan}, ValueError, "risk: expected a number in (0, 1), got nan."),
        ({"risk": True}, TypeError, "risk: expected a number in (0, 1)"),
        ({"certainty": 95}, ValueError, "certainty: expected a number in (0, 1), got 95."),
        ({"certainty": None}, TypeError, "certainty: expected a number in (0, 1)"),
        ({"k": 0}, ValueError, "k: expected an integer >= 1, got 0"),
        ({"relevant_ids": [["p1"], [7]]}, ValueError, "1 of 2 ids are not in the index, first 7"),
        ({"relevant_ids": [["p1"], None]}, TypeError, "relevant_ids[1]: expected a collection of"),
    ],
)
def test_bad_input_is_refused_before_anything_is_encoded(counted, arguments, error, message):
    retriever, encoder = counted
    before = encoder.count
    with pytest.raises(error, match=re.escape(message)):
        Gate.calibrate(
            retriever, **({"queries": ASKED, "relevant_ids": [["p1"], ["p2", "p3"]]} | arguments)
        )
    assert encoder.count == before


def test_a_gate_says_when_confidence_rests_on_something_else_than_when_it_was_made(full, texts):
    view = full.snapshot()
    queries, relevant = labelled(texts, 120, seed=5)
    gate = Gate.calibrate(view, queries, relevant, risk=0.5, k=4)
    with warnings.catch_warnings(action="error"):
        gate.decide(view.search(queries[:3], 4))
        assert gate.fits(view)
    with pytest.warns(UserWarning, match="another calibration, share of unanswerable"):
        gate.decide(view.search(queries[:3], 4, unanswerable=0.5))
    view.calibrate(*labelled(texts, 60, seed=6))
    assert not gate.fits(view)
    with pytest.warns(UserWarning, match="Make the gate again"):
        gate.decide(view.search(queries[:3], 4))


def test_a_gate_of_fewer_passages_is_warned_of_by_whatever_way_it_decides(fitted, texts):
    index = index_of(fitted, texts)
    queries, relevant = labelled(texts, 100, seed=5)
    gate = Gate.calibrate(index, queries, relevant, risk=0.5, groups=shared_answers(relevant))
    with warnings.catch_warnings(action="error"):
        gate.decide(index.search(queries[:3], 4))
    index.add(["one more"])
    result = index.search(queries[:3], 4)
    for decide in (
        lambda gate: gate.decide(result),
        lambda gate: gate.redecide(result[0].decision),
        lambda gate: gate.redecide(surest_decision([result[0].metadata(0, details=True)])),
    ):
        fresh = replace(gate)
        with pytest.warns(UserWarning, match="other passages than this search"):
            decide(fresh)
        with warnings.catch_warnings(action="error"):  # it is said once
            decide(fresh)


def test_queries_that_share_an_answer_are_warned_of_and_one_of_each_group_is_taken(full, texts):
    queries, relevant = labelled(texts, 300, seed=5)
    again = [f"{query} again" for query in queries]
    with pytest.warns(UserWarning, match=r"\d+ of 600 queries share an answer"):
        Gate.calibrate(full, queries + again, relevant * 2, risk=0.5)
    groups = shared_answers(relevant * 2)
    with warnings.catch_warnings(action="error"):
        gate = Gate.calibrate(full, queries + again, relevant * 2, risk=0.5, groups=groups)
    assert gate.threshold.queries == len(set(groups)) < 300
    for bad in (groups[1:], "groups"):
        with pytest.raises(ValueError, match="groups: expected one per query, 600, got"):
            Gate.calibrate(full, queries + again, relevant * 2, groups=bad)


def test_a_gate_warns_where_other_questions_come_than_it_was_made_with(full, texts):
    queries, relevant = labelled(texts, 200, seed=5)
    gate = Gate.calibrate(full, queries, relevant, risk=0.5, groups=shared_answers(relevant))
    restored = Gate.restore(json.loads(json.dumps(gate.metadata())))
    usual = full.search(labelled(texts, 200, seed=6)[0], gate.k)
    other = full.search([f"nothing of {i} here" for i in range(64)], gate.k)
    for each in (gate, restored):
        with warnings.catch_warnings(action="error"):
            each.decide(usual)
        with pytest.warns(UserWarning, match="questions are not like those that the gate was"):
            [each.decide(other) for _ in range(5)]


def test_a_gate_decides_on_the_hits_it_was_made_for_however_many_are_found(full, texts):
    queries, relevant = labelled(texts, 120, seed=5, unanswerable=0.3)
    gate = Gate.calibrate(full, queries, relevant, risk=0.5, k=2)
    few = [d.action == "answer" for d in gate.decide(full.search(queries, 2))]
    many = [d.action == "answer" for d in gate.decide(full.search(queries, 9))]
    assert few == many


def test_a_budget_leaves_the_share_it_is_told_to_and_promises_nothing(full, texts):
    queries, _ = labelled(texts, 200, seed=5, unanswerable=0.3)
    gate = Gate.budget(full, queries, abstain=0.2)
    answered = [d.action == "answer" for d in gate.decide(full.search(queries, 4))]
    assert 0.7 < np.mean(answered) <= 0.8
    assert "Nothing is guaranteed" in gate.report
    assert Gate.restore(json.loads(json.dumps(gate.metadata()))) == gate
    everything = Gate.budget(full, queries, abstain=0.0)
    assert all(d.action == "answer" for d in everything.decide(full.search(queries, 4)))
    with pytest.raises(ValueError, match="abstain: expected a share"):
        Gate.budget(full, queries, abstain=1.0)


class TestNumbers:
    """What is no number of its kind is refused at the door, with the argument's name."""

    THRESHOLD = RiskThreshold(0.5, 0.1, 0.05, 100, 50, 2, 29)

    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            ({"k": 0}, ValueError),
            ({"k": 2.5}, TypeError),
            ({"k": True}, TypeError),
            ({"abstain": 5}, ValueError),
            ({"abstain": 1.0}, ValueError),
            ({"abstain": float("nan")}, ValueError),
            ({"abstain": "0.1"}, TypeError),
            ({"threshold": 0.5}, TypeError),
            ({"threshold": replace(THRESHOLD, threshold=8.4)}, ValueError),
            ({"threshold": replace(THRESHOLD, threshold=-0.1)}, ValueError),
            ({"confidences": (0.5, 1.5)}, ValueError),
            ({"size": -1}, ValueError),
        ],
    )
    def test_of_a_gate(self, wrong, error):
        [name] = wrong
        with pytest.raises(error, match=f"{name}: expected"):
            Gate(**{"threshold": self.THRESHOLD, "k": 4} | wrong)
        if name != "threshold":
            with pytest.raises(ValueError, match=name):
                Gate.restore(Gate(self.THRESHOLD, 4).metadata() | wrong)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"queries": -5},
            {"queries": 40},
            {"answered": 1},
            {"wrong": -1},
            {"needed": -1},
            {"risk": 1.5},
            {"delta": -0.1},
            {"risk": float("nan")},
            {"threshold": float("nan")},
        ],
    )
    def test_of_a_threshold(self, wrong):
        [name] = wrong
        with pytest.raises(ValueError, match=f"{name}.*: expected"):
            replace(self.THRESHOLD, **wrong)
        with pytest.raises(ValueError, match=f"{name}.*: expected"):
            RiskThreshold.restore(self.THRESHOLD.metadata() | wrong)

    def test_every_flipped_bit_of_a_saved_gate_is_noticed_or_changes_nothing(self, tmp_path):
        file, gate = tmp_path / "gate.json", Gate(self.THRESHOLD, 4, "basis", "corpus", size=9)
        gate.save(file)
        whole = file.read_bytes()
        for bit in range(8 * len(whole)):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            file.write_bytes(flipped)
            with contextlib.suppress(ValueError):
                assert Gate.load(file) == gate

    def test_a_gate_of_an_earlier_version_has_no_checksum_and_loads(self, tmp_path):
        gate = Gate(self.THRESHOLD, 4)
        (tmp_path / "gate.json").write_text(json.dumps(gate.metadata()))
        assert Gate.load(tmp_path / "gate.json") == gate

    def test_of_a_decision(self, full, queries):
        found = full.search(queries, 4)
        for wrong, error in (("0.5", TypeError), (float("nan"), ValueError), (None, TypeError)):
            with pytest.raises(error, match="threshold: expected a number"):
                found.decide(wrong)
        with pytest.raises(ValueError, match="k: expected an integer >= 1, got 0"):
            found.decide(0.5, 0)


def test_one_search_makes_the_gates_of_all_risks_and_reports_how_far_it_is(full, texts):
    queries, relevant = labelled(texts, 100, unanswerable=0.2)
    told, groups = [], shared_answers(relevant)
    options = {"groups": groups, "progress": lambda *state: told.append(state)}
    searched = LabelledSearch.of(full, queries, relevant, **options)
    assert told == [(32, 100), (64, 100), (96, 100), (100, 100)]
    for risk in (0.2, 0.4):
        expected = Gate.calibrate(full, queries, relevant, risk=risk, groups=groups)
        assert searched.gate(risk).metadata() == expected.metadata()


def test_questions_made_from_the_passages_have_an_answer_but_for_a_fifth():
    passages = [
        f"This is passage {i}, on {word}. Of {word} it says all that there is in a few words."
        for i, word in enumerate(WORDS[:40])
    ]
    retriever = Retriever(UEC(["bm25"], coefficients="uniform"))
    with pytest.warns(UserWarning, match="not fitted"):
        ids = retriever.add(passages)
    made = LabelledSearch.made(retriever, k=3)
    assert [not ids for ids in made.relevant] == [place % 5 == 0 for place in range(40)]
    assert set().union(*made.relevant) < {*ids}
    found = {passage.text for row in made.result.passages for passage in row}
    assert not any("This is passage" in text for text in found)  # that is the question
    assert made.right.any()
    assert not made.right[::5].any()
    assert made.gate(0.3).fits(retriever)
    assert len(retriever) == 40


@pytest.fixture(scope="module")
def searched(full, texts):
    queries, relevant = labelled(texts, 100, seed=4, unanswerable=0.2)
    return LabelledSearch.of(full, queries, relevant, groups=range(100))


@pytest.fixture(scope="module")
def knowing(searched):
    """A judge that knows the labels, and of which questions it was asked."""
    truth = dict(zip(searched.result.queries, searched.right.tolist(), strict=True))
    asked = []

    def judge(question, texts):
        asked.append((question, texts))
        return truth[question]

    return judge, asked


class TestOfAllQuestions:
    """`wrong`: at most a share of all questions gets a wrong answer, on average."""

    def test_it_is_the_default_and_a_hundred_labels_answer_what_the_risk_leaves(self, searched):
        made = searched.gate(wrong=0.1)
        assert searched.gate().metadata() == made.metadata()
        assert made.threshold.wrong <= 9
        assert made.threshold.answered > searched.gate(risk=0.1).threshold.answered
        assert "at most 10.0% of all questions answered wrongly" in made.report

    def test_it_is_what_gate_calibrate_makes(self, searched, full):
        labels = searched.result.queries, searched.relevant
        made = Gate.calibrate(full, *labels, wrong=0.05, groups=range(100))
        assert made.metadata() == searched.gate(wrong=0.05).metadata()
        decided = made.decide(searched.result)
        answered = np.array([one.action == "answer" for one in decided])
        assert (answered.sum(), (answered & ~searched.right).sum()) == (
            made.threshold.answered,
            made.threshold.wrong,
        )

    def test_only_one_promise_is_made(self, full):
        with pytest.raises(ValueError, match="wrong, risk: expected one of them, got both"):
            Gate.calibrate(full, ["a"], [["p1"]], wrong=0.1, risk=0.1)
        with pytest.raises(ValueError, match="second, risk: expected one of them, got both"):
            Gate.calibrate(full, ["a"], [["p1"]], risk=0.1, second=lambda *_: True)
        with pytest.raises(TypeError, match="second: expected a callable"):
            Gate.calibrate(full, ["a"], [["p1"]], second="judge")

    def test_an_old_file_asks_back_as_ever_and_knows_no_judge(self, searched):
        state = searched.gate(wrong=0.1).metadata()
        for name in ("ask", "needless", "second"):
            del state[name]
        old = Gate.restore(state)
        assert (old.ask, old.needless, old.second) == (ASK, None, None)


def ambiguous(searched, unsaid):
    """The same search, with a probability of being underspecified for each question."""
    two = (Reading("one", ("p1",), 0.5), Reading("other", ("p2",), 0.5))
    decisions = [
        replace(one, underspecified=float(p), in_corpus=1.0, readings=two)
        for one, p in zip(searched.result.decisions, unsaid, strict=True)
    ]
    return replace(searched, result=searched.result.deciding(decisions))


class TestAskingBack:
    def test_at_most_a_share_of_the_answerable_is_asked_back(self, searched):
        unsaid = np.random.default_rng(0).permutation(np.linspace(0, 1, 100))
        known = ambiguous(searched, unsaid)
        answerable = np.array([bool(ids) for ids in known.relevant])
        made = known.gate(wrong=0.2, needless=0.1)
        asked = np.array([one.action == "clarify" for one in made.decide(known.result)])
        most = np.floor(0.1 * (answerable.sum() + 1) - 1)
        assert asked[answerable].sum() == most > 0
        assert (asked == (unsaid >= made.ask)).all()
        again = Gate.restore(json.loads(json.dumps(made.metadata())))
        assert again == made
        assert made.redecide(known.result.decisions[int(unsaid.argmax())]).action == "clarify"
        assert "at most 10.0% of the answerable" in made.report

    def test_too_few_answerable_labels_never_ask_back(self, searched):
        made = ambiguous(searched, np.ones(100)).gate(wrong=0.2, needless=0.005)
        assert "clarify" not in {one.action for one in made.decide(searched.result)}
        assert "No clarifying question is asked" in made.report

    def test_what_is_asked_back_gets_no_wrong_answer(self, searched):
        known = ambiguous(searched, np.where(searched.right, 0.0, 0.9))
        assert known.gate(wrong=0.1).threshold.wrong == 0
        assert known.gate(wrong=0.1).threshold.answered == searched.right.sum()


class TestSecondOpinion:
    def test_it_is_asked_between_two_thresholds_alone(self, searched, knowing):
        judge, asked = knowing
        asked.clear()
        made = searched.gate(wrong=0.05, second=judge)
        assert len(asked) == 100
        asked.clear()
        decided = made.decide(searched.result, judge)
        between = [made.second.is_asked(one.confidence) for one in decided]
        assert {q for q, _ in asked} == {
            q for q, is_asked in zip(searched.result.queries, between, strict=True) if is_asked
        }
        assert all(len(texts) == made.k for _, texts in asked)
        answered = np.array([one.action == "answer" for one in decided])
        assert answered.sum() == made.second.answered > made.threshold.answered
        assert (answered & ~searched.right).sum() == made.second.wrong
        assert "a second opinion says so" in decided[int(np.argmax(answered & between))].reason
        assert "the judge is asked about" in made.report
        assert Gate.restore(json.loads(json.dumps(made.metadata()))) == made

    def test_one_that_fails_leaves_the_threshold_that_keeps_the_promise_alone(
        self, searched, knowing
    ):
        made = searched.gate(wrong=0.05, second=knowing[0])

        def failing(question, texts):
            raise TimeoutError

        alone, left = made.decide(searched.result), made.decide(searched.result, failing)
        for one, other in zip(alone, left, strict=True):
            if made.second.is_asked(one.confidence):
                assert one == other

    def test_each_question_is_decided_as_in_a_batch(self, searched, knowing):
        judge, _ = knowing
        made = searched.gate(wrong=0.05, second=judge)
        for one, decided in zip(searched.result, made.decide(searched.result, judge), strict=True):
            texts = [hit.text for hit in one.passages]
            again = made.redecide(one.decision, one.query, texts, judge)
            assert (again.action, again.reason) == (decided.action, decided.reason)

    def test_a_gate_without_one_takes_none(self, searched, knowing):
        with pytest.raises(ValueError, match="calibrated without a second opinion"):
            searched.gate(wrong=0.1).decide(searched.result, knowing[0])
