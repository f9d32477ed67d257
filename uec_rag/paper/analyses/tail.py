"""The last blocks of a transformer, run on inputs that are computed once for each text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_AT_ONCE = 32  # texts of similar length through the lower blocks


class Tail:
    """A transformer that embeds the same texts again and again with other weights at its end.

    What enters the first block that holds one of the free layers does not depend on their weights:
    it is kept for each text, and only the blocks from there on run again. A model without a list
    of blocks runs whole.

    Parameters
    ----------
    model : SentenceTransformer
    layers : sequence of nn.Linear
        Those whose weights are free.
    """

    def __init__(self, model: SentenceTransformer, layers: Sequence[nn.Linear]) -> None:
        self.model = model
        self._place = _place(model, layers)
        self._entering: dict[str, Tensor] = {}

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Unit embeddings (n, d), differentiable by the free layers' weights."""
        features = tokens(self.model, list(texts))
        if self._place is None:
            return _unit(self.model(features))
        self._remember(texts)
        entering = nn.utils.rnn.pad_sequence([self._entering[t] for t in texts], batch_first=True)
        with self._shortened(entering):
            return _unit(self.model(features))

    def _remember(self, texts: Sequence[str]) -> None:
        """Run the lower blocks on texts that are new."""
        new = sorted({text for text in texts if text not in self._entering}, key=len)
        for start in range(0, len(new), _AT_ONCE):
            some = new[start : start + _AT_ONCE]
            features = tokens(self.model, some)
            lengths = features["attention_mask"].sum(dim=1).tolist()
            entering = self._run_below(features)
            # Tokens come first and padding last, in every model that is a list of blocks here.
            for text, row, length in zip(some, entering, lengths, strict=True):
                self._entering[text] = row[: int(length)].clone()

    def _run_below(self, features: dict[str, Tensor]) -> Tensor:
        assert self._place is not None
        _, _, blocks, first = self._place

        def stop(_: nn.Module, given: tuple[Any, ...]) -> None:
            raise _Entered(given[0])

        handle = blocks[first].register_forward_pre_hook(stop)
        try:
            with torch.no_grad():
                self.model(features)
        except _Entered as entered:
            return entered.states
        finally:
            handle.remove()
        raise RuntimeError("the last blocks of the model did not run")

    @contextmanager
    def _shortened(self, entering: Tensor) -> Iterator[None]:
        """Leave the lower blocks out, and give the next one what they would have."""
        assert self._place is not None
        parent, name, blocks, first = self._place

        def replace(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
            return (entering, *given[1:])

        handle = blocks[first].register_forward_pre_hook(replace)
        setattr(parent, name, blocks[first:])
        try:
            yield
        finally:
            setattr(parent, name, blocks)
            handle.remove()


class _Entered(Exception):
    """Carries what enters a block out of the model."""

    def __init__(self, states: Tensor) -> None:
        self.states = states


def _place(
    model: nn.Module, layers: Sequence[nn.Linear]
) -> tuple[nn.Module, str, nn.ModuleList, int] | None:
    """The list of blocks that holds free layers, its owner and name, and the first such block."""
    for parent in model.modules():
        for name, blocks in parent.named_children():
            if isinstance(blocks, nn.ModuleList):
                inside = [any(m in layers for m in block.modules()) for block in blocks]
                if any(inside):
                    return parent, name, blocks, inside.index(True)
    return None


def _unit(features: dict[str, Tensor]) -> Tensor:
    return nn.functional.normalize(features["sentence_embedding"], dim=-1)


def tokens(model: SentenceTransformer, texts: list[str]) -> dict[str, Tensor]:
    """Input of the model, on its device."""
    # Called `tokenize` before sentence-transformers 6.
    make = model.preprocess if hasattr(model, "preprocess") else model.tokenize
    return {
        name: value.to(model.device) if isinstance(value, Tensor) else value
        for name, value in make(texts).items()
    }
