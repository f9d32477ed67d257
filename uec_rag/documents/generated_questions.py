"""Questions generated from the passages of a corpus, if there are no labelled ones."""

import random
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

from uec_rag.base.checks import check_k
from uec_rag.base.text import SENTENCE_END
from uec_rag.documents.document import body_of
from uec_rag.documents.plain_text import has_text
from uec_rag.stores.passage import Passage

MOST_PAIRS = 148
"""The number of questions that an ensemble is fitted on without labels: each is two texts."""

Pair: TypeAlias = tuple[str, str]
"""A question and what answers it."""


def split_first_sentence(text: str) -> tuple[str, str]:
    """Split off the first sentence or, if it ends earlier, the first paragraph.

    The rest is empty if nothing follows.

    Examples
    --------
    >>> split_first_sentence("Bread wants time. Let it rise.")
    ('Bread wants time.', 'Let it rise.')
    """
    end = SENTENCE_END.search(text)
    if end is None:
        return " ".join(text.split()), ""
    return " ".join(text[: end.end()].split()), text[end.end() :].strip()


_SHORTEST_QUESTION, _LONGEST_QUESTION = 12, 250  # characters; shorter ones are too vague
_SHORTEST_ANSWER = 40
_SENTENCE = 5  # words from which a question is taken for a sentence, which stands nowhere by chance
_MOST_ANSWERS = 5  # a title or question shared by more passages is too vague
_TITLES = ("title", "heading", "header")
_SYMBOL, _SYMBOLS = re.compile(r"[^\w\s]"), 0.25  # the share of these in a drawing is higher
_NUMBER = re.compile(r"\A(?:[A-Z]\.)?\d+(?:\.\d+)*\.?\s+")  # section number before a heading


def make_questions(passages: Sequence[Passage], limit: int) -> dict[str, list[str]]:
    """Generate questions from passages.

    A title of several words in the metadata ("title", "heading" or "header"), without its section
    number, is a question that the text below it answers. If there is none, the text contains it
    word for word, or more than five passages share it, the first sentence is the question and the
    rest of the text is the answer. If several passages lead to the same question, all of them
    answer it.

    Parameters
    ----------
    passages : sequence of Passage
    limit : int
        Maximum number of questions.

    Returns
    -------
    dict of str to list of str
        The texts that answer each question, without their titles and the question.
    """
    pairs_of = _questions(passages, check_k(limit, "limit"))
    return {question: [answer for _, answer in pairs] for question, pairs in pairs_of.items()}


def questions_of(passages: Sequence[Passage], limit: int) -> dict[str, list[str]]:
    """Generate questions from passages in random order, each with the ids of those that answer it.

    A passage of one sentence, such as a row of a price list, is asked for by that sentence.

    Examples
    --------
    >>> text = "Bread wants time. Let the dough rise for some hours, or overnight in the cold."
    >>> questions_of([Passage("bread", text, {})], 60)
    {'Bread wants time.': ['bread']}
    """
    check_k(limit, "limit")
    shuffled = random.Random(0).sample([*passages], len(passages))
    ids_of = {
        question: [id_ for id_, _ in pairs]
        for question, pairs in _questions(shuffled, len(shuffled), shortest=0).items()
        if not is_code(question)
    }
    return dict(islice(ids_of.items(), limit))


def is_code(question: str) -> bool:
    """Return whether a question is code, or a drawing in letters and lines."""
    symbols = len(_SYMBOL.findall(question))
    return question.startswith("```") or symbols > _SYMBOLS * len(question)


def _questions(
    passages: Sequence[Passage], limit: int, shortest: int = _SHORTEST_ANSWER
) -> dict[str, list[tuple[str, str]]]:
    """Generate questions, each with ids and texts of the passages that answer it.

    `shortest`: characters of a passage behind its question.
    """
    titles = Counter(title for passage in passages for title in _titles(passage))
    telling = {title for title, count in titles.items() if count <= _MOST_ANSWERS}
    pairs_of: dict[str, list[tuple[str, str]]] = {}
    for passage in passages:
        if (pair := _question_of(passage, telling, shortest)) is not None:
            pairs_of.setdefault(pair[0], []).append((passage.id, pair[1]))
    return dict([item for item in pairs_of.items() if len(item[1]) <= _MOST_ANSWERS][:limit])


def _question_of(passage: Passage, telling: Collection[str], shortest: int) -> Pair | None:
    """Generate a question and its answer from a passage; None if that is not possible.

    `telling`: titles that few passages share. `shortest`: characters of an answer.
    """
    text = body_of(_without_metadata(passage))
    for title in _titles(passage):
        question = _NUMBER.sub("", title)
        is_told = title not in telling or _words(question) in _words(text)
        if " " in question and _asks_for(question, text, shortest) and not is_told:
            return question, text
    sentence, answer = split_first_sentence(text)
    # A first sentence in lower case below a heading continues one of the passage before.
    is_cut = text != passage.text and sentence[:1].islower()
    return (sentence, answer) if _asks_for(sentence, answer, shortest) and not is_cut else None


def _without_metadata(passage: Passage) -> Passage:
    """Remove lines such as "file_path: a.md", which LlamaIndex embeds above the text of a node."""
    above, text = {f"{key}: {value}" for key, value in passage.metadata.items()}, passage.text
    while text.partition("\n")[0] in above:
        text = text.partition("\n")[2].lstrip()
    return replace(passage, text=text)


def _asks_for(question: str, answer: str, shortest: int) -> bool:
    is_long = len(question) >= _SHORTEST_QUESTION and len(answer) >= shortest
    return is_long and len(question) <= _LONGEST_QUESTION and has_text(question)


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _titles(passage: Passage) -> list[str]:
    titles = [passage.metadata[key] for key in _TITLES if key in passage.metadata]
    return [title.strip() for title in titles if isinstance(title, str)]


def pairs_from_passages(passages: Sequence[Passage], limit: int = MOST_PAIRS) -> list[Pair]:
    """Make questions of passages, each with the text that answers it, in random order.

    See `make_questions`. Where passages overlap, the first sentence of
    one stands in another, too, which would look like its answer, and is taken out there.
    """
    shuffled = random.Random(0).sample([*passages], len(passages))
    answers_of = make_questions(shuffled, limit)
    sentences = [question for question in answers_of if len(question.split()) >= _SENTENCE]
    cleaned = ((question, _without(sentences, texts[0])) for question, texts in answers_of.items())
    return [(question, answer) for question, answer in cleaned if answer]


def _without(sentences: Sequence[str], text: str) -> str:
    """Return a text without some sentences; unchanged if it has none of them."""
    flat = " ".join(text.split())
    repeated = [sentence for sentence in sentences if sentence in flat]
    for sentence in repeated:
        flat = flat.replace(sentence, " ")
    return flat.strip() if repeated else text
