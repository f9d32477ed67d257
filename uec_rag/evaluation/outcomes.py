"""Outcomes of the answers in a log: an answer, a refusal or a question back."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

import regex

from uec_rag.base.text import SENTENCE_END, WORD, skip_long_texts
from uec_rag.confidence.decision import Action
from uec_rag.questions.languages import TRANSLATIONS
from uec_rag.questions.replies import extract_clarifying_question

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
    """Return the expressions of outcomes.toml, one for each language."""
    content = files("uec_rag.evaluation").joinpath("outcomes.toml").read_text(encoding="utf-8")
    forms = []
    for table in tomllib.loads(content).values():
        phrases = "|".join(table["phrases"])
        form = f"(?:(?:{table['openings']})\\b ?)*+(?:{phrases})(?!.*\\b(?:{table['unless']})\\b)"
        form = form.replace("{CONTEXT}", table["context"]).replace("{SOME}", r"(?: \w+){0,3}?")
        forms.append(regex.compile(form))
    return forms
