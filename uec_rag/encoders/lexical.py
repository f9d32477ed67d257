"""Words as a member of an ensemble: BM25, whose statistics are those of the corpus it searches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from uec_rag.base.checks import check_texts
from uec_rag.base.terms import Saturation, Terms
from uec_rag.encoders.base import Encoded, Role, WithoutVectors, check_role
from uec_rag.encoders.words import Tokenizer, WordTokenizer, key_of, weights_of

NAME = "bm25"

# Every script and rule of the tokenizer: a saved index whose words were split otherwise is refused.
_PROBE = (
    "Connections HTTPServer.parse_args v2 naïve Straßen Die Kündigung der Verträge ist nicht "
    "Ошибки соединения المدرسة الكبيرة λόγους हिन्दी 北京大学で ภาษาไทย"
)


class Lexical(WithoutVectors):
    """BM25 as an encoder without vectors: a text is its terms, see `uec_rag.encoders.words`.

    The similarity of a query and a passage is BM25's score over the most that a passage could get
    from the query, words that no passage has among them: from 0 to 1. How rare a word is and how
    long passages are is counted over the index as it is when it is asked. No word is left out as
    saying too little: those that are everywhere weigh next to nothing by themselves. A passage is
    read to its end, however long; one without a word is found by other members alone, which its
    metadata says under "uec_missing", and refused where there is no other.

    Parameters
    ----------
    k1, b : float
        Of BM25, see `Saturation`. The default is in the middle of what nine collections liked,
        between which and the best for each lay .006 nDCG@10 on average.
    tokenizer : callable(str) -> list of str, optional
        The terms of a text, each as often as it occurs. By default words in any language.
    language : str, optional
        Of words in Latin letters, a Snowball stemmer's name ("german"); needed for no language.

    Raises
    ------
    ValueError, TypeError
        If a number is out of its range, the language has no stemmer, the tokenizer cannot be
        called, or both it and a language are given.

    Examples
    --------
    >>> encoded = Lexical().encode(["Error in parse_args"], "query")
    >>> encoded.embedding.shape, sorted(encoded.terms.labels[0].values())
    ((1, 0), ['Error', 'arg', 'in', 'pars', 'parse_args'])
    """

    def __init__(
        self,
        k1: float = 1.5,
        b: float = 0.75,
        tokenizer: Tokenizer | None = None,
        language: str | None = None,
    ) -> None:
        self.saturation = Saturation(float(k1), float(b))
        if tokenizer is not None and not callable(tokenizer):
            raise TypeError(
                "tokenizer: expected a callable from a text to a list of strings, got "
                f"{type(tokenizer).__name__}."
            )
        if tokenizer is not None and language is not None:
            raise ValueError(
                f"language: {language!r} is for the tokenizer that comes with the package; leave "
                "it out beside one of your own."
            )
        self.name = NAME
        self._own = tokenizer
        self._words = WordTokenizer(language)

    @property
    def spec(self) -> str | None:
        """What `load_encoder` rebuilds it from; None with a tokenizer of one's own."""
        if self._own is not None:
            return None
        usual, mine = Saturation(), self.saturation
        options = [
            *([f"k1={mine.k1:g}"] if mine.k1 != usual.k1 else []),
            *([f"b={mine.b:g}"] if mine.b != usual.b else []),
            *([f"language={self._words.language}"] if self._words.language else []),
        ]
        return f"{NAME}:{','.join(options)}" if options else NAME

    @property
    def revision(self) -> str:
        """sha256 (hex) of the settings and of what becomes of a text in many scripts."""
        terms = self._words.terms(_PROBE) if self._own is None else _called(self._own, _PROBE)
        state = [self.saturation.k1, self.saturation.b, self._words.language, terms]
        return hashlib.sha256(json.dumps(state).encode()).hexdigest()

    def encode(self, texts: Sequence[str], role: Role, *, show_progress: bool = False) -> Encoded:
        """Count the terms of queries or passages; a text may have none.

        Raises
        ------
        TypeError, ValueError
            If texts or role are not what they must be, or a tokenizer of one's own does not return
            strings.
        """
        check_role(role)
        checked = check_texts(texts)
        if self._own is None:
            keys = [self._words(text) for text in checked]
            named = [self._words.named(text) for text in checked] if role == "query" else None
        else:
            split = [[(key_of(t), t) for t in _called(self._own, text)] for text in checked]
            keys = [np.array([key for key, _ in pairs], dtype=np.uint64) for pairs in split]
            named = [dict(pairs) for pairs in split] if role == "query" else None
        terms = Terms.of(keys, self.saturation, named)
        if role == "query":
            terms = terms.weighted(weights_of(terms.keys))
        nothing = np.zeros((len(checked), 0), dtype=np.float32)
        return Encoded(nothing, nothing, terms)


def _called(tokenizer: Tokenizer, text: str) -> list[str]:
    terms = list(tokenizer(text))
    wrong = next((term for term in terms if not isinstance(term, str)), None)
    if wrong is not None:
        raise TypeError(f"tokenizer: expected strings, got {wrong!r} for {text!r:.40}.")
    return terms


def restore_lexical(spec: str) -> Lexical:
    """Make what a `Lexical.spec` says.

    Raises
    ------
    ValueError
        If it is no such spec.

    Examples
    --------
    >>> restore_lexical("bm25:b=0.5,language=german").spec
    'bm25:b=0.5,language=german'
    """
    options: dict[str, str] = {}
    usual = Saturation()
    for option in filter(None, spec.removeprefix(NAME).removeprefix(":").split(",")):
        name, _, value = option.partition("=")
        if name not in ("k1", "b", "language") or not value:
            raise ValueError(
                f"encoder {spec!r}: expected 'bm25' or 'bm25:' with some of k1=, b=, language=, "
                f"separated by commas; got {option!r}."
            )
        options[name] = value
    try:
        k1, b = float(options.get("k1", usual.k1)), float(options.get("b", usual.b))
    except ValueError:
        raise ValueError(f"encoder {spec!r}: expected numbers for k1 and b.") from None
    return Lexical(k1, b, language=options.get("language"))
