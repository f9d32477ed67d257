"""Questions made of a corpus's own passages, if there are no labelled ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from uec_rag.corpora.document import has_words
from uec_rag.stores.base import Passage

# A mark that ends a sentence, before white space or (Chinese, Japanese) before anything.
_END = re.compile(r"(?<=[.!?])[\"')\]]?\s+|(?<=[。！？])|\n\s*\n")


def split_first_sentence(text: str) -> tuple[str, str]:
    """Split off the first sentence or, if it ends earlier, the first paragraph.

    The rest is empty if nothing follows.

    Examples
    --------
    >>> split_first_sentence("Bread wants time. Let it rise.")
    ('Bread wants time.', 'Let it rise.')
    """
    end = _END.search(text)
    if end is None:
        return " ".join(text.split()), ""
    return " ".join(text[: end.end()].split()), text[end.end() :].strip()


_SHORTEST_QUESTION, _LONGEST_QUESTION = 12, 250  # characters; less asks for nothing much
_SHORTEST_ANSWER = 40
_MOST_ANSWERS = 5  # what more passages than these share, asks for none of them
_TITLES = ("title", "heading", "header")
_NUMBER = re.compile(r"\A(?:[A-Z]\.)?\d+(?:\.\d+)*\.?\s+")  # of a section, before its heading


@dataclass(frozen=True)
class OwnQuestions:
    """Questions, and the passages that answer them.

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


def make_questions(passages: Sequence[Passage], most: int) -> OwnQuestions:
    """Make questions of passages.

    A title in the metadata ("title", "heading" or "header") asks for what follows it in its
    passages, without the number of its section, unless they hold it word for word; if there is
    none, or more passages have it than a question asks for, the first sentence asks for the rest.
    Passages that make the same question all answer it.

    Parameters
    ----------
    passages : sequence of Passage
    most : int
        Questions at most.
    """
    titles = Counter(title for passage in passages for title in _titles(passage))
    telling = {title for title, count in titles.items() if count <= _MOST_ANSWERS}
    places: dict[str, list[int]] = {}
    answers: dict[int, str] = {}
    for place, passage in enumerate(passages):
        if (made := _question_of(passage, telling)) is not None:
            places.setdefault(made[0], []).append(place)
            answers[place] = made[1]
    kept = {q: found for q, found in places.items() if len(found) <= _MOST_ANSWERS}
    questions = list(kept)[:most]
    relevant = [kept[question] for question in questions]
    return OwnQuestions(questions, relevant, {p: answers[p] for found in relevant for p in found})


def _question_of(passage: Passage, telling: Collection[str]) -> tuple[str, str] | None:
    titles = _titles(passage)
    text = passage.text
    for title in titles:  # `passages_of` begins each passage with its heading
        text = text.removeprefix(title).lstrip()
    own = (_NUMBER.sub("", title) for title in titles if title in telling)
    made = question_of(own, text, _SHORTEST_ANSWER)
    # Below a heading in lower case it is the rest of a sentence of the passage before.
    cut = text != passage.text and made is not None and made[1] != text and made[0][0].islower()
    return None if cut else made


def question_of(titles: Iterable[str], text: str, shortest: int) -> tuple[str, str] | None:
    """Make a question that a text answers, and the answer; None if the text gives none.

    The first of the titles that asks for the text, but for one that stands in it word for word,
    which is found too easily; else its first sentence, which asks for the rest.

    `titles`: what the text is about, as far as it stands for this text and few others. `shortest`:
    characters of an answer at least.

    Examples
    --------
    >>> question_of(["Baking a loaf at home"], "Bread wants time. Let it rise.", shortest=10)
    ('Baking a loaf at home', 'Bread wants time. Let it rise.')
    >>> question_of([], "Bread wants time. Let it rise.", shortest=10)
    ('Bread wants time.', 'Let it rise.')
    """
    for title in titles:
        if " " in title and _asks_for(title, text, shortest) and not stands_in(title, text):
            return title, text
    first, rest = split_first_sentence(text)
    return (first, rest) if _asks_for(first, rest, shortest) else None


def _asks_for(question: str, answer: str, shortest: int) -> bool:
    return (
        _SHORTEST_QUESTION <= len(question) <= _LONGEST_QUESTION
        and len(answer) >= shortest
        and has_words(question)
    )


def stands_in(question: str, text: str) -> bool:
    """Tell if a text contains a question word for word."""
    return _words(question) in _words(text)


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _titles(passage: Passage) -> list[str]:
    given = [passage.metadata[key] for key in _TITLES if key in passage.metadata]
    return [title.strip() for title in given if isinstance(title, str)]
