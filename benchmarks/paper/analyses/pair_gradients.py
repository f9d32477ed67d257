"""Per-pair gradients of a text pair's logit with respect to the weights of linear layers.

The gradient of one pair's logit is ``sum_t delta_t a_t'`` over the tokens of both texts, with a_t
what goes into a layer and delta_t the logit's gradient with respect to what comes out: one forward
and one backward pass give those of a whole batch, without a Jacobian of the network. Only the
blocks that hold these layers run again: what enters them is computed once for each text.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from laplace.curvature import CurvatureInterface
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from uec_rag.encoders import SentenceTransformerEncoder

Input = Tensor | MutableMapping[str, Tensor | Any]


class PairLogits(nn.Module):
    """Logits of text pairs as a function of the weights of an encoder's last linear layers.

    Parameters
    ----------
    encoder : SentenceTransformerEncoder
    layers : sequence of nn.Linear
        Those whose weights are free; every other parameter must be frozen (see `only_trainable`).
    slope, intercept : float
        P(answer) = sigmoid(slope * cosine + intercept).

    Notes
    -----
    The input is an int tensor (n, 2) of rows of `queries` and `passages`; the output (n, 2), the
    logits of "no" (0) and "yes".
    """

    def __init__(
        self,
        encoder: SentenceTransformerEncoder,
        layers: Sequence[nn.Linear],
        slope: float = 1.0,
        intercept: float = 0.0,
    ) -> None:
        super().__init__()
        self.transformer = encoder.model  # makes its weights this module's own
        self.tail = Tail(encoder.model, layers)
        self.prompts = encoder.prompts
        self.layers = list(layers)
        self.slope = slope
        self.intercept = intercept
        self.queries: Sequence[str] = ()
        self.passages: Sequence[str] = ()

    def forward(self, rows: Tensor) -> Tensor:
        """Logits of "no" and "yes", (n, 2)."""
        queries = [self.prompts["query"] + self.queries[row] for row in rows[:, 0].tolist()]
        passages = [self.prompts["passage"] + self.passages[row] for row in rows[:, 1].tolist()]
        cosine = (self.tail.embed(queries) * self.tail.embed(passages)).sum(dim=-1, keepdim=True)
        logit = self.slope * cosine + self.intercept
        return torch.cat([torch.zeros_like(logit), logit], dim=-1)

    def gradients(self, rows: Tensor) -> tuple[Tensor, Iterator[Tensor]]:
        """Logits of "yes" (n,), and for each layer the gradients of them, (n, out * in).

        One layer's gradients at a time are in memory.
        """
        inputs: dict[nn.Module, list[Tensor]] = {layer: [] for layer in self.layers}
        outputs: dict[nn.Module, list[Tensor]] = {layer: [] for layer in self.layers}

        def record(layer: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
            inputs[layer].append(given[0].detach())
            outputs[layer].append(output)

        with ExitStack() as stack, torch.enable_grad():
            for layer in self.layers:
                stack.callback(layer.register_forward_hook(record).remove)
            logit = self(rows)[:, 1]
            # Texts do not mix within a batch: the sum's gradient holds each pair's own.
            sides = [side for layer in self.layers for side in outputs[layer]]
            deltas = iter(torch.autograd.grad(logit.sum(), sides))

        def per_layer() -> Iterator[Tensor]:
            for layer in self.layers:
                total: Tensor | None = None
                for given in inputs[layer]:
                    sides = _with_tokens(next(deltas)).mT, _with_tokens(given)
                    total = torch.bmm(*sides) if total is None else torch.baddbmm(total, *sides)
                yield total.flatten(1)

        return logit.detach(), per_layer()


class PairGradientGGN(CurvatureInterface):
    """Diagonal GGN ``sum_n p (1 - p) g_n^2`` of a pair likelihood, for laplace-torch."""

    model: PairLogits

    def diag(self, x: Input, y: Tensor, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Loss of the batch and the diagonal of its GGN, in the order of the model's `layers`."""
        logit, gradients = self.model.gradients(x)
        weight = logit.sigmoid() * (1 - logit.sigmoid())
        diagonal = torch.cat([weight @ gradient.square_() for gradient in gradients])
        loss = nn.functional.binary_cross_entropy_with_logits(logit, y.float(), reduction="sum")
        return loss, diagonal


def last_linear_layers(model: SentenceTransformer, count: int) -> list[nn.Linear]:
    """The last linear layers on a text's way to its embedding, the very last first.

    Layers that run without reaching the embedding (BERT's pooler) are not among them.

    Raises
    ------
    ValueError
        If the model has fewer.
    """
    ran: list[nn.Linear] = []
    outputs: list[Tensor] = []

    def record(layer: nn.Module, _: object, output: Tensor) -> None:
        ran.append(layer)
        outputs.append(output)

    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    with ExitStack() as stack, torch.enable_grad():
        stack.enter_context(only_trainable(model, linear))
        for layer in linear:
            stack.callback(layer.register_forward_hook(record).remove)
        embedding = model(tokens(model, ["layers"]))["sentence_embedding"]
        reached = torch.autograd.grad(embedding.sum(), outputs, allow_unused=True)
    found = [layer for layer, delta in zip(ran, reached, strict=True) if delta is not None]
    if len(found) < count:
        raise ValueError(f"counts: this model has {len(found)} linear layers, got {count}.")
    return found[::-1][:count]


@contextmanager
def only_trainable(model: nn.Module, layers: Sequence[nn.Linear]) -> Iterator[None]:
    """Freeze every parameter but the weights of some layers, for a while."""
    before = {parameter: parameter.requires_grad for parameter in model.parameters()}
    free = {layer.weight for layer in layers}
    for parameter in before:
        parameter.requires_grad_(parameter in free)
    try:
        yield
    finally:
        for parameter, was in before.items():
            parameter.requires_grad_(was)


def _with_tokens(values: Tensor) -> Tensor:
    """Shape (n, tokens, features); a layer after the pooling sees one token."""
    return values if values.dim() == 3 else values[:, None]


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
