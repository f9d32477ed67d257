"""The removed names of the public interface, with their replacements."""

from __future__ import annotations

from collections.abc import Iterable

# What to do instead, by name.
_INSTEAD = {
    "Preferences": "use search_diverse, or leave out hits of the result",
    "prefer": 'use the search type "mmr", or leave out hits of the result',
    "adapt": "use unanswerable=, the share of questions without an answer, or calibrate",
    "self_calibrate": "use calibrate, with labelled questions",
    "corrected": "the reason of a decision says how a misspelt question was read",
    "diversify": "use search_diverse",
    "asearch_diverse": "use search_diverse, in a thread",
    "set_calibration": "assign calibration",
    "basis": "use the basis of a decision",
    "weighting": "use counting({name: coefficient}) with all encoders",
    "weights": "use a retriever over index.counting({name: coefficient})",
    "UECTranslator": "use a translator of LangChain's that writes $eq, $gt, $and and the like",
    "gate": "use threshold=0.3; a Gate is set as index.gate, or goes to UECGate or UECQueryEngine",
    "gate_of_index": "leave it out: the gate of the index decides in every search",
    "stored": "use vectors=, a function from ids to vectors",
    "docstore": "use docstore.mget([hit.metadata[id_key] for hit in hits])",
    "UECFunctionAgent": (
        "use QueryEngineTool.from_defaults(UECQueryEngine(...), return_direct=True)"
    ),
    "fit": "use UEC.fit, on one machine",
    "to_frame": "use Result.metadata(rank), a dict for each hit, in a table of your own",
    "as_verifier": (
        "put the reranker before UECGatePostprocessor, as in "
        "node_postprocessors=[reranker, UECGatePostprocessor()]"
    ),
}


def removed(owner: str, name: str) -> AttributeError:
    """Return the error for an attribute that does not exist, or no longer."""
    if name not in _INSTEAD:
        return AttributeError(f"{owner} has no attribute {name!r}")
    return AttributeError(f"{owner}.{name} was removed; {_INSTEAD[name]}.")


def removed_import(owner: str, name: str) -> Exception:
    """Return the error for a name that a module does not have, or no longer."""
    error = removed(owner, name)  # of which `from module import name` would lose the message
    return ImportError(str(error)) if name in _INSTEAD else error


def check_arguments(given: Iterable[str]) -> None:
    """Raise TypeError if one of the arguments was removed."""
    for name in given:
        if name in _INSTEAD:
            raise TypeError(f"{name}: this argument was removed; {_INSTEAD[name]}.")
