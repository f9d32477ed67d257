"""What was removed from the public interface, and what to use instead."""

from __future__ import annotations

from collections.abc import Iterable

_INSTEAD = {
    "Preferences": "leave out hits of the result, or search_diverse",
    "prefer": 'leave out hits of the result, or the search type "mmr"',
    "adapt": "unanswerable=, the share of questions without an answer, or calibrate",
    "self_calibrate": "calibrate, with labelled questions",
    "weighting": "counting({name: coefficient}) with all encoders",
    "weights": "a retriever over index.counting({name: coefficient})",
    "UECTranslator": "a translator of LangChain's that writes $eq, $gt, $and and the like",
    "docstore": "docstore.mget([hit.metadata[id_key] for hit in hits])",
    "UECFunctionAgent": "QueryEngineTool.from_defaults(UECQueryEngine(...), return_direct=True)",
    "fit": "UEC.fit, on one machine",
    "to_frame": "Result.metadata(rank), a dict for each hit, in a table of your own",
}


def removed(owner: str, name: str) -> AttributeError:
    """Return the error for an attribute that does not exist, or no longer."""
    if name not in _INSTEAD:
        return AttributeError(f"{owner} has no attribute {name!r}")
    return AttributeError(f"{owner}.{name} was removed; use {_INSTEAD[name]}.")


def removed_import(owner: str, name: str) -> Exception:
    """Return the error for a name that a module does not have, or no longer."""
    error = removed(owner, name)  # of which `from module import name` would lose the message
    return ImportError(str(error)) if name in _INSTEAD else error


def check_arguments(given: Iterable[str]) -> None:
    """Raise TypeError if one of the arguments was removed."""
    for name in given:
        if name in _INSTEAD:
            raise TypeError(f"{name}: this argument was removed; use {_INSTEAD[name]}.")
