"""Questions generated from the passages of a corpus, if there are no labelled ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from uec_rag.documents.document import body_of
from uec_rag.documents.text import has_words
from uec_rag.stores.base import Passage

# The end of a sentence: a mark before white space or, in Chinese and Japanese, before anything.
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


_SHORTEST_QUESTION, _LONGEST_QUESTION = 12, 250  # characters; shorter ones are too vague
_SHORTEST_ANSWER = 40
_MOST_ANSWERS = 5  # a title or question shared by more passages is too vague
_TITLES = ("title", "heading", "header")
_NUMBER = re.compile(r"\A(?:[A-Z]\.)?\d+(?:\.\d+)*\.?\s+")  # section number before a heading


@dataclass(frozen=True)
class OwnQuestions:
    """Generated questions, and the passages that answer them.

    Attributes
    ----------
    questions : list of str
        Distinct questions.
    relevant : list of list of int
        Positions of the passages that answer each question.
    answers : dict of int to str
        By position, the passage's text without its title and without the question.
    """

    questions: list[str]
    relevant: list[list[int]]
    answers: dict[int, str]


def make_questions(passages: Sequence[Passage], most: int) -> OwnQuestions:
    """Generate questions from passages.

    A title of several words in the metadata ("title", "heading" or "header"), without its section
    number, is a question that the text below it answers. If there is none, the text contains it
    word for word, or more than five passages share it, the first sentence is the question and the
    rest of the text is the answer. If several passages lead to the same question, all of them
    answer it.

    Parameters
    ----------
    passages : sequence of Passage
    most : int
        Maximum number of questions.
    """
    titles = Counter(title for passage in passages for title in _titles(passage))
    telling = {title for title, count in titles.items() if count <= _MOST_ANSWERS}
    places: dict[str, list[int]] = {}
    answers: dict[int, str] = {}
    for position, passage in enumerate(passages):
        if (made := _question_of(passage, telling)) is not None:
            places.setdefault(made[0], []).append(position)
            answers[position] = made[1]
    kept = {q: answer for q, answer in places.items() if len(answer) <= _MOST_ANSWERS}
    questions = list(kept)[:most]
    relevant = [kept[question] for question in questions]
    return OwnQuestions(questions, relevant, {p: answers[p] for answer in relevant for p in answer})


def _question_of(passage: Passage, telling: Collection[str]) -> tuple[str, str] | None:
    titles, text = _titles(passage), body_of(_without_metadata(passage))
    own = (_NUMBER.sub("", title) for title in titles if title in telling)
    made = question_of(own, text, _SHORTEST_ANSWER)
    # A first sentence in lower case below a heading continues one of the passage before.
    cut = text != passage.text and made is not None and made[1] != text and made[0][0].islower()
    return None if cut else made


def _without_metadata(passage: Passage) -> Passage:
    """Remove lines such as "file_path: a.md", which LlamaIndex embeds above the text of a node."""
    above, text = {f"{key}: {value}" for key, value in passage.metadata.items()}, passage.text
    while text.partition("\n")[0] in above:
        text = text.partition("\n")[2].lstrip()
    return replace(passage, text=text)


def question_of(titles: Iterable[str], text: str, shortest: int) -> tuple[str, str] | None:
    """Generate a question and its answer from a text; None if that is not possible.

    The question is the first suitable title, unless the text contains it word for word, which
    would make it too easy. Otherwise, it is the first sentence, and the rest is the answer.

    `titles`: titles of the text that few other texts share. `shortest`: minimum number of
    characters of an answer.

    Examples
    --------
    >>> question_of(["Baking a loaf at home"], "Bread wants time. Let it rise.", shortest=10)
    ('Baking a loaf at home', 'Bread wants time. Let it rise.')
    >>> question_of([], "Bread wants time. Let it rise.", shortest=10)
    ('Bread wants time.', 'Let it rise.')
    """
    for title in titles:
        if " " in title and _asks_for(title, text, shortest) and not occurs_in(title, text):
            return title, text
    first, rest = split_first_sentence(text)
    return (first, rest) if _asks_for(first, rest, shortest) else None


def _asks_for(question: str, answer: str, shortest: int) -> bool:
    return (
        _SHORTEST_QUESTION <= len(question) <= _LONGEST_QUESTION
        and len(answer) >= shortest
        and has_words(question)
    )


def occurs_in(question: str, text: str) -> bool:
    """Return whether a text contains a question word for word."""
    return _words(question) in _words(text)


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _titles(passage: Passage) -> list[str]:
    titles = [passage.metadata[key] for key in _TITLES if key in passage.metadata]
    return [title.strip() for title in titles if isinstance(title, str)]
