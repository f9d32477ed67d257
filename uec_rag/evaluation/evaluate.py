"""Evaluate an index with labelled questions, beside each encoder alone; or a pipeline by its log.

A run is a question, what was decided, with what confidence, and whether that was right. Logs are
tables (CSV) or lines of JSON, of this package, of ragas, DeepEval, Langfuse, LangSmith or of your
own; fields in others ("inputs.question") count, too. NaN, null and an empty cell are the same.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.errors import require
from uec_rag.confidence.model import JUDGED
from uec_rag.confidence.risk import interval_of, reliability, risk_curve
from uec_rag.documents.plain_text import decode
from uec_rag.documents.question_tables import NULL
from uec_rag.documents.readers import has_text, rows_of
from uec_rag.evaluation.other_words import compare_without
from uec_rag.evaluation.outcomes import outcome_of
from uec_rag.index.retriever import Retriever
from uec_rag.retrieval.results import SearchResult

Floats: TypeAlias = NDArray[np.float64]

_DEPTH = 100  # hits that are searched for an answer
_DRAWS = 2_000


def evaluate(
    retriever: Retriever, labels: Mapping[str, Collection[str]], *, k: int = 10
) -> dict[str, Any]:
    """Evaluate an index.

    Confidence is in the first `JUDGED` hits, as in a search, whatever k is.

    Parameters
    ----------
    retriever : Retriever
        The retriever, which is not changed, nor is its store.
    labels : mapping of str to collection of str
        Maps each question to the ids of the passages that answer it, which may be none.
    k : int
        Number of hits that the ranking is measured on.

    Returns
    -------
    dict
        "facts": questions, answerable, asked_back, passages, members and k. "other_words": what
        questions beside passages bring, as `compare_without` returns it, or None. "systems": the
        metrics of the ensemble and of each member alone: means over the answerable questions with
        a 95 % interval, as [mean, low, high]. "confidence", of the
        questions that are not asked back: level (mean confidence minus the share of right answers)
        as [mean, low, high], brier, and the bins of `reliability`.

    Raises
    ------
    ValueError
        If there are no questions, or none is answerable.
    ImportError
        If ir-measures is not installed.
    """
    require("serve", "ir-measures")
    view = retriever.with_gate(None)
    queries, answers = list(labels), [set(ids) for ids in labels.values()]
    if not any(answers):
        raise ValueError(
            f"questions: expected some with an answer in the index, got {len(queries)} questions, "
            "0 with relevant_ids."
        )
    view.uec, depth = view.uec.with_cache(), max(k, _DEPTH)
    results = view.search(queries, depth)
    relevant = [result.merge_copies(ids) for result, ids in zip(results, answers, strict=True)]
    members = search_by_each_member(view, queries, depth)
    rankings = {"ensemble": results.ids} | {name: member.ids for name, member in members.items()}
    asks = np.array([decision.action == "clarify" for decision in results.decisions])
    mask = ~asks | asks.all()
    sure = results.confidence.astype(np.float64)[mask]
    pairs = zip(results, answers, strict=True)
    right = np.array([any(result.finds(ids)[:JUDGED]) for result, ids in pairs])[mask]
    return {
        "facts": {
            "questions": len(queries),
            "answerable": sum(map(bool, relevant)),
            "asked_back": int(asks.sum()),
            "passages": len(view.store),
            "members": list(view.uec.names),
            "k": k,
        },
        "other_words": compare_without(retriever, labels, results),
        "systems": {name: _metrics(ranking, relevant, k) for name, ranking in rankings.items()},
        "confidence": {
            "level": _interval(sure - right),
            "brier": float(np.mean((sure - right) ** 2)),
            "reliability": reliability(sure, right),
        },
    }


def _metrics(
    ranking: Sequence[Sequence[str]], relevant: Sequence[set[str]], k: int
) -> dict[str, list[float]]:
    """Compute recall, nDCG and reciprocal rank of the answerable questions with ir-measures."""
    import ir_measures

    measures = [ir_measures.R @ k, ir_measures.nDCG @ k, ir_measures.RR @ k]
    qrels = {str(row): dict.fromkeys(ids, 1) for row, ids in enumerate(relevant) if ids}
    run = {
        str(row): {id_: -float(rank) for rank, id_ in enumerate(hits)}
        for row, hits in enumerate(ranking)
    }
    values = {str(measure): dict.fromkeys(qrels, 0.0) for measure in measures}
    for result in ir_measures.iter_calc(measures, qrels, run):
        values[str(result.measure)][result.query_id] = result.value
    return {name: _interval(np.array([*scores.values()])) for name, scores in values.items()}


def _interval(values: Floats) -> list[float]:
    """Estimate a mean and its 95 % interval by a bootstrap over the questions."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(values), size=(_DRAWS, len(values)))
    means = values[drawn].mean(axis=1)
    return [float(values.mean()), *np.quantile(means, [0.025, 0.975]).tolist()]


def search_by_each_member(
    retriever: Retriever, queries: Sequence[str], k: int
) -> dict[str, SearchResult]:
    """Search by each encoder's similarity alone.

    Returns
    -------
    dict of str to SearchResult
        Searches by the encoder's name; empty if there is a single block of vectors.
    """
    names, members = retriever.uec.names, dict[str, SearchResult]()
    for name in names if len(retriever.uec.fitted.block_names) > 1 else ():
        view = retriever.with_weights({encoder: float(encoder == name) for encoder in names})
        view.uec.fitted = replace(
            view.uec.fitted, options=replace(view.uec.fitted.options, beta=0.0)
        )
        members[name] = view.search(queries, k)  # by this encoder's similarity, which is then `mu`
    return members


_NAMES = {
    "question": "question query user_input input messages",
    "decision": "decision action uec_decision",
    "answer": ("answer response output actual_output actualoutput output.content outputs.content"),
    "confidence": "confidence uec_confidence score",
    "verdict": (
        "verdict correct is_correct correctness answer_correctness factual_correctness success "
        "label"
    ),
    "answerable": "answerable has_answer",
    "lacking": "lacking uec_search.lacking search.lacking",
    "closest": "closest uec_search.closest search.closest suggestions uec_suggestions",
    "code": "reason_code uec_reason_code",
}
# What exports have fields in, and what they have in fields, such as "feedback.correctness.score".
_AROUND = {"inputs", "input", "outputs", "output", "reference_outputs", "feedback", "scores"}
_AROUND |= {"feedback_stats", "run", "example", "metricsdata", "metrics_data", "evaluations"}
_AROUND |= {"evaluation_results", "results", "metrics"}
_NAMES_OF_SCORES, _SCORES = {"name", "key", "metric"}, ("score", "value", "stringValue")
# Where a run that failed says so; it has no output.
_ERRORS = ("error", "errors", "exception")
_WITHIN = {"score", "value", "avg", "mean"}
_ADVISED = {"question", "before", "after", "confidence_before"}  # of the line of an advisor
_LISTS = ("data", "results", "runs", "rows", "examples", "traces", "testCases", "test_results")
_MODE = re.compile(r"(?<!\s)\s*+[(\[][^()\[\]]*+[)\]]$")  # "(mode=f1)", "[GEval]"
_TRUE = {"true", "yes", "y", "correct", "right", "pass", "passed", "good"}
_FALSE = {"false", "no", "n", "incorrect", "wrong", "fail", "failed", "bad"}
_REFUSALS = "abstain abstained refuse refused uncertain no_answer none unanswered false no"
_DECISIONS = {
    "answer": {"answer", "answered", "respond", "responded", "reply", "true", "yes"},
    "clarify": {"clarify", "ask", "asked", "clarification"},
    "abstain": {*_REFUSALS.split()},
}
_RIGHT = 0.5  # a verdict in numbers above which an answer counts as right


@dataclass(frozen=True)
class Run:
    """One question to a pipeline.

    Attributes
    ----------
    question : str
    decision : {"answer", "clarify", "abstain", "failed"}
        "failed" if it ended with an error, and has no output.
    confidence : float or None
        None if the log has none.
    right : bool or None
        Whether the answer was right, or it was right to give none; None without a verdict.
    answerable : bool or None
        Whether the documents answer the question. Where the log does not tell, a refusal that was
        wrong was of an answerable question.
    gaps : tuple of str
        Words of the question that no passage has, if the log has them.
    closest : tuple of str
        Titles of the closest sections, the first one nearest, if the log has them.
    asks : bool
        Whether the message asks anything.
    """

    question: str
    decision: str
    confidence: float | None
    right: bool | None
    answerable: bool | None
    gaps: tuple[str, ...] = ()
    closest: tuple[str, ...] = ()
    asks: bool = True


def read_runs(path: Path, *, confidence: str = "", verdict: str = "") -> list[Run]:
    """Read a log of decisions.

    Parameters
    ----------
    path : Path
        A table (CSV or TSV) with a header, lines of JSON, or a JSON array, maybe in an object.
    confidence, verdict : str
        The names of these fields, if they are none of those that are known.

    Raises
    ------
    ValueError
        If there is no row, or a row has no question, neither decision nor answer, an unknown
        decision, no number where one is expected, or a verdict outside 0 to 1. The message names
        the row and the fields that it has.
    """
    names = {key: aliases.split() for key, aliases in _NAMES.items()}
    names |= {
        key: [name, name.casefold()]
        for key, name in (("confidence", confidence), ("verdict", verdict))
        if name
    }
    rows = ((at, row) for at, row in enumerate(_rows(path), 1) if not row.keys() >= _ADVISED)
    runs = [_run(row, names, f"{path.name}, row {at}") for at, row in rows]
    if not runs:
        raise ValueError(f"{path.name}: expected at least one row.")
    for key, name in (("confidence", confidence), ("verdict", verdict)):
        values = [run.confidence if key == "confidence" else run.right for run in runs]
        if name and all(value is None for value in values):
            raise ValueError(f"{key}: no row of {path.name} has a field {name!r}.")
    return runs


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    text, _ = decode(path.read_bytes())
    if path.suffix.lower() in (".csv", ".tsv"):
        rows = filter(has_text, rows_of(text))
        header = next(rows, [])
        for cells in rows:
            row = zip_longest(header, cells[: len(header)])
            yield dict(_flat({str(name): _parsed(cell) for name, cell in row}))
        return
    try:
        try:
            whole = json.loads(text)
        except json.JSONDecodeError:
            whole = [json.loads(line) for line in text.splitlines() if line.strip()]
    except json.JSONDecodeError as error:
        raise ValueError(f"{path.name}: expected lines of JSON, or a .csv: {error}.") from None
    if isinstance(whole, Mapping):
        lists = [whole[key] for key in _LISTS if isinstance(whole.get(key), list)]
        whole = lists[0] if lists else [whole]
    yield from (dict(_flat(line)) for line in whole)


def _flat(value: object, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of an object; "inputs.question" for a nested one, and metrics by name."""
    if isinstance(value, list):  # scores, as DeepEval, Langfuse and LangSmith have them
        scores = dict[str, list[object]]()
        for item in value:
            names = _NAMES_OF_SCORES & {*item} if isinstance(item, Mapping) else ()
            if names and ("success" in item or not {*_SCORES}.isdisjoint(item)):
                score = next((item[key] for key in _SCORES if item.get(key) is not None), None)
                scores.setdefault(str(item[min(names)]), []).append(score)
        value = {name: of[0] if len(of) == 1 else of for name, of in scores.items()} or value
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, inner in value.items():
        yield from _flat(inner, f"{name}.{key}" if name else str(key))


def _parsed(cell: object) -> object:
    """Return the object or list that a cell of a table holds as JSON, or the cell."""
    if isinstance(cell, str) and cell.startswith(("{", "[")):
        with suppress(json.JSONDecodeError, RecursionError):
            return json.loads(cell)
    return cell


def _plain(name: str) -> str:
    """Return the name of a field without what exports have it in and its mode, in lower case."""
    parts = name.strip().casefold().split(".")
    while len(parts) > 1 and parts[0] in _AROUND:
        parts = parts[1:]
    while len(parts) > 1 and parts[-1] in _WITHIN:
        parts = parts[:-1]
    return _MODE.sub("", ".".join(parts))


def _is_known(value: object, key: str) -> bool:
    text = str(value).strip().casefold()
    return value is not None and text not in NULL and (text != "none" or key == "decision")


def _run(row: Mapping[str, Any], names: Mapping[str, Sequence[str]], place: str) -> Run:
    plain = {_plain(name): value for name, value in reversed([*row.items()]) if name}
    fields = {**plain, **row}
    cells = {
        key: next((fields[name] for name in aliases if _is_known(fields.get(name), key)), None)
        for key, aliases in names.items()
    }
    is_empty = cells["decision"] is cells["answer"] is None is not cells["question"]
    has_error = fields.get("status") == "error" or any(fields.get(key) for key in _ERRORS)
    if is_empty and (has_error or row.get("outputs", "") is None):
        return Run(_question(cells["question"]), "failed", None, None, None)
    if cells["question"] is None or not any(
        name in fields for key in ("decision", "answer") for name in names[key]
    ):
        raise ValueError(
            f"{place}: expected a question, and a decision or an answer (such as "
            f"{names['question'][0]!r} and {names['decision'][0]!r}), got the fields "
            f"{', '.join(map(repr, row)) or 'none'}."
        )
    decision = _decision(cells["decision"], cells["answer"], place)
    sure = cells["confidence"]
    try:
        confidence = None if sure is None else _number(sure)
    except ValueError:
        raise ValueError(f"{place}: confidence: expected a number, got {sure!r:.60}.") from None
    right, answerable = (_truth(cells[key], f"{place}: {key}") for key in ("verdict", "answerable"))
    if answerable is None and right is not None and decision != "clarify":
        # A right answer had one; who refused wrongly could have answered.
        answerable = (True if right else None) if decision == "answer" else not right
    gaps, closest = _titles(cells["lacking"]), _titles(cells["closest"])
    tail = gaps, closest, cells["code"] != "no_question"
    return Run(_question(cells["question"]), decision, confidence, right, answerable, *tail)


def _titles(value: object) -> tuple[str, ...]:
    """Return the texts of a list, or the titles of the objects in it; of a text, that alone."""
    items = value if isinstance(value, list) else [] if value is None else [value]
    titles = (part.get("title") if isinstance(part, Mapping) else part for part in items)
    return tuple([str(title) for title in titles if _is_known(title, "closest")])


def _decision(value: object, answer: object, place: str) -> str:
    if value is None:
        return outcome_of(str(answer or ""))
    word = str(value).strip().casefold()
    for decision, words in _DECISIONS.items():
        if word in words:
            return decision
    names = ", ".join(_DECISIONS)
    raise ValueError(f"{place}: decision: expected one of {names}, got {value!r:.60}; rename it.")


def _question(value: object) -> str:
    """Return a question, or of the messages of a chat the last of the user."""
    messages = value if isinstance(value, list) else []
    turns = [m for m in messages if isinstance(m, Mapping) and "content" in m]
    texts = [m["content"] for m in turns if m.get("role", m.get("type")) in ("user", "human")]
    return str(texts[-1] if texts else value)


def _number(value: object) -> float | None:
    """Return a number, also of "0,87", "87 %" and the mean of a list; None of an infinite one.

    ValueError if it is none.
    """
    if isinstance(value, list) and value:
        numbers = [number for item in value if (number := _number(item)) is not None]
        return float(np.mean(numbers)) if numbers else None
    text = str(value).strip().replace(",", ".")
    number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    return number if math.isfinite(number) else None


def _truth(value: object, place: str) -> bool | None:
    if isinstance(value, list):  # of several who judged
        votes = [vote for item in value if (vote := _truth(item, place)) is not None]
        return 2 * sum(votes) > len(votes) if votes else None
    if value is None or isinstance(value, bool):
        return value
    if (text := str(value).strip().casefold()) in _TRUE | _FALSE:
        return text in _TRUE
    number: float | None = math.nan
    with suppress(ValueError):
        number = _number(value)
    if number is None or not 0 <= number <= 1:
        raise ValueError(
            f"{place}: expected a Boolean or a number from 0 to 1, got {value!r:.60}; divide "
            "grades by the best one."
        )
    return number > _RIGHT


def measure_runs(runs: Iterable[Run]) -> dict[str, Any]:
    """Measure decisions: what was answered and asked back, what was wrong, and how calibrated.

    Returns
    -------
    dict
        JSON values. "failed" runs are counted, and left out; "different" are the questions, each
        once. Each of "shares" is a share of its "of", with the bounds of its 95 % interval (Wilson,
        of the different questions): "answered" and "asked_back" of all, "wrong" of the answers with
        a verdict, "over_refused" of the answerable. "curve" has, for the answers with confidence
        and verdict, the share of all that is answered at each threshold and the share of these that
        is wrong (risk-coverage curve), "aurc" the mean of the latter over the answers (Geifman et
        al. 2019; those of one confidence are given all or none), "brier" the mean squared
        difference of confidence and verdict, "bins" see `reliability`. These are None or empty
        where the log does not tell.
    """
    every = [*runs]
    rows = [run for run in every if run.decision != "failed"]
    answers = [run for run in rows if run.decision == "answer"]
    judged = [run for run in answers if run.right is not None]
    answerable = [run for run in rows if run.answerable]
    shares = {
        "answered": share_of([run.decision == "answer" for run in rows], rows),
        "asked_back": share_of([run.decision == "clarify" for run in rows], rows),
        "wrong": share_of([not run.right for run in judged], judged),
        "over_refused": share_of([run.decision == "abstain" for run in answerable], answerable),
    }
    sure = [run for run in judged if run.confidence is not None]
    confidence = np.array([run.confidence for run in sure], dtype=np.float64)
    right = np.array([run.right for run in sure], dtype=bool)
    count, risk = risk_curve(confidence, right)
    coverage = count / max(len(rows), 1)
    is_probability = bool(len(sure)) and 0 <= confidence.min() <= confidence.max() <= 1
    return {
        "questions": len(rows),
        "different": len({run.question for run in rows}),
        "failed": len(every) - len(rows),
        "shares": shares,
        "curve": [*zip(coverage.tolist(), risk.tolist(), strict=True)],
        "aurc": float(np.diff(count, prepend=0) @ risk) / len(sure) if sure else None,
        "brier": float(((confidence - right) ** 2).mean()) if is_probability else None,
        "bins": reliability(confidence, right) if is_probability else [],
    }


def share_of(holds: Sequence[bool], runs: Sequence[Run] = ()) -> dict[str, float] | None:
    """Return how many of how many, the share and its 95 % interval; None of nothing.

    `runs`: those of which it holds. The interval is as wide as of their different questions, since
    a question that is repeated tells nothing of others.
    """
    if not holds:
        return None
    count = len({run.question for run in runs}) or len(holds)
    low, high = interval_of(sum(holds) / len(holds) * count, count)
    return {"share": sum(holds) / len(holds), "low": low, "high": high, "of": len(holds)}


def describe_log(path: Path, labels: Mapping[str, Collection[str]]) -> dict[str, Any]:
    """Describe what an advisor changed by a log of decisions, to compare advisors.

    Parameters
    ----------
    path : Path
        The lines of `uec_rag.decisions`; of a question that an advisor was asked about several
        times, the last one counts.
    labels : mapping of str to collection of str
        Maps questions to the ids of the passages that answer them, which may be none.

    Returns
    -------
    dict
        Counts of "questions" and of those whose action it "changed", and "calls", "tokens" and
        "seconds" of one; of the labelled ones, "answerable" and "unanswerable", and the AUROC of
        answerable over unanswerable, "before" and "after" the advice, or None.

    Raises
    ------
    ValueError
        If it is not a log, or has no line of an advisor.
    """
    rows = {row["question"]: row for row in _rows(path) if row.keys() >= _ADVISED}
    if not rows:
        raise ValueError(
            f"log: {path} has no line of an advisor; ask questions of a Gate(advisor=...) while "
            "the logger uec_rag.decisions writes there at INFO."
        )
    matches = [row for question, row in rows.items() if question in labels]
    truth = np.array([bool(labels[row["question"]]) for row in matches], dtype=bool)
    before, after = (
        np.array([row[name] for row in matches], dtype=np.float64)
        for name in ("confidence_before", "confidence")
    )
    is_mixed = 0 < truth.sum() < len(truth)
    costs = {"calls": "advice_calls", "tokens": "advice_tokens", "seconds": "seconds"}
    return {
        "questions": len(rows),
        "changed": sum(row["before"] != row["after"] for row in rows.values()),
        **{
            key: float(np.mean([row.get(name, 0) for row in rows.values()]))
            for key, name in costs.items()
        },
        "answerable": int(truth.sum()),
        "unanswerable": int((~truth).sum()),
        "before": _auroc(before, truth) if is_mixed else None,
        "after": _auroc(after, truth) if is_mixed else None,
    }


def _auroc(score: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Compute the area under the ROC curve: P(a positive one has the higher score)."""
    from scipy.stats import mannwhitneyu

    count = float(positive.sum() * (~positive).sum())
    return float(mannwhitneyu(score[positive], score[~positive]).statistic) / count
