"""Analysis of the wording of a question: names, anaphoric references, and whether it is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import accumulate
from typing import ParamSpec, TypeVar, cast

import regex

_P = ParamSpec("_P")
_T = TypeVar("_T")

LONGEST_ASKED = 4096
"""The number of characters up to which a text is looked at as something that a user says."""


def unless_long(otherwise: object) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Let a function of texts return `otherwise`, without work, if one has over `LONGEST_ASKED`."""

    def limit(function: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(function)
        def limited(*texts: _P.args, **named: _P.kwargs) -> _T:
            for text in (*texts, *named.values()):
                if isinstance(text, str) and len(text) > LONGEST_ASKED:
                    return cast("_T", otherwise)
            return function(*texts, **named)

        return limited

    return limit


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


WORD = regex.compile(r"[\p{L}\p{M}\p{N}_]+")
_WORD_OR_CLITIC = regex.compile(r"[\p{L}\p{M}\p{N}_'’]+")
_PRONOUNS = _words("it he she him they them its his their theirs")
_DEMONSTRATIVES = _words("this these those")
_VERB = r"(?:am|are|can|could|did|do|does|had|has|have|how|is|should|was|were|wh\w+|will|would)\b"
_MAIN_VERB = r"(?:can|could|did|do|does|how|should|wh\w+|will|would)\b"
_BEFORE_IT = _words("about for of on with")
# Words that may put a referent into another clause than the "it" at the end of a question.
_CLAUSES = _words(
    """after and because before but had has have if or since so than that then until when which
    while with without"""
)
_BEFORE_THAT = _words("of for in on to with is was does did do about from at by")
_BEFORE_ONE = _words("a the that this which new other another")
_COMPLEMENTS = _words("of that which who whose whom where between")
_TIMES = _words("year years day days century time morning week month")
# Words that follow "the" in a description without need of a referent: the first, the sun.
_UNIQUE = _words(
    """first second third fourth last next previous present past future only same most least best
    worst main other following latest difference differences number amount name term word meaning
    average total minimum maximum current world sun moon earth internet us usa uk"""
)
FUNCTION_WORDS = _words(
    """a an and are as at be been being but by can could did do does for from get got had has have
    he her his how i if in into is it its of on or our she should that the their them there these
    they this those to was we were what when where which who whose why will with would you your not
    must may might shall
    my me us about any some much many so than then please tell explain happens happen use used mean
    means during between after before over under also just"""
)
# With function words, these do not say what they are about: "How often?", "Show me more."
_SAYING_LITTLE = _words(
    """again another anything big details else elaborate example examples far give like long more
    often otherwise really several show since still such sure until way"""
)
# At the end of a question, these stand for something: "Do I need one?", "Can I add more?"
_QUANTIFIERS = _words("another any both many more none ones several some")
_BEFORE_THE_VERB_OF_ONE = _words("i we you they to not")
_PARTICLES = _words("again back down in instead later manually now off on out then too up")
_FURTHER = _words("either instead otherwise then though too")
_WHICH_IS = regex.compile(
    r"\W*which (?:is|are) (?:the )?[\w-]+\W*|\W*what(?:['’]?s| is| are) the differences?\W*",
    regex.IGNORECASE,
)
# Function words that say something if a question has no others: "When not to use it?".
_TELLING = _words("use used mean means happen happens before after during between over under")
_CONDITION = (
    r"(?:after|as|at|before|behind|by|during|for|from|if|in|into|of|on|outside|over|inside|through|to"
    r"|under|until|using|via|when|while|with|within|without)\b"
)
# "And on Windows?" only adds a condition, while "And tar?" names another subject.
_ADDS = regex.compile(
    rf"\W*(?:(?:and|but|or)\W+(?:(?:what|how)\s+about\W+)?|(?:what|how)\s+about\W+){_CONDITION}"
    r"|\W*(?:(?:and|but|or)\W+)?what\s+if\b",
    regex.IGNORECASE,
)
# "on Windows?" and "I'm on Windows" may, but "on demand" may also be searched for.
_MAY_ADD = regex.compile(
    rf"\W*(?:(?:(?:i|we)(?:['’](?:m|re)|\s+(?:am|are))\s+)?(?!(?:as|if|to|when|while)\b){_CONDITION}"
    rf"|(?:i|we)\s+(?:run|use))(?:\s+(?!{_VERB})[\w'’-]+){{1,3}}(?:,?\s+please)?\W*\Z"
    rf"|\W*if\s+(?:i|it|there|they|we|you)\b(?:\s+(?!{_MAIN_VERB})[\w'’-]+){{1,4}}\W*\Z",
    regex.IGNORECASE,
)
_GOES_ON = regex.compile(r"\W*(?:and|but|or|(?:what|how) about)\b", regex.IGNORECASE)
_DUMMY_IT = regex.compile(
    r"\bit\s+(?:takes?|took|possible|safe|legal|true|necessary|ok|okay|better|worth|normal|important"
    r"|illegal|means?|rains?|snows?|matters?)\b",
    regex.IGNORECASE,
)
# A digit, an underscore, an inner capital or dot, a call, a quotation mark, a command-line option.
_MARKED = regex.compile(r"\p{N}|_|\p{Ll}\p{Lu}|\w\.\w|\(\)|[\"“”«»`]|^-{1,2}\w")
_CAPITAL = regex.compile(r"\p{Lu}")
_CLITIC = regex.compile(r"['’]\p{L}{1,2}$")
_STOP = regex.compile(r"[.,;:!?\n]")
_ENDS = tuple(".!?:")  # of a sentence
_MOST_WORDS = 4
_REFERENTS = 2  # words before a pronoun that are likely to name its referent
_ASKS = regex.compile("[?？؟]")
_OPENINGS = _words(
    """how what when where who which why whose can could do does did is are was were will would
    should tell show explain give list describe find compare"""
)
_PLEASANTRIES = _words(
    """thanks thank thx cheers ok okay alright great nice awesome good wow hi hello hey bye goodbye
    sorry yes yeah yep no nope sure 谢谢 谢谢你 你好 好的 再见"""
)
# Alone, these are words to search for.
_BESIDE_THEM = _words(
    """you it that this is was very so much a lot all got helps helped for to and i there cool fine
    perfect super welcome problem morning afternoon evening night day"""
)
_DISMISSAL = regex.compile(
    r"(?:(?:oh|ok|okay|no|well)[ ,]+)*(?:never ?mind|forget (?:it|that|about it)"
    r"|i(?:['’]ve| have)? changed my mind|that(?:['’]s| is) (?:all|it|wrong|not right)"
    r"|cancel (?:that|it|this)|you(?:['’]re| are) (?:wrong|mistaken)"
    r"|(?:that|this|it) (?:did|does)(?:n['’]t| not) help"
    r"|(?:that|this)(?: is|['’]s| was| isn['’]t| wasn['’]t)(?: not)? what i (?:asked|meant|wanted)"
    r"|i(?:['’]ve| have)(?: got)? (?:a|another|one more) question|can you help me)\W*",
    regex.IGNORECASE,
)
_DEFINITION = regex.compile(
    r"\W*+(?:(?:what|who)(?:['’]?s| is| are)|what (?:does|do)|why (?:(?:should|do|would) i )?use"
    r"|define|explain|describe|tell me (?:more )?about) (?:an? |the )?(?P<term>[^?.!,;:]{1,80}?)"
    r"(?: do| mean| (?:used )?for| about)?\W*",
    regex.IGNORECASE,
)
_CONCEPT = regex.compile(
    r"\W*+what(?:['’]?s| is| are) (?P<article>an? )?(?P<term>[^?.!,;:]{1,60})[?.! ]*",
    regex.IGNORECASE,
)
_NO_CONCEPTS = _words("default example like else")
# Alone, these are properties of something that is not named ("What is missing?").
_PROPERTIES = _words(
    """available best broken cheap due free going happening here left mandatory missing necessary
    new open optional options possible requirements safe steps up valid wrong"""
)
_CAPITALISED = regex.compile(r"\p{Lu}\P{Lu}")
_HOW_ARE_YOU = regex.compile(r"\s*(?:who|what|how) are you\W*", regex.IGNORECASE)
# Pronouns and demonstratives, but not "so" or "then", which begin with the same characters.
_CHINESE_PRONOUN = regex.compile("[它他她]|这(?![么样])|那[个些里儿边]")


def is_question(text: str) -> bool:
    """Return whether a text has a question mark or begins like an English question or request.

    Examples
    --------
    >>> is_question("how much is it"), is_question("多少钱？"), is_question("The second year.")
    (True, True, False)
    """
    words = text.split(maxsplit=1)
    return bool(_ASKS.search(text)) or (bool(words) and words[0].lower() in _OPENINGS)


@unless_long(False)
def is_small_talk(text: str) -> bool:
    """Return whether a text only thanks, greets, agrees, dismisses or the like.

    Only English and a few words of Chinese are supported.

    Examples
    --------
    >>> is_small_talk("Thank you, that's great."), is_small_talk("Who are you?")
    (True, True)
    >>> is_small_talk("OK, and why?"), is_small_talk("Thanks, and the price")
    (False, False)
    """
    if _HOW_ARE_YOU.fullmatch(text) or _DISMISSAL.fullmatch(text.strip()):
        return True
    words = {_CLITIC.sub("", word) for word in _lowered(text)}
    polite = not words.isdisjoint(_PLEASANTRIES) and words <= _PLEASANTRIES | _BESIDE_THEM
    return polite and not _ASKS.search(text)


@unless_long(False)
def asks_for_definition(question: str) -> bool:
    """Return whether an English question asks what something is or does, and nothing else.

    Examples
    --------
    >>> asks_for_definition("What is Debian?"), asks_for_definition("Tell me about conffiles.")
    (True, True)
    >>> asks_for_definition("What is the limit of a day?"), asks_for_definition("Why use it twice?")
    (False, False)
    """
    asked = _DEFINITION.fullmatch(question)
    return asked is not None and FUNCTION_WORDS.isdisjoint(_lowered(asked["term"]))


@unless_long(False)
def asks_for_concept(question: str) -> bool:
    """Return whether an English question asks what a concept is, for which any definition will do.

    It does if it asks what something is, with an indefinite article or none. Capitalised names and
    identifiers are not concepts: several things may have them.

    Examples
    --------
    >>> asks_for_concept("What is a gauge?"), asks_for_concept("what are virtual packages")
    (True, True)
    >>> asks_for_concept("What is the mode?"), asks_for_concept("What is a Future?")
    (False, False)
    >>> asks_for_concept("what is resize()?"), asks_for_concept("What is included?")
    (False, False)
    """
    asked = _CONCEPT.fullmatch(question)
    term = asked["term"] if asked is not None else ""
    words = [word.strip("'\"") for word in term.split()]
    if not 1 <= len(words) <= _MOST_WORDS or any(map(_CAPITALISED.match, words)):
        return False
    alone = words[0].lower() if len(words) == 1 else ""
    if (
        asked is not None
        and not asked["article"]
        and (alone.endswith("ed") or alone in _PROPERTIES)
    ):
        return False
    known = FUNCTION_WORDS | _UNIQUE | _BEFORE_ONE | _NO_CONCEPTS
    return known.isdisjoint(_lowered(term)) and not any(map(_MARKED.search, words))


@unless_long(False)
def lacks_referent(question: str) -> bool:
    """Return whether an English question refers to something that it does not name.

    It does if it has a pronoun, a demonstrative or a definite description without a complement, and
    no name, number, identifier or quotation. In other languages, the result is almost always False.

    Examples
    --------
    >>> lacks_referent("How do I repay the loan?"), lacks_referent("Who wrote the Odyssey?")
    (True, False)
    >>> lacks_referent("Where was it built?"), lacks_referent("What is the capital of a country?")
    (True, False)
    """
    words = _lowered(question)
    return not _names_something(question) and (
        _has_pronoun(words) or any(_is_description(words, place) for place in range(len(words)))
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


@unless_long(frozenset[str]())
def named_words(question: str) -> frozenset[str]:
    """Find the words of names, numbers, identifiers and quotations in an English question.

    The words are casefolded, with and without the marks of an option or an identifier; function
    words are left out. A capitalised title has none.

    Examples
    --------
    >>> sorted(named_words("When did Apollo 11 land on the moon?"))
    ['11', 'apollo']
    >>> sorted(named_words("Risk to Reward Ratio")), sorted(named_words("What does --rss do?"))
    ([], ['--rss', 'rss'])
    """
    words = question.split()
    if words and words[0].casefold() not in FUNCTION_WORDS:
        inner = [word.strip("?.,!;:()'\"") for word in words[1:]]
        telling = [w for w in inner if w[:1].isalpha() and w.casefold() not in FUNCTION_WORDS]
        if telling and all(map(_CAPITAL.match, telling)):
            return frozenset()  # a capitalised title
    named: set[str] = set()
    quoted = False
    for place, word in enumerate(words):
        bare = word.strip("?.,!;:()'\"“”«»`")
        quoted = quoted or word[0] in '"“«`'
        begins = not place or words[place - 1].endswith(_ENDS)
        capital = bool(_CAPITAL.match(bare)) and not begins
        if quoted or capital or _MARKED.search(word):
            bare = _CLITIC.sub("", bare).casefold()
            named.update([bare, *WORD.findall(bare)])
        quoted = quoted and word.rstrip("?.,!;:")[-1:] not in '"”»`'
    return frozenset(named - FUNCTION_WORDS)


@unless_long(False)
def refers_back(question: str) -> bool:
    """Return whether a question refers to the turns before it: it `is_incomplete` or goes on.

    Examples
    --------
    >>> [refers_back(said) for said in ("And the bridge?", "What about the bridge?", "on Windows")]
    [True, True, True]
    >>> refers_back("Where was the bridge built?"), refers_back("Does it rain in London?")
    (False, False)
    """
    goes_on = _GOES_ON.match(question) or _MAY_ADD.match(question)
    *before, last = ["", *_lowered(question)]
    named = sum(map(_is_name, before)) >= _REFERENTS
    further = last in _FURTHER and not named  # "What happens then?"
    return goes_on is not None or further or is_incomplete(question)


@unless_long(False)
def is_incomplete(question: str) -> bool:
    """Return whether a question is incomplete without the turns before it.

    It has a pronoun or a demonstrative without its referent, is elliptical, or only adds a
    condition. Only English and Chinese are supported; in other languages, the result is almost
    always False.

    Examples
    --------
    >>> is_incomplete("Where was it built?"), is_incomplete("这个景点开放吗？")
    (True, True)
    >>> is_incomplete("Why not?"), is_incomplete("How long must it be?")
    (True, True)
    >>> is_incomplete("And on Windows?"), is_incomplete("And tar?"), is_incomplete("on Windows?")
    (True, False, False)
    """
    words = _lowered(question)
    return (
        bool(_CHINESE_PRONOUN.search(question))
        or bool(_ADDS.match(question))
        or bool(_WHICH_IS.fullmatch(question))
        or is_elliptical(question)
        or _ends_with_it(question, words)
        or _has_pronoun(words)
    )


@unless_long(False)
def is_elliptical(question: str) -> bool:
    """Return whether an English question has function words alone, and says nothing by itself.

    Examples
    --------
    >>> is_elliptical("Why not?"), is_elliptical("What does it do?"), is_elliptical("Since when?")
    (True, True, True)
    >>> is_elliptical("Why blue?"), is_elliptical("When not to use it?")
    (False, False)
    """
    words, empty = _lowered(question), FUNCTION_WORDS - _TELLING
    little = (empty | _SAYING_LITTLE).issuperset(words)
    return little and (len(words) > 1 or not empty.isdisjoint(words))


def _lowered(question: str) -> list[str]:
    return [word.lower() for word in _WORD_OR_CLITIC.findall(question)]


def _ends_with_it(question: str, words: Sequence[str]) -> bool:
    """Return whether a question of one clause ends like "logs for it", which names no "it"."""
    *before, previous, last = ["", "", *words]
    return (
        (last in ("him", "it", "them") and previous in _BEFORE_IT)
        and (previous, last) != ("of", "them")  # "all of them"
        and _CLAUSES.isdisjoint(before)
        and not any(
            word.endswith("ing") for word in before[:-1]
        )  # "without losing the files on it"
        and not _STOP.search(question.rstrip(" .!?"))
    )


def _has_pronoun(words: Sequence[str]) -> bool:
    """Return whether a question has a pronoun or a demonstrative without its referent."""
    names = accumulate(map(_is_name, words), initial=0)  # before each word
    return any(
        _is_pronoun(words, place, named=count >= _REFERENTS)
        for place, count in zip(range(len(words)), names, strict=False)
    )


def _is_pronoun(words: Sequence[str], place: int, *, named: bool) -> bool:
    """Return whether a word is a pronoun or a demonstrative, and its referent is not `named`."""
    word = words[place]
    previous = words[place - 1] if place else ""
    following = words[place + 1] if place + 1 < len(words) else ""
    if word in ("one", "ones") and not _BEFORE_ONE.isdisjoint(words[max(0, place - 2) : place]):
        return True
    if word in _QUANTIFIERS or word == "one":
        verb = word != "one" or not _BEFORE_THE_VERB_OF_ONE.isdisjoint(words[place - 2 : place - 1])
        return not following and bool(previous) and verb and not named
    if word in _PRONOUNS:
        return not _DUMMY_IT.match(f"{word} {following}") and not named
    if word in _DEMONSTRATIVES:
        return following not in _TIMES
    if word != "that" or following in _TIMES:
        return False
    at_end = _PARTICLES.issuperset(words[place + 1 :])  # "How do I turn that off?"
    return not previous or previous in _BEFORE_THAT or (at_end and not named)


def _is_name(word: str) -> bool:
    """Return whether a word may be part of what a later pronoun refers to."""
    return word not in FUNCTION_WORDS and word.isalpha()


def _is_description(words: Sequence[str], place: int) -> bool:
    """Return whether a word begins a definite description without a complement, as "the loan"."""
    following = words[place + 1] if place + 1 < len(words) else ""
    if words[place] != "the" or following in _UNIQUE or following.endswith("est"):
        return False
    end = place + 1
    while (
        end < len(words)
        and end - place <= _MOST_WORDS
        and words[end].isalpha()
        and words[end] not in FUNCTION_WORDS
    ):
        end += 1
    complement = end < len(words) and words[end] in _COMPLEMENTS
    return end > place + 1 and not complement
