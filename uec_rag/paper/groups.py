"""Encoders that are compared with each other, and what on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uec_rag.encoders import CachedEncoder, Encoder, EncoderLike, load_encoder
from uec_rag.paper.plan import Plan
from uec_rag.paper.projection import ProjectionOf
from uec_rag.paper.systems.lineup import Lineup

MAIN, LANGUAGES = "main", "languages"


@dataclass(frozen=True)
class Group:
    """A set of encoders and what they are measured on.

    Attributes
    ----------
    name : str
        `MAIN`, or `LANGUAGES` for the experiment with language-specialised models.
    plan : Plan
    lineup : Lineup
    """

    name: str
    plan: Plan
    lineup: Lineup


def make_group(name: str, plan: Plan, models: Sequence[EncoderLike], cache: Path) -> Group:
    """Load encoders behind the embedding cache and build their line-up.

    Parameters
    ----------
    name : str
    plan : Plan
    models : sequence
        Whatever `load_encoder` takes.
    cache : path
        Folder of the embedding cache.

    Raises
    ------
    ValueError
        If two encoders have one name.
    """

    def remember(encoder: Encoder) -> Encoder:
        return CachedEncoder(encoder, cache)

    def load(model: EncoderLike) -> Encoder:
        try:
            # Both layers of one encoding: UEC.paper asks for the one, all else for the other.
            return ProjectionOf(remember(load_encoder(model, last_layer="ffn")))
        except ValueError:  # not a transformer that one can look into
            return remember(load_encoder(model))

    encoders = [load(model) for model in models]
    names = [encoder.name for encoder in encoders]
    if len(set(names)) < len(names):
        raise ValueError(f"--model: expected encoders of different names, got {names}.")
    return Group(name, plan, Lineup(encoders, plan.pairs, remember))
