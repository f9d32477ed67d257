"""UEC as a model of the `mteb` package, so that its tasks and leaderboards run unchanged.

An encoder of mteb gives one vector a text; a Gaussian is written as one: the mean, then what the
variance needs, scaled down by a power of two. Scaling back is exact, and cosines that mteb computes
of the rows by itself are those of the means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.paper.results import Json
from benchmarks.paper.systems import pair_moments
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.similarity import probit, score
from uec_rag.encoders import Role
from uec_rag.ensemble import UEC

if TYPE_CHECKING:
    from mteb import AbsTask
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.models import ModelMeta
    from mteb.types import PromptType


_SMALL = np.float32(2.0**-24)
_ON_VECTORS = {"Classification", "MultilabelClassification", "Clustering", "Regression"}
"""Types of task that train on the vectors: these get means alone."""


class UECMTEBEncoder:
    """An ensemble behind mteb's EncoderProtocol, with s_hat as its similarity.

    Parameters
    ----------
    uec : UEC
        Fitted or not.
    name : str
        What mteb files its results under.

    Examples
    --------
    >>> import numpy as np
    >>> uec = UEC([lambda texts: np.array([[len(t), 1.0] for t in texts])])
    >>> UECMTEBEncoder(uec, "letters").uec is uec
    True
    """

    def __init__(self, uec: UEC, name: str = "UEC") -> None:
        self.uec = uec
        self.name = name
        self._profile: FloatArray | None = None

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """Name and fingerprint, by which mteb keeps results apart."""
        from mteb.models import ModelMeta

        name = re.sub(r"[^\w.-]+", "-", self.name)
        return ModelMeta.create_empty(
            {
                "name": f"uec-rag/{name}",
                "revision": self.uec.fingerprint,
                "embed_dim": self.uec.dimension,
                "modalities": ["text"],
            }
        )

    def encode(
        self,
        inputs: Iterable[Any],
        *,
        task_metadata: TaskMetadata,
        hf_split: str = "",
        hf_subset: str = "",
        prompt_type: PromptType | None = None,
        **kwargs: Any,
    ) -> FloatArray:
        """Embed batches of texts.

        Parameters
        ----------
        inputs : DataLoader
            Batches with a "text" list.
        task_metadata : TaskMetadata
            Tells what the vectors are used for.
        hf_split, hf_subset : str
            Not used.
        prompt_type : {"query", "document"}, optional
            Texts that are neither, as in a similarity task, are embedded as passages.
        **kwargs
            mteb's batch_size and show_progress_bar: not used, the encoders have their own.

        Returns
        -------
        array, shape (n, width)
            Means alone for tasks that train on vectors, else packed Gaussians.
        """
        # mteb has texts that are empty, which no encoder here takes.
        texts = [text if text.strip() else "-" for batch in inputs for text in batch["text"]]
        role: Role = "query" if prompt_type is not None and prompt_type == "query" else "passage"
        gaussian = self.uec.embed(texts, role)
        if task_metadata.type in _ON_VECTORS:
            return gaussian.mean
        return self._pack(gaussian)

    def similarity(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> FloatArray:
        """s_hat of every pair, shape (n, m)."""
        return score(self._unpack(embeddings1), self._unpack(embeddings2), self.uec.fitted.beta)

    def similarity_pairwise(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> FloatArray:
        """s_hat of matching rows, shape (n,)."""
        moments = pair_moments(self._unpack(embeddings1), self._unpack(embeddings2))
        return probit(*moments, self.uec.fitted.beta)

    def _pack(self, gaussian: Gaussian) -> FloatArray:
        self._profile = gaussian.profile
        return np.concatenate([gaussian.mean, gaussian.scales * _SMALL], axis=1)

    def _unpack(self, rows: ArrayLike) -> Gaussian:
        packed = np.atleast_2d(np.asarray(rows, dtype=np.float32))
        d = self.uec.dimension
        mean, scales = packed[:, :d], packed[:, d:] / _SMALL
        if self._profile is None:
            return Gaussian(mean, scales)
        return Gaussian.from_factors(mean, scales, self._profile)


def find_tasks(names: Sequence[str]) -> list[AbsTask]:
    """Look tasks of the mteb package up by name.

    Raises
    ------
    KeyError
        If a name is none of its tasks'.
    """
    if not names:
        return []
    import mteb

    return [mteb.get_task(name) for name in names]


def run_mteb(
    ensembles: dict[str, UEC], tasks: Sequence[AbsTask], folder: Path, *, progress: bool = False
) -> dict[str, Json]:
    """Run tasks of mteb on ensembles; what a folder holds already is not run again.

    Parameters
    ----------
    ensembles : dict
        Name -> UEC.
    tasks : sequence of AbsTask
    folder : path
        mteb's own result cache goes here.
    progress : bool
        Show mteb's progress bars.

    Returns
    -------
    dict
        Task -> ensemble -> main score.
    """
    import mteb
    from mteb.cache import ResultCache

    cache = ResultCache(cache_path=folder)
    scores: dict[str, Json] = {task.metadata.name: {} for task in tasks}
    for name, uec in ensembles.items():
        found = mteb.evaluate(
            UECMTEBEncoder(uec, name), tasks, cache=cache, show_progress_bar=progress
        )
        for result in found.task_results:
            scores[result.task_name][name] = float(result.get_score())
    return scores
