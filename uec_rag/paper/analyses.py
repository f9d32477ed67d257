"""What a run looks into beside its tables: parts, knobs, calibration, overlap, theory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import combinations

import numpy as np

from uec_rag.encoders import Encoder, SentenceTransformerEncoder, load_encoder
from uec_rag.ensemble import UEC
from uec_rag.paper.ablation import ablation, sensitivity
from uec_rag.paper.baselines.subspace import subspace_overlap
from uec_rag.paper.baselines.theory import Scaling, theorem_1, theorem_2
from uec_rag.paper.calibration import (
    Calibration,
    PairTask,
    calibrate,
    hard_pair_task,
    pair_task,
    posterior_variants,
)
from uec_rag.paper.collections import Collection
from uec_rag.paper.groups import LANGUAGES, Group
from uec_rag.paper.lineup import Lineup
from uec_rag.paper.results import Json
from uec_rag.paper.similarities import compare_similarities, search_times
from uec_rag.paper.systems import Ensemble, NotApplicable
from uec_rag.paper.tasks import Retrieval

_OVERLAP_TEXTS = 4000
_SEEDS = 3  # to see what a figure owes to chance


def analyses(groups: Sequence[Group]) -> dict[str, Callable[[], Json]]:
    """Name the analyses of a run, each a function that makes it.

    Parameters
    ----------
    groups : sequence of Group
        The main one first. What the paper does on its MIRACL subset is done on the group of
        language-specialised models where there is one, else on the main group's collections.
    """
    main = groups[0]
    subset = next((group for group in groups if group.name == LANGUAGES), main)
    found: dict[str, Callable[[], Json]] = {"fit": lambda: {g.name: _fit(g) for g in groups}}
    if _collections(subset):
        found |= {
            "coefficients": lambda: _coefficients(subset),
            "similarities": lambda: _similarities(subset),
            "similarities of UEC.paper": lambda: _similarities(main, paper=True),
            "ablation": lambda: _ablation(subset, calibrated=True),
            "ablation of UEC.paper": lambda: _ablation(main, paper=True),
            "sensitivity": lambda: _sensitivity(subset),
            "sensitivity of UEC.paper": lambda: _sensitivity(main, paper=True),
            "search times": lambda: _search_times(main),
        }
    if main.plan.proxy:
        found |= {
            "calibration": lambda: _calibration(main),
            "posterior variants": lambda: _variants(main),
            "layers": lambda: _layers(main),
        }
    for group in groups:
        found[f"overlap of {group.name}"] = partial(_overlap, group)
    found["theory"] = _theory
    return found


def _fit(group: Group) -> Json:
    report = group.lineup.fitted().report
    assert report is not None
    return asdict(report)


def _collections(group: Group) -> list[Collection]:
    return [task.collection for task in group.plan.tasks if isinstance(task, Retrieval)]


def _chosen(group: Group, paper: bool) -> UEC:
    return group.lineup.paper() if paper else group.lineup.fitted()


def _coefficients(group: Group) -> Json:
    """Mean coefficient of each encoder over each collection's queries (paper figure 3)."""
    rows: Json = {}
    for collection in _collections(group):
        system = Ensemble("UEC", "UEC", group.lineup.fitted())
        found = system.retrieve(list(collection.queries.values()), collection.passages, 10)
        rows[collection.name] = found.coefficients.mean(axis=0).tolist()
    return {"encoders": list(group.lineup.fitted().names), "rows": rows}


def _similarities(group: Group, *, paper: bool = False) -> Json:
    rows = compare_similarities(_chosen(group, paper), _collections(group))
    return {"collections": _names(group), "rows": [asdict(row) for row in rows]}


def _ablation(group: Group, *, paper: bool = False, calibrated: bool = False) -> Json:
    rows = ablation(_chosen(group, paper), _collections(group), calibrated=calibrated)
    return {"collections": _names(group), "rows": [asdict(row) for row in rows]}


def _sensitivity(group: Group, *, paper: bool = False) -> Json:
    curves = sensitivity(_chosen(group, paper), _collections(group))
    return {
        "collections": _names(group),
        "curves": {knob: [asdict(row) for row in rows] for knob, rows in curves.items()},
    }


def _search_times(group: Group) -> Json:
    return {"rows": search_times(group.lineup.fitted(), _collections(group)[0])}


def _calibration(group: Group) -> Json:
    lineup = group.lineup
    fitted = [
        (encoder.name, UEC([encoder], structure="diag").fit(lineup.pairs))
        for encoder in lineup.encoders
    ]
    if len({encoder.dimension for encoder in lineup.encoders}) == 1:
        fitted.append(("UEC.paper", lineup.paper()))
    fitted.append(("UEC", lineup.fitted()))
    return {
        name: [asdict(calibrate(uec, *tasks, row)) for row, uec in fitted]
        for name, tasks in (("random", _pair_tasks(group)), ("hits", _hard_pair_tasks(group)))
    }


def _variants(group: Group) -> Json:
    """Posteriors of one encoder, each fitted several times."""
    encoder, ffn = group.lineup.encoders[0], _ffn(group.lineup)
    tasks = _hard_pair_tasks(group)
    runs = [
        posterior_variants(encoder, group.lineup.pairs, *tasks, ffn, seed) for seed in range(_SEEDS)
    ]
    return {
        "encoder": encoder.name,
        "seeds": _SEEDS,
        "rows": [_mean(r) for r in zip(*runs, strict=True)],
    }


def _mean(rows: Sequence[Calibration]) -> Json:
    """Means over seeds, and their standard deviation."""
    found: Json = {"name": rows[0].name}
    for key in (
        "accuracy",
        "ece_deterministic",
        "ece",
        "nll_deterministic",
        "nll",
        "error_auroc",
        "seconds",
    ):
        values = [getattr(row, key) for row in rows]
        found |= {key: float(np.mean(values)), f"{key}_sd": float(np.std(values, ddof=1))}
    return found


def _ffn(lineup: Lineup) -> Encoder | None:
    """First encoder with the posterior about its last feed-forward layer; None of a black box."""
    spec = lineup.encoders[0].spec
    if spec is None:
        return None
    try:
        return lineup.remember(load_encoder(spec, last_layer="ffn"))
    except ValueError:  # not a transformer that one can look into
        return None


def _pair_tasks(group: Group) -> tuple[PairTask, PairTask]:
    order = np.random.default_rng(0).permutation(len(group.lineup.pairs))
    return pair_task([group.lineup.pairs[i] for i in order]), pair_task(group.plan.proxy)


def _hard_pair_tasks(group: Group) -> tuple[PairTask, PairTask]:
    encoders = group.lineup.encoders
    return hard_pair_task(group.lineup.pairs, encoders), hard_pair_task(group.plan.proxy, encoders)


def _layers(group: Group) -> Json:
    """Posteriors over the last 1, 2, 4 and 6 layers of the first encoder with weights at hand."""
    from uec_rag.paper.layers import layers

    for embedder in group.lineup.encoders:
        encoder = None if embedder.spec is None else load_encoder(embedder.spec)
        # A quantised model in ONNX has no layers to differentiate by.
        if isinstance(encoder, SentenceTransformerEncoder) and _has_linear_layers(encoder):
            rows = layers(encoder, embedder, group.lineup.pairs, group.plan.proxy)
            return {"encoder": encoder.name, "rows": rows}
    raise NotApplicable("needs a transformer with its weights at hand, which no encoder is")


def _has_linear_layers(encoder: SentenceTransformerEncoder) -> bool:
    from torch.nn import Linear

    return any(isinstance(module, Linear) for module in encoder.model.modules())


def _theory() -> Json:
    return {
        name: [_scaling(regime) for regime in theorem()]
        for name, theorem in (("theorem 1", theorem_1), ("theorem 2", theorem_2))
    }


def _scaling(found: Scaling) -> Json:
    row = asdict(found)
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in row.items()}


def _overlap(group: Group) -> Json:
    texts = group.plan.texts()["passage"][:_OVERLAP_TEXTS]
    embedded = [(e.name, e.encode(texts, "passage").embedding) for e in group.lineup.encoders]
    return {
        "texts": len(texts),
        "rows": [
            {"pair": [first, second], **asdict(subspace_overlap(x, y))}
            for (first, x), (second, y) in combinations(embedded, 2)
        ],
    }


def _names(group: Group) -> list[str]:
    return [collection.name for collection in _collections(group)]
