"""The stamp of an index: what its confidence depends on, by which a gate notices another one."""

from __future__ import annotations

from dataclasses import dataclass, field

from uec_rag.base.records import Record
from uec_rag.encoders.base import are_of_one_model

OTHER_SETTINGS = (
    "The gate was made with another calibration or filter, or another version: its guarantee does "
    "not apply to this search. Make it again from its labels."
)
"""The note on a gate for a search with other settings."""

_OTHER_CORPUS = (
    "the gate was made for other passages, another calibration or other settings than the index "
    "has now, so its guarantee does not hold; recalibrate it with 'uec-rag gate'"
)
_OTHER_TEXTS = (
    "{} of the {} compared passages that the gate was made with are gone or have other texts, so "
    "its guarantee does not hold; make the gate again from its labels"
)
_OTHER_MODEL = (
    "the gate was made with another embedding model than the index has now, or the store has "
    "vectors of another one, so its guarantee does not hold; make the gate again from its labels"
)


@dataclass(frozen=True)
class Stamp(Record):
    """The settings, passages and models that confidence depends on; an empty field is unknown.

    Attributes
    ----------
    basis : str
        Fingerprint of the settings (`uec_rag.retrieval.search.method_of`).
    corpus : str
        Fingerprint of the passages.
    probes : tuple of tuple of float
        The vectors of a few texts by each model of the index, and by that of the store below it.
    passages : tuple of (str, str)
        The ids of up to 32 passages, and hashes of their texts; none if a store cannot look up ids.
    """

    basis: str = ""
    corpus: str = ""
    probes: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    passages: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def differs(self, now: Stamp) -> str:
        """Return why what was made with this stamp does not hold for an index; "" if it may.

        `now`: the stamp of the index, with those of the `passages` that it has. A tenth of them may
        be gone or changed, as in any corpus.
        """
        alike = len(self.probes) == len(now.probes) and all(
            map(are_of_one_model, self.probes, now.probes)
        )
        if self.probes and not alike:
            return _OTHER_MODEL
        if self.corpus not in ("", now.corpus):
            return _OTHER_CORPUS
        lost = len({*self.passages} - {*now.passages})
        if lost > len(self.passages) / 10:
            return _OTHER_TEXTS.format(lost, len(self.passages))
        return "" if self.basis in ("", now.basis) else OTHER_SETTINGS
