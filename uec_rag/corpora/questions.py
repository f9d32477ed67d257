"""Questions made of a corpus's own passages, where nobody has labelled any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from uec_rag.base.checks import check_texts
from uec_rag.corpora.sentences import split_first_sentence
from uec_rag.stores.base import Passage

QuestionGenerator = Callable[[str], str]
"""From a passage's text to a question that it answers."""

_SHORTEST_QUESTION, _LONGEST_QUESTION, _SHORTEST_REST = 12, 300, 40
_MOST_ANSWERS = 5  # what more passages than these share, asks for none of them
_TITLES = ("title", "heading", "header")


@dataclass(frozen=True)
class OwnQuestions:
    """Questions, and what answers them.

    Attributes
    ----------
    questions : list of str
        Distinct.
    relevant : list of list of int
        Places of each one's passages.
    answers : dict of int to str
        What answers at a place: the passage's text, without the question where it was part of it.
    """

    questions: list[str]
    relevant: list[list[int]]
    answers: dict[int, str]


def make_questions(
    passages: Sequence[Passage], generate: QuestionGenerator | None, most: int
) -> OwnQuestions:
    """Make questions of passages.

    A title in the metadata ("title", "heading" or "header") asks for its passages, unless they
    hold it word for word; where there is none the first sentence asks for the rest. Passages that
    make the same question all answer it.

    Parameters
    ----------
    passages : sequence of Passage
    generate : callable, optional
        Makes the question of a passage instead.
    most : int
        Questions at most; so often `generate` is called at most.

    Raises
    ------
    TypeError, ValueError
        If `generate` gives anything but a text.
    """
    if generate is not None:
        passages = passages[:most]
    titles = Counter(title for passage in passages for title in _titles(passage))
    telling = {title for title, count in titles.items() if count <= _MOST_ANSWERS}
    places: dict[str, list[int]] = {}
    answers: dict[int, str] = {}
    for place, passage in enumerate(passages):
        if generate is None:
            made = _question(passage, telling)
        else:
            made = check_texts([generate(passage.text)], "generate(text)")[0], passage.text
        if made is not None:
            places.setdefault(made[0], []).append(place)
            answers[place] = made[1]
    kept = {q: found for q, found in places.items() if len(found) <= _MOST_ANSWERS}
    questions = list(kept)[:most]
    relevant = [kept[question] for question in questions]
    return OwnQuestions(questions, relevant, {p: answers[p] for found in relevant for p in found})


def _question(passage: Passage, telling: set[str]) -> tuple[str, str] | None:
    """A question and the text that answers it, or None where the passage gives none."""
    for title in _titles(passage):
        if title in telling:
            return title, passage.text
    first, rest = split_first_sentence(passage.text)
    return (first, rest) if _is_question(first) and len(rest) >= _SHORTEST_REST else None


def _titles(passage: Passage) -> list[str]:
    given = [passage.metadata[key] for key in _TITLES if key in passage.metadata]
    titles = [title.strip() for title in given if isinstance(title, str)]
    return [t for t in titles if " " in t and _is_question(t) and t not in passage.text]


def _is_question(text: str) -> bool:
    return _SHORTEST_QUESTION <= len(text) <= _LONGEST_QUESTION
