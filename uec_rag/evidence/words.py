"""Which words of a question its hits have: one table, from which all evidence of words is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import regex

from uec_rag.base.counts import idf
from uec_rag.base.records import cached_property, remembered
from uec_rag.base.text import (
    FUNCTION_WORDS,
    QUESTION_KEYS,
    SOURCE_KEYS,
    WORD,
    first_difference,
    first_value,
    path_parts,
    questions_in,
    split_words,
    stems,
    telling_words,
)
from uec_rag.confidence.model import JUDGED, READ
from uec_rag.encoders import lexical
from uec_rag.encoders.notations import in_one_form
from uec_rag.evidence.family import Family, family_of, is_in_title_case, namesakes_of, tokens_of
from uec_rag.evidence.marks import Marks, marks_of
from uec_rag.questions.frames import asking_clause
from uec_rag.questions.languages import ENGLISH, case, function_words, matcher, words_alike
from uec_rag.questions.phrasing import Phrasing
from uec_rag.stores.passage import Passage

Rarity: TypeAlias = Callable[[str], float]

# A digit, an underscore, an inner capital, an option.
_MARKED = regex.compile(r"\p{N}|_|\p{Ll}\p{Lu}|^-")
_ABBREVIATED = regex.compile(r"(?<![\w.])(\p{L}{1,6})\. ?(\d++(?:\.\d++)*+)")
_DOTTED = regex.compile(r"(?<!\w)\w++(?:\.\w++)++")  # "setup.cfg"
_TITLES = ("Dr.", "Mr.", "Mrs.", "Ms.", "Prof.", "St.")  # before names
_NEAR = 0.3  # of a question's content, which questions beside a passage are enough for
# The halves of a contraction, and what an apostrophe joins to a name, which are no words.
_CONTRACTED = regex.compile(r"\b\p{L}+n['’]t\b|(?<=\p{L})['’](?:s|d|ll|m|re|ve)\b", regex.I)
_ENDS, _MARKS = tuple(".!?:"), "\"“”«»'`(["


@dataclass(frozen=True, eq=False)
class QuestionWords:
    """The words of a question, and which of its different hits have them.

    Attributes
    ----------
    phrasing : Phrasing
    hits : sequence of m Passage
        Different passages, best first.
    tables : sequence of m mappings of str to float
        The words that each hit has in its text, with the similarity that each adds.
    idf : mapping of str to float
        The inverse document frequency of each word, those that no passage has included.
    size : int
        The number of passages by which words are rare.
    are_counted : bool
        Whether an encoder counts words; without one, they are evidence of readings alone.
    are_all : bool
        Whether they are counted among all passages, or those of a tenant, and not candidates alone.
    family : Family or None
        The hits like the first one, if the question does not say which of these it means.
    tables_beside : sequence of m mappings of str to float
        The words that each hit has in the questions and names beside its text, as in `tables`;
        empty if none has such.
    """

    phrasing: Phrasing
    hits: Sequence[Passage]
    tables: Sequence[Mapping[str, float]]
    idf: Mapping[str, float]
    size: int
    are_counted: bool = True
    are_all: bool = True
    family: Family | None = None
    tables_beside: Sequence[Mapping[str, float]] = ()

    @classmethod
    def match(cls, phrasing: Phrasing, hits: Sequence[Passage], size: int) -> QuestionWords:
        """Find the words of a question in hits, which are taken for all passages that have any."""
        labels = lexical.words_by_key(lexical.written_words(phrasing.lines))
        bags = [{*lexical.keys_of(hit.with_source).tolist()} for hit in hits[:READ]]
        tables = [{labels[key]: 0.0 for key in labels.keys() & bag} for bag in bags]
        shares = [
            {} if hit.metadata.keys().isdisjoint(QUESTION_KEYS) else shares_beside(hit, labels)
            for hit in hits[:READ]
        ]
        tables_beside = [{labels[key]: 0.0 for key in of_hit} for of_hit in shares if any(shares)]
        counts = {word: sum(word in bag for bag in tables) for word in labels.values()}
        rarity = idf(np.array([*counts.values()], dtype=np.int64), max(size, len(bags)))
        rarities = dict(zip(counts, rarity.tolist(), strict=True))
        return cls(phrasing, hits, tables, rarities, size, False, tables_beside=tables_beside)

    def in_order(self, places: Sequence[int]) -> QuestionWords:
        """Return the words with the first hits in another order, by their places before."""
        hits, tables, beside = (
            [*map(items.__getitem__, places), *items[len(places) :]]
            for items in (self.hits, self.tables, self.tables_beside)
        )
        texts, family = [hit.text for hit in hits[:READ]], self.family
        if self.are_counted:
            family = family_of(self.phrasing.text, texts, self.phrasing.language)
        return replace(self, hits=hits, tables=tables, tables_beside=beside, family=family)

    @cached_property
    def content(self) -> dict[str, float]:
        """The content words of the question with their idf; without those of its turns."""
        neutral, phrasing = function_words(self.phrasing.language), self.phrasing
        neutral = (neutral | contractions(phrasing.lines)) - {w.casefold() for w in self.capitals}
        words = telling_words(self.idf, neutral)
        text = in_one_form(phrasing.text) if phrasing.turns else ""
        return {w: self.idf[w] for w in words if not phrasing.turns or w in text}

    @cached_property
    def clause(self) -> str:
        """The clauses of the question that ask, see `asking_clause`."""
        return asking_clause(self.phrasing.text, self.phrasing.language)

    @cached_property
    def capitals(self) -> frozenset[str]:
        """The small words of the question that its capitals make names: "in May", "hepatitis A"."""
        small, before = function_words(self.phrasing.language), ""
        for word in WORD.findall(self.clause):
            # Of "Where can I lead it?", "I" is none.
            is_name = bool(before) and word[0].isupper() and word.casefold() in small
            if is_name and (word != "I" or before.casefold() not in small):
                return capitals_in(self.clause, self.phrasing.language)
            before = word
        return frozenset()

    @cached_property
    def names(self) -> set[str]:
        """The content words that are names, numbers and identifiers."""
        is_english = self.phrasing.language == ENGLISH
        names = names_in(in_one_form(self.clause), self.content, english=is_english)
        return names | (self.capitals & self.content.keys())

    @cached_property
    def bags(self) -> list[tuple[set[str], set[str]]]:
        """The words that each of the first hits has, and those that only a compound implies.

        "WiFi" also stands for "Wi" and "Fi", and these for it; a day for others of its date; "cost"
        for the word that a passage has of a price; a name for another style of it, see `Marks`.
        """
        bags, compounds = [], lexical.compounds(self.phrasing.text) if self.content else []
        alike = words_alike()
        akin = {word: alike[key] for word in self.content if (key := word.casefold()) in alike}
        missing = self.names | (self._numbered.keys() & self.content.keys())
        for hit, table, marks in zip(self.hits, self.tables[:JUDGED], self.marks, strict=False):
            bag, implied = {*table}, set[str]()
            # "you may" does not say what is in May; to read a text as tokens takes time.
            if self.capitals:
                text, language = hit.with_source, self.phrasing.language
                may_be_there = any(name in text for name in self.capitals)
                bag -= self.capitals - (capitals_in(text, language) if may_be_there else set())
            for word, forms in akin.items():
                if word not in bag and not forms.isdisjoint(split_words(hit.text.casefold())):
                    bag.add(word)
                    implied.add(word)
            otherwise = {word for word in missing - bag if self._writes(marks, word)}
            bag |= otherwise
            implied |= otherwise
            for word, parts in compounds:
                if word in bag or bag.issuperset(parts):
                    bag.update([word, *parts])
                    implied.update(parts)
            bags.append((bag, implied))
        return bags

    @cached_property
    def _numbered(self) -> dict[str, str]:
        """The abbreviations of what is numbered, with the number behind each: "Art. 6"."""
        return dict(_ABBREVIATED.findall(self.phrasing.text))

    def _writes(self, marks: Marks, word: str) -> bool:
        """Return whether a text has a name in another style, or what it is short for."""
        number = self._numbered.get(word, "")
        return marks.writes(word) or (bool(number) and marks.counts(word, number))

    @cached_property
    def marks(self) -> list[Marks]:
        """The marks of the texts of the first `READ` hits, which a long text is read for once."""
        return [marks_of(hit.text) for hit in self.hits[:READ]]

    @cached_property
    def marks_with_source(self) -> list[Marks]:
        """The marks of these hits with their titles and sources."""
        return [marks_of(hit.with_source) for hit in self.hits[:READ]]

    @property
    def share_in_hits(self) -> float:
        """The share of the content of the question, by rarity, that one of the first hits has.

        It is 1 of a question without any, such as "How long?".
        """
        rarity, total = self.content, sum(self.content.values())
        shares = (sum(rarity[word] for word in rarity if word in bag) for bag, _ in self.bags)
        return max(shares, default=0.0) / total if total else 1.0

    @property
    def missing(self) -> tuple[str, ...]:
        """The content words that no first hit has; only names, if there are any."""
        if not self.are_counted:
            return ()
        terms = self.names or self.content.keys()
        words = {word for bag, _ in self.bags for word in bag}
        return tuple(word for word in self.content if word in terms and word not in words)

    @cached_property
    def folder_names(self) -> set[str]:
        """The content words by which the question names a folder, where the paths first differ.

        In small letters, it has all of the folder's words: the web is not "Web clipper".
        """
        sources = {hit.about.source for hit in self.hits[:READ]}
        _, folders = first_difference(path_parts(source)[:-1] for source in sources)
        content, names = ({*map(str.casefold, words)} for words in (self.content, self.names))
        terms = set[str]()
        for words in map(_folder_words, {*folders}):
            terms |= words if words <= content else words & names
        return {word for word in self.content if word.casefold() in terms}

    def share_without(self, word: str) -> float:
        """Return the share of all passages that lack a content word."""
        count = (self.size + 1) * np.exp(-self.content[word]) - 0.5
        return float(1 - min(max(count / self.size, 0.0), 1.0))

    @property
    def namesakes(self) -> list[int]:
        """The places of the first hits about several things of one name, as `namesakes_of`.

        They have the same words of the question: all, or its names at least, since any other may be
        a form of what tells them apart ("Katze", "Katzen"). Their one title has none of these.
        """
        if self.family is not None or not self.content:
            return []
        terms, language = self.names or self.content.keys(), self.phrasing.language
        # "May" and "Will" tell hits apart, too.
        names = names_in(in_one_form(self.phrasing.text), self.idf, english=language == ENGLISH)
        telling = self.content.keys() | names
        bags = [bag & telling for bag, _ in self.bags]
        if not terms <= bags[0]:
            return []
        places = [at for at, words in enumerate(bags) if words == bags[0]]
        if len(places) == 1:
            return []
        titles = [self.hits[at].about.title.casefold() for at in places]
        if len({*titles}) > 1 or any(word.casefold() in titles[0] for word in terms):
            return []  # they tell what else the hits are about
        alike = namesakes_of([self.hits[at].text for at in places], language)
        return [places[at] for at in alike]

    @property
    def leaves_order(self) -> bool:
        """True if it is asked what comes before or after what the first hit has, without saying it.

        A step does not say which one follows: that is a hit behind it.
        """
        language, question = self.phrasing.language, self.phrasing.text
        if not case("follows", language).search(question):
            return False
        return not matcher("order", language, "cases").search(self.hits[0].text)

    @property
    def asks_for_several(self) -> bool:
        """True if it asks for all that have something: "Which halls have a stage?"."""
        return case("several", self.phrasing.language).match(self.phrasing.text) is not None

    @cached_property
    def lacks_goal(self) -> bool:
        """True if the first hit has not what a follow-up goes on to."""
        return self._lacks_goal(self.hits[0])

    @property
    def tells_goal(self) -> bool:
        """True if the first hit has what a follow-up goes on to, and the second has not."""
        if self.phrasing.goal is None or self.lacks_goal:
            return False
        return len(self.hits) > 1 and self._lacks_goal(self.hits[1])

    @property
    def tells_name(self) -> bool:
        """True if only the first hit has a name of the question, or only one has its number."""
        language, bags = self.phrasing.language, [bag for bag, _ in self.bags]
        if len(bags) > 1 and not (self.names & bags[0]).isdisjoint(bags[0].difference(*bags[1:])):
            return True
        texts = [marks_of(self.phrasing.text), *self.marks[: len(bags)]]
        numbers, *hits = (
            {token.number for token in text.tokens_in(language) if token.number} for text in texts
        )
        return len(hits) > 1 and any(sum(number in hit for hit in hits) == 1 for number in numbers)

    def _lacks_goal(self, hit: Passage) -> bool:
        """Return whether a hit has not what a follow-up goes on to.

        It has not if its title or source has words that this takes the place of, and none of this;
        nor if it has the number that this is, but not of the same thing: "3 pm", not "ward 3". Of
        "there", it has to have the place.
        """
        if (goal := self.phrasing.goal) is None:
            return False
        language = self.phrasing.language
        before, after = stems(goal.before), stems(goal.after)
        target = {*goal.place.split()} or (after - before) or after
        about = stems(f"{hit.about.subject} {first_value(hit.metadata, SOURCE_KEYS)}")
        is_about_before = bool(about & (before - after)) and not about & target
        if is_about_before or stems(hit.with_source).isdisjoint(target):
            return True
        words, small = split_words(goal.after.casefold()), function_words(language)
        quantities = {
            (noun, number)
            for noun, number in pairwise(words)
            if number.isdigit() and number in target - {noun} and noun not in small
        }
        pairs = pairwise(split_words(hit.with_source.casefold()))
        return target == {number for _, number in quantities} and quantities.isdisjoint(pairs)

    @property
    def of_first(self) -> float:
        """The share of its content words that the first hit has; 1 if it has no content words."""
        words = self.content.keys() & self.bags[0][0] if self.content else ()
        return len(words) / len(self.content) if self.content else 1.0

    @property
    def own_shares(self) -> list[float]:
        """The share of each hit's similarity by words that those in its text have, up to `READ`.

        It is empty if no hit has questions and names beside its text.
        """
        pairs = zip(self.tables[:READ], self.tables_beside, strict=False)
        sums = ((sum(inside.values()), sum(outside.values())) for inside, outside in pairs)
        return [part / (part + extra) if extra else 1.0 for part, extra in sums]

    @property
    def near_by_questions(self) -> bool:
        """True if the questions and names beside one of the first hits make it near a question.

        With them, it has `_NEAR` of the question's content, by rarity.
        """
        rarity, pairs = self.content, zip(self.tables[:JUDGED], self.tables_beside, strict=False)
        union = [{**inside, **outside} for inside, outside in pairs if outside]
        shares = [sum(rarity[word] for word in rarity if word in words) for words in union]
        return bool(rarity) and max(shares, default=0.0) >= _NEAR * sum(rarity.values())

    def share_of(self, half: QuestionWords) -> list[float]:
        """Return the share of the content of half of the question that each first hit has."""
        neutral = function_words(self.phrasing.language)
        terms = telling_words(half.idf, neutral)
        total = max(sum(self.idf.get(word, 0.0) for word in terms), 1e-9)
        tables = self.tables[:JUDGED]
        return [sum(self.idf.get(w, 0.0) for w in terms if w in table) / total for table in tables]


def shares_beside(hit: Passage, terms: Collection[int]) -> dict[int, float]:
    """Return which of some terms stand in the questions beside a text, and how much of each.

    It is a share of the places where the passage has the term. Terms are told by their keys.
    """
    outside = _counts("\n".join(questions_in(hit.metadata)))
    if not (shared := outside.keys() & terms):
        return {}
    inside = _counts(hit.with_source)
    return {key: outside[key] / (outside[key] + inside[key]) for key in shared}


@remembered(50_000)
def _counts(text: str) -> Counter[int]:
    return Counter(lexical.keys_of(text).tolist())


def contractions(text: str) -> set[str]:
    """Return the parts of contractions in a text, in lower case, that are not there as words.

    Examples
    --------
    >>> sorted(contractions("Doesn't Anna's vitamin D help?")), contractions("Vitamin D's use of D")
    (['doesn', 's', 't'], {'s'})
    """
    if "'" not in text and "’" not in text:
        return set()
    folded = text.casefold()
    parts = {part for pair in _CONTRACTED.findall(folded) for part in WORD.findall(pair)}
    return parts.difference(WORD.findall(_CONTRACTED.sub(" ", folded)))


@remembered(20_000)
def _folder_words(name: str) -> frozenset[str]:
    return frozenset(lexical.written_words(name.replace("_", " ").casefold()))


@remembered(100_000)
def capitals_in(text: str, language: str) -> frozenset[str]:
    """Return the function words that are names in a text, by their capitals.

    Examples
    --------
    >>> sorted(capitals_in("May I go to The Hague in May?", "en"))
    ['May', 'The']
    """
    small = function_words(language)
    tokens = (token for token in tokens_of(text, language) if token.says)
    return frozenset(token.text for token in tokens if token.text.casefold() in small)


def names_in(question: str, words: Collection[str], *, english: bool = True) -> set[str]:
    """Choose the words of a question that are names, numbers and identifiers.

    Only in English are capitalised words names, but not in a text that is like a title: all its
    content words are capitalised, the first word among them.

    Examples
    --------
    >>> sorted(names_in("When did Apollo 11 use parse_args?", ["When", "Apollo", "11", "use"]))
    ['11', 'Apollo']
    >>> names_in("What if I'm ill?", ["What", "if", "I", "m", "ill"])
    set()
    """
    dotted = {part for name in _DOTTED.findall(question) for part in name.split(".")}
    names = {word for word in words if word in dotted or _MARKED.search(word)}
    if not english:
        return names
    if is_in_title_case(question):
        return names
    content = [w for w in telling_words(words, FUNCTION_WORDS) if w[:1].isalpha()]
    capital = set[str]()
    for before, word in pairwise(question.split()):
        if before[-1] not in _ENDS or before in _TITLES:
            capital |= {part for part in WORD.findall(word.lstrip(_MARKS)) if part[0].isupper()}
    is_title = question.split(None, 1)[0] in content and all(w[0].isupper() for w in content)
    return names if is_title else names | {w for w in capital.intersection(words) if len(w) > 1}
