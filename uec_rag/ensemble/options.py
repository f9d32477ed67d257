"""How an ensemble is put together and fitted: what may be chosen, and the paper's choices."""

from __future__ import annotations

from typing import Any, get_args

from uec_rag.encoders import LastLayers
from uec_rag.ensemble.convolution import Space
from uec_rag.ensemble.faults import OnError
from uec_rag.laplace.likelihood import Likelihood
from uec_rag.laplace.pairs import Negatives
from uec_rag.laplace.posterior import Structure

OPTIONS = ("structure", "likelihood", "negatives", "scaled", "last_layer", "seed")
"""What a saved ensemble notes beside what was fitted."""

_ALLOWED = {
    "space": get_args(Space),
    "structure": get_args(Structure),
    "likelihood": get_args(Likelihood),
    "negatives": get_args(Negatives),
    "last_layer": get_args(LastLayers),
    "on_error": get_args(OnError),
}
PAPER: dict[str, Any] = {
    "space": "shared",
    "structure": "diag",
    "coefficients": "trace",
    "beta": 0.01,
    "likelihood": "pairs",
    "negatives": "random",
    "scaled": False,
    "last_layer": "auto",
}
"""Options of `UEC.paper`."""


def check_options(**chosen: str) -> None:
    """Raise ValueError unless every option is one that there is.

    Parameters
    ----------
    **chosen : str
        By the names they have in the constructor of `UEC`.
    """
    for name, value in chosen.items():
        if value not in _ALLOWED[name]:
            raise ValueError(f"{name}: expected one of {_ALLOWED[name]}, got {value!r}.")
