"""Static embedding models: a text's vector is the mean of its tokens' vectors. No torch needed."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from uec_rag.base.checks import check_texts
from uec_rag.encoders.base import (
    Encoded,
    Float32Array,
    IdentityHead,
    Role,
    check_role,
    check_vectors,
)
from uec_rag.encoders.hub import family_prompts, revision_of_files

_AT_ONCE = 64  # texts whose tokens' vectors are held at a time


class StaticEncoder(IdentityHead):
    """A table of token vectors and a tokenizer, as model2vec and WordLlama store them.

    The same vectors as from sentence-transformers' `StaticEmbedding`, whose import alone takes
    several times as long as a search.

    Its last layer is the identity on its output, so `features` is `embedding`.

    Parameters
    ----------
    folder
        Holds `model.safetensors`, with the table as its one tensor, and `tokenizer.json`.
    name
        Of the model; decides its prompts.
    spec
        What `load_encoder` rebuilds it from.

    Raises
    ------
    ValueError
        If the weights are not one table.
    """

    def __init__(self, folder: str | Path, *, name: str, spec: str | None = None) -> None:
        from safetensors.numpy import load
        from tokenizers import Tokenizer

        self.name = name
        self.spec = spec
        self.prompts = family_prompts(name)
        weights = (Path(folder) / "model.safetensors").read_bytes()
        tokenizer = (Path(folder) / "tokenizer.json").read_bytes()
        self.revision = revision_of_files(self.prompts, weights, tokenizer)
        tables = load(weights)
        shapes = {key: table.shape for key, table in tables.items()}
        if len(tables) != 1 or any(len(shape) != 2 for shape in shapes.values()):
            raise ValueError(
                f"{folder}: expected model.safetensors to hold one table (tokens, d), got {shapes}"
            )
        (table,) = tables.values()
        self._table: Float32Array = table.astype(np.float32)
        self.tokenizer = Tokenizer.from_buffer(tokenizer)
        self.tokenizer.no_padding()
        self.dimension = int(self._table.shape[1])

    def encode(self, texts: Sequence[str], role: Role, *, show_progress: bool = False) -> Encoded:
        """Embed texts as queries or as passages; no text is cut off.

        Raises TypeError, ValueError if texts or role are not what they must be, or a text has no
        token that is known.
        """
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        check_role(role)
        prompted = [self.prompts[role] + text for text in check_texts(texts)]
        vectors = np.zeros((len(prompted), self.dimension), dtype=np.float32)
        with tqdm(total=len(prompted), desc="Texts", disable=not show_progress) as progress:
            for start in range(0, len(prompted), _AT_ONCE):
                some = prompted[start : start + _AT_ONCE]
                vectors[start : start + len(some)] = self._means(some)
                progress.update(len(some))
        embedding = check_vectors(vectors, rows=len(prompted), encoder=self.name)
        return Encoded(embedding, embedding)

    def _means(self, texts: list[str]) -> Float32Array:
        """Compute the means of the tokens' vectors, (n, d); zeros for a text without any."""
        tokens = [e.ids for e in self.tokenizer.encode_batch(texts, add_special_tokens=False)]
        lengths = np.array([len(ids) for ids in tokens])
        means = np.zeros((len(texts), self.dimension), dtype=np.float32)
        some = np.flatnonzero(lengths)
        if len(some):
            # An empty run would take its neighbour's sum.
            starts = (np.cumsum(lengths) - lengths)[some]
            found = self._table[np.concatenate([np.array(ids, dtype=np.int64) for ids in tokens])]
            means[some] = np.add.reduceat(found, starts, axis=0) / lengths[some, None]
        return means
