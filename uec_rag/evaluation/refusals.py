"""Refused questions of a log: how answers refuse, and the words and sections documents lack."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import regex

from uec_rag.base.text import SENTENCE_END, WORD, skip_long_texts
from uec_rag.questions.languages import TRANSLATIONS
from uec_rag.questions.replies import extract_clarifying_question

if TYPE_CHECKING:
    from uec_rag.confidence.decision import Action
    from uec_rag.evaluation.evaluate import Run

_SHOWN = 5  # questions of a group
_EMPTY = ("", "empty response", "none", "null")  # what frameworks give in place of an answer
_REASONS = (
    "uncertain",
    "several",
    "no_answer",
    "off_topic",
    "absent",
    "nothing_found",
    "no_question",
)
_NOT = regex.compile(r"(?<=\b(?:do|does|did|is|are|was|were|could|would|have|has|ca))n'?t\b")
_CONTRACTIONS = (
    (_NOT, " not"),
    (regex.compile(r"\bi'm\b|\bim (?=not|sorry|afraid|un)"), "i am "),
    (regex.compile(r"(?<=\b(?:it|that|there|this))'s\b"), " is"),
    (regex.compile("can ?not|ca not"), "can not"),
)


@skip_long_texts("answer")
def outcome_of(answer: str) -> Action:
    """Return what an answer does: one that says that there is none abstains, a question clarifies.

    Known are the sentences of our decisions, in all their languages, and how language models refuse
    in English, German, French and Spanish.

    Examples
    --------
    >>> [outcome_of(text) for text in ("Two years.", "I don't know.", "Laptop or camera?")]
    ['answer', 'abstain', 'clarify']
    """
    text = answer.replace("\u00a0", " ").strip()
    if _is_reason(text):
        return "abstain"
    if extract_clarifying_question(text):
        return "clarify"
    plain = text.casefold().replace("’", "'")
    for form, words in _CONTRACTIONS:
        plain = form.sub(words, plain)
    phrase = " ".join(WORD.findall(SENTENCE_END.split(plain)[0]))
    is_refusal = phrase in _EMPTY or any(form.match(phrase) for form in _refusals())
    return "abstain" if is_refusal else "answer"


def _is_reason(text: str) -> bool:
    """Return whether a text begins with a reason of ours, as users may have phrased it."""
    for texts in TRANSLATIONS.values():
        for key in _REASONS:
            before, _, after = texts.get(key, "").replace("\u00a0", " ").partition("{values}")
            if before + after and text.startswith(before) and after in text[len(before) :]:
                return True
    return False


@cache
def _refusals() -> list[regex.Pattern[str]]:
    """Return the expressions of refusals.toml, one for each language."""
    content = files("uec_rag.evaluation").joinpath("refusals.toml").read_text(encoding="utf-8")
    forms = []
    for table in tomllib.loads(content).values():
        phrases = "|".join(table["phrases"])
        form = f"(?:(?:{table['openings']})\\b ?)*+(?:{phrases})(?!.*\\b(?:{table['unless']})\\b)"
        form = form.replace("{CONTEXT}", table["context"]).replace("{SOME}", r"(?: \w+){0,3}?")
        forms.append(regex.compile(form))
    return forms


def group_refusals(runs: Iterable[Run]) -> dict[str, Any]:
    """Group what was refused or handed over: what users ask and the documents do not say.

    Parameters
    ----------
    runs : iterable of Run
        Of a log whose lines have "lacking" and "closest", as that of `uec_rag.decisions` does.

    Returns
    -------
    dict
        JSON values. "refused": number of questions that got no answer, but messages that ask
        nothing. "words": for each word that no passage has, the largest group first, the "word",
        the "count" of questions with it and the first "questions". "sections": the same for the
        "section" that was closest. "other": number of questions with neither.

    Examples
    --------
    >>> from uec_rag.evaluation.evaluate import Run
    >>> asked = ["Who is on Ward 9?", "Is Ward 9 open?"]
    >>> runs = [Run(text, "abstain", 0.2, None, None, ("Ward 9",), ("Wards",)) for text in asked]
    >>> grouped = group_refusals(runs)
    >>> [(group["word"], group["count"]) for group in grouped["words"]]
    [('Ward 9', 2)]
    >>> [(group["section"], group["count"]) for group in grouped["sections"]]
    [('Wards', 2)]
    """
    refusals = [run for run in runs if run.decision == "abstain" and run.asks]
    return {
        "refused": len(refusals),
        "words": _groups("word", refusals, lambda run: run.gaps),
        "sections": _groups("section", refusals, lambda run: run.closest[:1]),
        "other": sum(not (run.gaps or run.closest) for run in refusals),
    }


def _groups(
    name: str, runs: Iterable[Run], values: Callable[[Run], Sequence[str]]
) -> list[dict[str, Any]]:
    """Group questions by values, whatever their case; the largest group comes first."""
    groups, spellings = defaultdict[str, list[str]](list), dict[str, str]()
    for run in runs:
        for key, value in {value.casefold(): value for value in values(run)}.items():
            spellings.setdefault(key, value)
            groups[key].append(run.question)
    order = sorted(groups, key=lambda key: -len(groups[key]))
    return [
        {
            name: spellings[key],
            "count": len(groups[key]),
            "questions": [*dict.fromkeys(groups[key])][:_SHOWN],
        }
        for key in order
    ]
