"""The grammar of a question: its parts, whether it asks, names, or refers to earlier turns.

`parts_of`, `is_question`, `extract_concept`, `lacks_referent`, `refers_back` and
`complete_question` each answer one question about a text. They are for English, and off where a
text is in another of `languages`, but for question marks, follow-ups and some Chinese. `switched`
is for the languages with a table of follow-ups. Lists of words are in languages.toml.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import filterfalse, islice, starmap, takewhile
from typing import Literal, TypeAlias

import regex

from uec_rag.base.records import remembered
from uec_rag.base.text import FUNCTION_WORDS, SENTENCE_END, is_abbreviation, skip_long_texts
from uec_rag.questions.languages import (
    ENGLISH,
    WORD_OR_CLITIC,
    function_words,
    is_courtesy,
    language_of,
    languages,
    tables,
)

LONGEST_QUESTION = 200
"""The number of characters up to which a text is a question as a whole, and not a message."""

WORDS = {name: frozenset(text.split()) for name, text in tables()[ENGLISH]["wording"].items()}
# A digit, an underscore, an inner capital or dot, a call, a quotation mark, a command-line option.
_MARKED = regex.compile(r"\p{N}|_|\p{Ll}\p{Lu}|\w\.\w|\(\)|[\"“”«»`]|^-{1,2}\w")
_CAPITAL = regex.compile(r"\p{Lu}")
_ENDS = tuple(".!?:")  # of a sentence
_SAYS = regex.compile(r"[\p{L}\p{N}]")
_LONGEST_NAME = 4  # words
_FEWEST_WORDS = 2  # that say something, of a part that does not begin as a question
_FEWEST_CAPITALS = 3  # words in capitals, which say nothing of each
_ASKS = regex.compile("[?？؟]")
_CONCEPT = regex.compile(
    r"\W*+what(?:['’]?s| is| are) (?P<article>an? )?(?P<term>[^?.!,;:]{1,60})[?.! ]*",
    regex.IGNORECASE,
)
# Pronouns and demonstratives, but not "so" or "then", which begin with the same characters; "and
# the ...?"; and what corrects the turn before.
_CHINESE_PRONOUN = regex.compile(
    "[它他她]|这(?![么样])|那[个些里儿边]|呢[?？]?$|我[说指]的是|^不[是对]?[,，]"
)

_AUXILIARIES = "am are can could did do does has have is may must should was were will would"
_ADVERBS = frozenset(["how", "when", "where", "why"])  # of a question, which then has an auxiliary
# "What can and should I do?", "I'd like to know if and when": one question each.
_NO_ENDS = frozenset(_AUXILIARIES.split()) | _ADVERBS | WORDS["subordinators"]
_CLAUSE = frozenset(_AUXILIARIES.split()) | WORDS["of_clauses"]  # what keywords have not
# Of what joins two questions, how the latter begins, and how it refers to the other.
_PARTS = tables()[ENGLISH]["parts"]
_AND, _BEGINS_PART, _REFERS = (
    regex.compile(_PARTS[key].format(auxiliaries=_AUXILIARIES.replace(" ", "|")), regex.IGNORECASE)
    for key in ("and", "begins", "refers")
)
_COMPARED, _EITHER = (
    [[regex.compile(source, regex.IGNORECASE) for source in row] for row in _PARTS[key]]
    for key in ("compared", "either")
)


def _things(text: str, before: regex.Pattern[str], between: regex.Pattern[str]) -> tuple[str, ...]:
    """Return what stands on both sides of `between`, after `before`; () over several sentences.

    On the left, there may be several names, with commas.
    """
    if (begin := before.search(text)) is None:
        return ()
    things = between.split(text[begin.end() :].rstrip(" ?.!"), 1)
    if len(things) == 2 and all(map(_CAPITAL.match, names := things[0].split(", "))):
        things = [*(name.rstrip(",") for name in names), things[1]]
    plain = [thing.split() for thing in things if thing.strip() and not _SENTENCES.search(thing)]
    if len(plain) < 2 or len(plain) != len(things):
        return ()
    if len(plain) > 2:
        return tuple(" ".join(thing) for thing in plain)
    head, tail = plain
    has_article = begin.groupdict().get("article") is not None
    if has_article and len(head) == 1 < len(tail) and tail[0] != "the":
        head = [*head, tail[-1]]  # "the European and US approaches"
    return " ".join(head), " ".join(tail)


_SENTENCES = regex.compile("[?.!,]")


@skip_long_texts(())
@remembered(20_000)  # `possible_parts` asks again
def parts_of(question: str) -> tuple[str, ...]:
    """Return the two questions or more that an English one is; () if it is one.

    They are those that "and" or "or" joins, neither of which refers back, and what each thing is of
    those that are compared. Each has a word that says something.

    Examples
    --------
    >>> parts_of("How long do refunds take and who is the owner?")
    ('How long do refunds take?', 'who is the owner?')
    >>> parts_of("What is the difference between Amber and Birch?")
    ('What is Amber?', 'What is Birch?')
    >>> parts_of("Where is the park and what is it?"), parts_of("What are terms and conditions?")
    ((), ())
    """
    if not _may_be_english(question):
        return ()
    for head, tail in _joined(question):
        asks = _BEGINS_PART.match(head) or len(_content(head)) >= _FEWEST_WORDS  # "OK" does not
        begins = asks and _BEGINS_PART.match(tail) and not refers_back(head)
        if begins and not _refers_to_other(tail):
            return head, tail
    text = " ".join(question.split())
    things = next(filter(None, starmap(partial(_things, text), _COMPARED)), ())
    if not things and text.endswith("?"):
        pairs = (pair for form in _EITHER if (pair := _things(text, *form)))
        things = next((pair for pair in pairs if all(map(_CAPITAL.match, pair))), ())
    if not all(map(_content, things)) or any(map(refers_back, things)):
        return ()
    return tuple(f"{thing}?" if is_question(thing) else f"What is {thing}?" for thing in things)


def _content(text: str) -> list[str]:
    return [*filterfalse(FUNCTION_WORDS.__contains__, lower(text))]


def _joined(question: str) -> Iterator[tuple[str, str]]:
    """Yield what stands on both sides of each "and" of a question, if it is something."""
    text = question.strip()
    for joint in _AND.finditer(text):
        sides = text[: joint.start()], text[joint.end() :]
        if sides[0][-1:].isdecimal() and sides[1][:1].isdecimal():
            continue  # "between 5 and 7 kilometres"
        words = lower(sides[0])
        is_clause = words[:1] and (words[0] not in _ADVERBS or not WORDS["verbs"].isdisjoint(words))
        # "How many beds does the hut have and ..."
        ends = words[-1:] in (["do"], ["have"]) or _NO_ENDS.isdisjoint(words[-1:])
        if is_clause and all(map(_content, sides)) and ends:
            yield f"{sides[0].rstrip('?.! ')}?", f"{sides[1].rstrip('?.! ')}?"


@skip_long_texts(())
def possible_parts(question: str) -> tuple[str, ...]:
    """Return the two questions that one with an "and" may be; () without one, or if it has parts.

    Each has several words that say something, and is keywords unless it begins as a question: what
    has a verb of its own ("the backs be joined") is a clause of one. Whether they are two, only the
    documents tell.

    Examples
    --------
    >>> possible_parts("late fees for books and opening hours of the branch")
    ('late fees for books?', 'opening hours of the branch?')
    """
    if not _may_be_english(question) or SENTENCE_END.search(question) or parts_of(question):
        return ()
    for head, tail in _joined(question):
        if all(map(_may_ask, (head, tail))) and not refers_back(head) | _refers_to_other(tail):
            return head, tail
    return ()


def _refers_to_other(part: str) -> bool:
    """Return whether a part of a question refers to the other: "and find the words in it"."""
    return refers_back(part) or _REFERS.match(part) is not None


def _may_ask(side: str) -> bool:
    words = lower(side)
    asks = bool(words) and words[0] in WORDS["openings"]
    main = takewhile(lambda word: word not in WORDS["subordinators"], words)
    is_plain = asks or (_CLAUSE.isdisjoint(main) and words[:1] != ["it"])
    return is_plain and len(_content(side)) >= _FEWEST_WORDS


def without_noise(question: str) -> str:
    """Return a question without courtesies and signs behind its question mark, or capitals alone.

    Examples
    --------
    >>> without_noise("How long?? pls"), without_noise("Who? The owner")
    ('How long?', 'Who? The owner')
    >>> without_noise("HOW LONG IS IT?"), without_noise("NASA FAQ")
    ('how long is it?', 'NASA FAQ')
    """
    if question.isupper() and len(question.split()) >= _FEWEST_CAPITALS:
        question = question.lower()
    body, mark, behind = question.rpartition("?")
    is_noise = not _SAYS.search(behind) or is_courtesy(behind)
    return f"{body.rstrip(' ?!')}{mark}" if _SAYS.search(body) and is_noise else question


@skip_long_texts(False)
def is_question(text: str) -> bool:
    """Return whether a text has a question mark or begins like an English question or request.

    Examples
    --------
    >>> is_question("how much is it"), is_question("多少钱？"), is_question("The second year.")
    (True, True, False)
    """
    words = text.split(maxsplit=1)
    return bool(_ASKS.search(text)) or (bool(words) and words[0].lower() in WORDS["openings"])


@skip_long_texts("")
def extract_concept(question: str) -> str:
    """Return what an English question asks the meaning of, and nothing else; "" if it does not.

    Examples
    --------
    >>> extract_concept("What is a gauge?"), extract_concept("what are virtual packages")
    ('gauge', 'virtual packages')
    >>> extract_concept("What is the mode?"), extract_concept("What is included?")
    ('', '')
    """
    match = _CONCEPT.fullmatch(question)
    term = match["term"].strip() if match is not None else ""
    words = [word.strip("'\"") for word in term.split()]
    if match is None or not 1 <= len(words) <= _LONGEST_NAME:
        return ""
    alone = words[0].lower() if len(words) == 1 and not match["article"] else ""
    if alone.endswith("ed") or alone in WORDS["properties"] or any(map(_MARKED.search, words)):
        return ""
    no_concept = FUNCTION_WORDS | WORDS["unique"] | WORDS["before_one"]
    return term if no_concept.isdisjoint(lower(term)) else ""


@skip_long_texts(False)
def lacks_referent(question: str) -> bool:
    """Return whether an English question refers to something that it does not name.

    It does if it has a pronoun, a demonstrative or a definite description without a complement, and
    no name, number, identifier or quotation. Of a question in another language, it is not known.

    Examples
    --------
    >>> lacks_referent("How do I repay the loan?"), lacks_referent("Who wrote the Odyssey?")
    (True, False)
    >>> lacks_referent("Where was it built?"), lacks_referent("What is the capital of a country?")
    (True, False)
    """
    if not _may_be_english(question):
        return False
    words = lower(question)
    return not _names_something(question) and any(
        _is_pronoun(words, position) or _is_description(words, position)
        for position in range(len(words))
    )


def _names_something(question: str) -> bool:
    """Return whether a question has a name, a number, an identifier or a quotation."""
    words = question.split()
    if any(map(_MARKED.search, words)):
        return True
    inner = [word.strip("?.,!;:()'\"") for word in words[1:]]
    capitals = [
        bool(_CAPITAL.match(w))
        for w, previous in zip(inner, words, strict=False)
        if w[:1].isalpha() and w.split("'")[0] != "I" and not previous.endswith(_ENDS)
    ]
    # In a capitalised title, capitals do not mark names.
    return any(capitals) and not (len(capitals) > 1 and all(capitals))


@skip_long_texts(False)
def refers_back(question: str) -> bool:
    """Return whether a question refers to the turns before it, in English or Chinese.

    It does if it goes on or corrects ("And tar?", "No, I meant tar", "Und in Borg?"), has a pronoun
    or a demonstrative without its referent, or has function words alone ("Why not?").

    Examples
    --------
    >>> refers_back("And the bridge?"), refers_back("Where was it built?"), refers_back("Why not?")
    (True, True, True)
    >>> refers_back("这个景点开放吗？"), refers_back("Where was the bridge built?")
    (True, False)
    """
    return bool(_goes_on(question)) or _lacks_referent_or_content(question)


def complete_question(question: str) -> str:
    """Return the complete question that a text is, without a conjunction before it; "" if none.

    Behind a conjunction ("And how do I make a backup?"), it is complete if it begins as a question,
    has a verb, and has no pronoun without its referent. A text without a conjunction is complete
    unless it `refers_back`.

    Examples
    --------
    >>> complete_question("And how do I make a backup?"), complete_question("What is a tag?")
    ('how do I make a backup?', 'What is a tag?')
    >>> complete_question("And the bridge?"), complete_question("But when does it expire?")
    ('', '')
    """
    if not refers_back(question):
        return question
    conjunction = _goes_on(question)
    if conjunction is None:
        return ""
    clause = question[conjunction.end() :]
    words = lower(clause)
    begins = bool(words) and words[0] in WORDS["openings"] and not WORDS["verbs"].isdisjoint(words)
    return clause if begins and not _lacks_referent_or_content(clause) else ""


def stands_alone(question: str) -> bool:
    """Return whether a question is complete and has no word that may refer to what is before it.

    Examples
    --------
    >>> stands_alone("Who is the president?"), stands_alone("How do I get rid of her later?")
    (True, False)
    """
    words = frozenset(lower(question)) if _may_be_english(question) else frozenset[str]()
    refers = WORDS["pronouns"] | WORDS["demonstratives"] | WORDS["anaphora"]
    return (
        bool(complete_question(question))
        and words.isdisjoint(refers)
        and not _THERE.search(question)
    )


def without_conjunction(question: str) -> str:
    """Return a question without what begins it if it goes on: "Borg?" of "And Borg?"."""
    conjunction = _goes_on(question)
    return question[conjunction.end() :] if conjunction else question


_NAME = regex.compile(
    r"(?<=\w )\p{Lu}[\w'’-]++(?: (?:\p{Lu}[\w'’-]*+|\d[\w.]*+))*+"  # "I" is none
)
_THERE = regex.compile(  # of a place, not "is there", "there's", "hi there" or "there you go"
    r"(?<=\w )(?<!\b(?:am|are|be|been|can|could|did|do|does|from|had|has|have|hello|hey|hi|if|in|"
    r"is|may|might|morning|must|shall|should|that|was|were|will|would|\w{2,6}n['’]t) )\bthere\b"
    r"(?!['’]|-| (?:\w{1,9}n['’]t|a|an|any|are|be|been|can|could|ever|exists?|had|has|have|is|may|"
    r"might|must|no|not|remains?|seems?|should|to be|was|we|were|will|would|you)\b)",
    regex.IGNORECASE,
)
_NUMBER, _NAMES = regex.compile(r"\b\d+(?!.*\b\d)"), regex.compile(r"\p{Lu}|^\d")
_IS_NAME, _OF_NAME = regex.compile(r"\p{Lu}\S*"), regex.compile(r"\p{Lu}\S*(?= \p{Ll})")
# What is before the subject of a question, and the noun that "of" belongs to.
_SUBJECT = regex.compile(
    r".*?\b(?:(?P<do>do|does|did|can|could|may|might|must|shall|should|will|would)|is|are|was|were)"
    r" (?P<noun>(?!(?:i|you|we|they|it|one)\b)(?:[\w-]++ ){0,3}+)\Z",
    regex.IGNORECASE | regex.DOTALL,
)
_PARTICIPLE = regex.compile(r"(?:\w{2,}[^\We]ed|built|found|held|kept|made|sold)\Z")
_DIRECTIONS = {"from": "to", "to": "from", "von": "nach", "nach": "von"}
_Match: TypeAlias = regex.Match[str]
_Found: TypeAlias = Sequence[_Match]


@cache
def _follow_up(language: str, part: Literal["begins", "what", "phrases"]) -> regex.Pattern[str]:
    """Return a pattern of what begins a follow-up, of what it goes on to, or of phrases before.

    Each is compiled when it is used: most questions need the first alone.
    """
    if not (table := tables()[language].get("follow_up")):
        return regex.compile("(?!)")
    of = "|".join({word for row in table["prepositions"] for word in row.split()})
    the = "|".join(table["determiners"].split()) or "(?!)"
    stops = f"{of}|{the}|{'|'.join(map(regex.escape, function_words(language)))}"
    breaks = "|".join({of, "ones?", *_CLAUSE}) if language == ENGLISH else stops
    verb, run = table["before_object"].replace("{word}", r"[\p{L}-]+"), "(?&word)(?: (?&word))*+"
    patterns = {
        "begins": rf"\W*+(?:{table['begins']})\W*+",
        "what": rf"(?:(?P<of>{of}) )?(?P<the>(?:{the}) )?"
        rf"(?P<what>(?:(?!\b(?:{breaks})\b)[^?.!,;]){{1,60}}?)"
        rf"(?:\W+(?:{table['instead']})\b[^?.!;]*+)?\W*+\Z",
        "phrases": rf"(?(DEFINE)(?P<word>(?!(?:{stops})\b)[\p{{L}}\p{{N}}][\w'’.+#-]*+(?<!\.)))"
        rf"\b(?:(?:(?P<of>{of})|{verb}) (?P<the>(?:{the}) )?(?P<what>{run})"
        rf"|(?P<the>(?:{the}) )(?P<what>{run})|(?:{_AUXILIARIES.replace(' ', '|')}) "
        rf"(?P<what>(?&word))(?=(?: (?&word))?+(?: (?:{of})\b|\W*\Z)))",
    }
    return regex.compile(patterns[part], regex.IGNORECASE)


def _goes_on_to(question: str, language: str) -> _Match | None:
    """Return what a follow-up goes on to: a short phrase, and no question or courtesy."""
    begins = _follow_up(language, "begins").match(question)
    match = begins and _follow_up(language, "what").fullmatch(question, begins.end())
    if match is None or is_courtesy(phrase := match["what"], language):
        return None
    words = lower(phrase)
    is_phrase = 0 < len(words) <= _LONGEST_NAME and words[0] not in WORDS["openings"]
    return match if is_phrase and _content(phrase) else None


def _behind(match: _Match, phrases: _Found, names: _Found, rows: Sequence[str]) -> _Found:
    """Return what is behind the same preposition, or behind one that plays the same part."""
    of = match["of"].lower()
    akin = {word for row in rows if of in row.split() for word in row.split()}
    peers = [p for p in phrases if (p["of"] or "").lower() in akin]
    peers.sort(key=lambda p: (p["of"].lower() != of, _has_name(p) != _has_name(match)))
    is_product = _has_name(match) and of in rows[0].split()
    return peers[:1] or (names[:2] if is_product else [])


def _like(match: _Match, phrases: _Found, names: _Found) -> _Found:
    """Return phrases with the same last word, else names, or phrases in lower case.

    Behind an article, a phrase without capitals may be a name as well: "a ct", like "an MRI".
    """
    *modifiers, noun = lower(match["what"])
    twins = [p for p in phrases if modifiers and lower(p["what"])[-1] == noun]
    if twins or _has_name(match):
        bare = [p for p in phrases if not p["the"]]
        return twins or names[:2] or bare[:2] or phrases[:1]
    alike = [p for p in phrases if not _has_name(p)]
    alike = [p for p in alike if bool(p["the"]) == bool(match["the"])] or alike
    if not alike and match["the"]:
        word = match["the"].strip().lower()
        the = rf"\b(?P<the>{'an?' if word in ('a', 'an') else word} )"
        forms = [rf"{the}(?P<what>{regex.escape(name[0])})(?!\w)" for name in names]
        likes = (regex.search(form, names[0].string, regex.IGNORECASE) for form in forms)
        return [*filter(None, likes)][:1]
    return [*alike[:2], *([] if match["the"] else names[:1])]  # without "the", it may be a name


def _numbered(phrase: str, of: str, before: str) -> _Found:
    """Return what is called as a phrase is, but for its number: "line 6" for "line 4"."""
    noun, _, number = phrase.rpartition(" ")
    if not (noun and number[0].isdigit()):
        return []
    form = rf"\b{regex.escape(noun)} \d++(?:\.\d++)*+(?!\w)"
    if of in _DIRECTIONS:  # of "from line 4", after "to line 6"
        form = rf"(?<!\b{_DIRECTIONS[of]} ){form}"
    return [*regex.finditer(form, before, regex.IGNORECASE)][-1:]


def _has_name(phrase: _Match) -> bool:
    return _NAMES.search(phrase["what"]) is not None


@skip_long_texts(())
def switched(question: str, before: str) -> tuple[str, ...]:
    """Ask the question before about what a follow-up goes on to; () if it does not.

    What has a number takes the place of the same with another one. Else that takes the place of
    what is behind such a preposition, or is added; without a preposition, it takes the place of
    what it is like: of a phrase with the same last word, else of a name or of a phrase in lower
    case. The likeliest reading is the first. "There" is in the only name of the question before,
    which is no abbreviation, as few places are.

    Examples
    --------
    >>> switched("And in Borg?", "How do I make a backup in restic?")
    ('How do I make a backup in Borg?',)
    >>> switched("What about Borg?", "How do I upgrade Restic 2?"), switched("Why?", "Who pays?")
    (('How do I upgrade Borg?',), ())
    >>> switched("And on Debian?", "How do I upgrade Borg?")
    ('How do I upgrade Borg on Debian?',)
    """
    language = language_of(before) or language_of(question) or ENGLISH
    there = _THERE.search(question) if language == ENGLISH else None
    places = _NAME.findall(before) if there else []
    if there and len(places) == 1 and not places[0].isupper():
        return (f"{question[: there.start()]}in {places[0]}{question[there.end() :]}",)
    match = _goes_on_to(question, language)
    if match is None or _lacks_referent_or_content(phrase := match["what"]):
        return ()
    pattern = _NUMBER if phrase.isdigit() else _NAME
    forms = _follow_up(language, "phrases"), pattern
    phrases, names = ([*form.finditer(before)][::-1] for form in forms)
    targets = _numbered(phrase, (match["of"] or "").lower(), before)
    if not targets and match["of"]:
        rows = tables()[language]["follow_up"]["prepositions"]
        targets = _behind(match, phrases, names, rows)
        if not targets:
            end = len(before.rstrip(" ?.!"))
            return (f"{before[:end]} {question[match.start() : match.end('what')]}{before[end:]}",)
    elif not targets:
        is_same = f" {phrase} ".lower() in f" {' '.join(lower(before))} "
        targets = [] if is_same else _like(match, phrases, names)
    return tuple(dict.fromkeys(_put(match, target, before) for target in targets))


def _put(match: _Match, target: _Match, before: str) -> str:
    """Put what a follow-up goes on to in the place of a phrase or of a name."""
    has = target.groupdict()
    group = next((group for group in ("of", "the") if match[group] and has.get(group)), "what")
    start, end = target.start(group if has else 0), target.end() - len(_predicate(target, before))
    inner = _OF_NAME.match(before, target.start("what"), end) if has else None
    if inner and _IS_NAME.fullmatch(match["what"]):  # of "my Google account"
        group, start, end = "what", *inner.span()
    return f"{before[:start]}{match.string[match.start(group) : match.end('what')]}{before[end:]}"


def _predicate(target: _Match, before: str) -> str:
    """Return the last word of a phrase if it is no part of it but a predicate: " last".

    It is if the phrase is the subject and ends the question: "How long does the loan of a laptop
    last?", "Is the town hall open?".
    """
    subject = _SUBJECT.match(before, endpos=target.start())
    _, space, word = target[0].rpartition(" ")
    parts = target.groupdict()
    if (
        not subject
        or not parts.get("what")
        or " " not in parts["what"]
        or not _may_be_english(before)
    ):
        return ""
    between = subject["noun"].split()
    is_of = (parts["of"] or "").lower() == "of"
    if _SAYS.search(before, target.end()) or (between and not is_of):
        return ""
    is_verb = subject["do"] is not None or word in WORDS["properties"] or _PARTICIPLE.match(word)
    return f"{space}{word}" if is_verb else ""


def _lacks_referent_or_content(question: str) -> bool:
    """Return whether a question has no content, or a pronoun without its referent."""
    words = lower(question) if _may_be_english(question) else []
    return (
        bool(_CHINESE_PRONOUN.search(question))
        or (bool(words) and FUNCTION_WORDS.issuperset(words))
        or any(_is_pronoun(words, position) for position in range(len(words)))
    )


def _goes_on(question: str) -> regex.Match[str] | None:
    """Return what begins a question that goes on, in its language; None if nothing does."""
    code = language_of(question)
    for language in [code] if code else languages():
        begins = _follow_up(language, "begins").match(question)
        if begins and (language == ENGLISH or _goes_on_to(question, language)):
            return begins
    return None


def _may_be_english(text: str) -> bool:
    """Return whether a text is in English, or in no language that is recognised."""
    return language_of(text) in (ENGLISH, "")


def lower(question: str) -> list[str]:
    """Return the words in lower case, but for abbreviations such as "IT" among others."""
    words: list[str] = WORD_OR_CLITIC.findall(question)
    abbreviations = set[str]() if question.isupper() else {*filter(is_abbreviation, words)}
    return [word if word in abbreviations else word.lower() for word in words]


def _is_pronoun(words: Sequence[str], position: int) -> bool:
    """Return whether a word is a pronoun or a demonstrative whose referent is not named before."""
    word = words[position]
    previous = words[position - 1] if position else ""
    following = words[position + 1] if position + 1 < len(words) else ""
    if word in ("one", "ones"):
        return not WORDS["before_one"].isdisjoint(words[max(0, position - 2) : position])
    if word in WORDS["pronouns"]:
        return not _names_referent(words[:position])
    if word in WORDS["demonstratives"]:
        return following not in WORDS["times"]
    return (
        word == "that"
        and following not in WORDS["times"]
        and (not previous or previous in WORDS["before_that"])
    )


def _names_referent(before: Sequence[str]) -> bool:
    """Return whether the words before a pronoun are likely to contain its referent."""
    content = (word for word in islice(before, 64) if word not in FUNCTION_WORDS and word.isalpha())
    return len([*islice(content, 2)]) == 2


def _is_description(words: Sequence[str], position: int) -> bool:
    """Return whether a word begins a definite description without a complement, as "the loan"."""
    following = words[position + 1] if position + 1 < len(words) else ""
    if words[position] != "the" or following in WORDS["unique"] or following.endswith("est"):
        return False
    start = position + 1
    nouns = takewhile(
        lambda word: word.isalpha() and word not in FUNCTION_WORDS,
        words[start : start + _LONGEST_NAME],
    )
    end = start + len([*nouns])
    return end > start and WORDS["complements"].isdisjoint(words[end : end + 1])
