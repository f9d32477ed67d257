"""Passages: pieces of text to search for, checked before they are stored."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import as_list, check_stored_text, check_texts, check_type, pluralize
from uec_rag.base.errors import warn
from uec_rag.base.records import cached_property
from uec_rag.base.text import (
    LONGEST_QUESTION,
    MOST_NAMES,
    MOST_QUESTIONS,
    SOURCE_KEYS,
    About,
    bounded_questions,
    first_value,
    is_asked,
    questions_in,
    with_headings,
)
from uec_rag.stores.metadata import normalise

_LONG = 1500  # characters, which are fewer than 512 tokens
_FEW = 40  # characters of names that are worth their time; words find a passage by all


@dataclass(frozen=True)
class Passage:
    """A piece of text to search for.

    Attributes
    ----------
    id : str
    text : str
    metadata : dict
        Further data on the passage.
    sketch : bytes
        What is known of the vectors of its questions, see `uec_rag.ensemble.sketches`.
    """

    id: str
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    sketch: bytes = field(default=b"", compare=False, repr=False)

    @cached_property
    def about(self) -> About:
        """Its subject, source and words, derived at the first access."""
        return About.from_passage(self.metadata, self.text)

    @cached_property
    def text_key(self) -> int:
        """A number for the text, by which copies are told without reading it."""
        return int(hash_text(self.text), 16)

    @property
    def headed(self) -> str:
        """The text after its headings, if they are in the metadata alone, as models read it."""
        return with_headings(self.metadata, self.text)

    @cached_property
    def with_source(self) -> str:
        """The text whose words are evidence: also with the path or the URL of its source."""
        text = with_headings(self.metadata, self.text)
        return f"{text}\n\n{first_value(self.metadata, SOURCE_KEYS)}"

    @property
    def searched(self) -> str:
        """The text that models encode: with the questions and names that stand beside it."""
        return with_questions(self.metadata, self.headed)

    @property
    def seen_beside(self) -> list[str]:
        """The texts beside it that models encode: its questions, and names if they are few."""
        lines = questions_in(self.metadata)
        return [line for line in lines if len(line) <= _FEW or is_asked(line)] or lines

    @property
    def counted(self) -> str:
        """The text whose words are counted: `searched`, with the path or the URL of its source."""
        return self.counted_below(self.headed)

    def counted_below(self, headed: str) -> str:
        """Return `counted`, given `headed`."""
        searched = with_questions(self.metadata, headed)
        return f"{searched}\n\n{first_value(self.metadata, SOURCE_KEYS)}"


def with_questions(metadata: Mapping[str, Any], text: str) -> str:
    """Return a text with the questions and names in its metadata, a line for each.

    They are behind it, but before a long one, whose end models may not read.

    Examples
    --------
    >>> print(with_questions({"questions": ["May I keep a cat?"]}, "Pets are welcome."))
    Pets are welcome.
    <BLANKLINE>
    May I keep a cat?
    """
    questions = "\n".join(questions_in(metadata)) if metadata else ""
    if not questions:
        return text
    return f"{questions}\n\n{text}" if len(text) > _LONG else f"{text}\n\n{questions}"


def copy_passage(passage: Passage) -> Passage:
    """Copy a passage, with all of its metadata."""
    copied = Passage(passage.id, passage.text, copy_value(passage.metadata), passage.sketch)
    copied.__dict__["about"] = passage.about  # which took some time
    return copied


def copy_value(value: Any) -> Any:  # noqa: ANN401
    """Copy the dicts and lists of a value; other objects, which JSON does not have, are shared."""
    if isinstance(value, dict):
        copied = value.copy()
        for key, item in value.items():
            if isinstance(item, dict | list):
                copied[key] = copy_value(item)
        return copied
    if isinstance(value, list):
        return [*map(copy_value, value)]
    return value


def content_id(text: str, metadata: Mapping[str, Any]) -> str:
    """Return an id that passages share if their texts and metadata are equal."""
    content = json.dumps([text, metadata], sort_keys=True, default=str)
    return hashlib.blake2b(content.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def hash_text(text: str) -> str:
    """Hash the text of a passage, by which another one is told from it."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def text_keys(passages: Iterable[Passage]) -> NDArray[np.uint64]:
    """Return the `text_key` of each passage."""
    return np.array([passage.text_key for passage in passages], dtype=np.uint64)


def distinct(passages: Iterable[Passage]) -> list[Passage]:
    """Return each passage once; another text under the id of one gets an id that ends in its hash.

    Two collections behind a retriever may have the same ids.
    """
    passages, first = [*passages], dict[str, Passage]()
    for passage in passages:
        before = first.setdefault(passage.id, passage)
        if before.text != passage.text:
            id_ = f"{passage.id}-{hash_text(passage.text)[:8]}"
            first.setdefault(id_, replace(passage, id=id_))
    return [*first.values()]


def make_passages(
    texts: Iterable[str], ids: Iterable[str] | None, metadatas: Iterable[Mapping[str, Any]] | None
) -> list[Passage]:
    """Check texts, ids and metadata before they are encoded, and join them to passages.

    Metadata is copied by `normalise`.

    TypeError or ValueError if a text is empty or not a string, if the lengths differ, or if an id
    or metadata could not be saved.
    """
    checked = check_texts(texts)
    names = [secrets.token_hex(16) for _ in checked] if ids is None else as_list(ids, "ids")
    if isinstance(metadatas, Mapping):
        raise TypeError(
            "metadatas: expected a list of mappings, one per text, got one mapping; "
            "write [metadata] for a single text."
        )
    extra = [{} for _ in checked] if metadatas is None else [*metadatas]
    for name, values in (("ids", names), ("metadatas", extra)):
        if len(values) != len(checked):
            raise ValueError(f"{name}: expected {len(checked)}, one per text, got {len(values)}.")
    return [
        check_passage(
            Passage(id_, text, {} if metadata is None else cast(Any, metadata)),
            f"metadatas[{number}]",
        )
        for number, (id_, text, metadata) in enumerate(zip(names, checked, extra, strict=True))
    ]


def last_of_each(passages: Sequence[Passage]) -> list[int]:
    """Return the positions of the passages to keep: of equal ids, the last.

    ValueError if an id is given with two texts.
    """
    positions = dict[str, int]()
    for position, passage in enumerate(passages):
        before = positions.pop(passage.id, None)
        if before is not None and passages[before].text != passage.text:
            raise ValueError(
                f"ids: {passage.id!r} is given twice, with the texts "
                f"{passages[before].text!r:.60} and {passage.text!r:.60}; expected one text for "
                "an id. Nothing was added."
            )
        positions[passage.id] = position
    return [*positions.values()]


class Checked(dict[str, Any]):
    """The metadata of a passage that was already checked and copied."""


def check_passage(passage: Passage, subject: str = "") -> Passage:
    """Check one passage, and copy its metadata, which messages call `subject`.

    TypeError or ValueError if it is not a passage, or could not be saved.
    """
    check_type(passage, Passage, "passages", "Passage objects")
    name, text, subject = passage.id, passage.text, subject or f"metadata of {passage.id!r}"
    if not isinstance(name, str) or not name:
        raise TypeError(f"ids: expected non-empty strings, got {name!r}.")
    check_stored_text(name, f"ids: {name!r:.60}")
    if not isinstance(text, str):
        raise TypeError(f"text of {name!r} must be a string, got {text!r:.60}")
    check_stored_text(text, f"text of {name!r}: {text!r:.60}")
    check_type(passage.metadata, Mapping, subject, "a mapping")
    metadata, surplus = bounded_questions(passage.metadata)
    if surplus:
        warn(
            f"{subject}: {pluralize(surplus, 'line')} of its questions and names are left out. "
            f"{MOST_QUESTIONS} questions of {LONGEST_QUESTION} characters and {MOST_NAMES} names "
            "stand beside a text at most."
        )
    return Passage(name, text, Checked(normalise(metadata, subject)), passage.sketch)
