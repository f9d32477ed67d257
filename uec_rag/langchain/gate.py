"""The gate as a LangChain runnable: answer, ask back or abstain."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Self, cast

from langchain_core.callbacks import CallbackManagerForChainRun, dispatch_custom_event
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableBranch, RunnableConfig, RunnableSerializable
from langchain_core.runnables.config import get_config_list, merge_configs, run_in_executor
from langchain_core.vectorstores import VectorStoreRetriever
from pydantic import BeforeValidator, ConfigDict, SkipValidation, field_validator, model_validator

from uec_rag.base.checks import check_text
from uec_rag.confidence.decision import Decision
from uec_rag.confidence.second_opinion import Judge, prompt, read_reply
from uec_rag.langchain.documents import (
    Question,
    joined,
    note_decision,
    passage_filter,
    question_and_history,
    refuse_unknown,
    turns,
)
from uec_rag.langchain.gated import AsTool, Gated, decision_on, gated, warn_of_turns
from uec_rag.langchain.vectorstore import UECRetriever, UECVectorStore
from uec_rag.retrieval.gate import Gate, as_gate

EVENT = "uec_gate"
"""Name of the custom callback event that every decision sends."""


def as_judge(second: BaseChatModel | Judge | None) -> Judge | None:
    """Create a judge from a chat model, which says with yes or no whether the passages suffice.

    Anything but a chat model is returned unchanged.

    Examples
    --------
    >>> from langchain_core.language_models import FakeListChatModel
    >>> as_judge(FakeListChatModel(responses=["Yes."]))("What purrs?", ["Cats purr."])
    True
    """
    if not isinstance(second, BaseChatModel):
        return second

    def judge(question: str, texts: Sequence[str]) -> bool | None:
        return read_reply(second.invoke(prompt(question, texts)).text)

    return judge


class UECGate(AsTool[Question, Gated], RunnableSerializable[Question, Gated]):
    """Retrieves, and decides whether to answer, ask for clarification or abstain.

    Takes a question, or a mapping with a "question" or an "input", whose other keys are passed on;
    returns the keys of `Gated`. Callbacks receive each decision as the custom event "uec_gate". A
    call may set `k`, `filter` (the guarantee is for the retriever's filter), `history` (or the
    mapping's "chat_history") and `within`, as in `UECRetriever`. `batch` searches for many
    questions at once, `history` there is a list of turns for each.

    Parameters
    ----------
    retriever : UECRetriever or Runnable
        The retriever to gate. It may also be a LangChain retriever over a `UECRetriever`
        (history-aware, `MultiQueryRetriever`, `EnsembleRetriever`,
        `ContextualCompressionRetriever`, ...), in which case the decision with the highest
        confidence among its documents is used, `k` and `filter` are not supported, and a gate must
        be given.
    gate : Gate or float, optional
        A gate from `calibrate`, or a plain threshold of confidence, without a guarantee. By
        default, the gate of the searched index (`Gate.of_index`), or one half if it has none.
    second : BaseChatModel or callable(question, texts) -> bool or float, optional
        The judge that the gate was calibrated with, which says whether the passages suffice. It is
        only asked if the confidence is between two thresholds. A chat model receives a fixed
        prompt; if it fails or answers neither yes nor no, the gate decides without it.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> from langchain_core.runnables import RunnableLambda
    >>> texts = ["cats purr", "dogs bark", "birds sing"]
    >>> retriever = UECRetriever.from_texts(texts, DeterministicFakeEmbedding(size=8), k=2)
    >>> chain = UECGate(retriever=retriever).route(
    ...     answer=RunnableLambda(lambda found: found["documents"][0].page_content),
    ...     clarify=RunnableLambda(lambda found: found["question_back"]),
    ...     abstain=RunnableLambda(lambda found: "I do not know."),
    ... )
    >>> chain.invoke("dogs bark")
    'dogs bark'
    """

    retriever: SkipValidation[UECRetriever | Runnable[Any, Any]]
    gate: Annotated[Gate | None, BeforeValidator(as_gate)] = None
    second: Annotated[Judge | None, BeforeValidator(as_judge)] = None

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @field_validator("retriever", mode="before")
    @classmethod
    def _check_retriever(cls, retriever: object) -> object:
        store = getattr(retriever, "vectorstore", None)
        elsewhere = isinstance(retriever, VectorStoreRetriever)
        if not isinstance(retriever, Runnable) or (
            elsewhere and not isinstance(store, UECVectorStore)
        ):
            raise TypeError(
                f"retriever: expected a UECRetriever, got {type(retriever).__name__}; as_retriever "
                "of a UECVectorStore makes one, and UECRetriever.over(store, UEC()) one over "
                "another vector store."
            )
        return retriever

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.gate is None and isinstance(self.retriever, UECRetriever):
            self.gate = Gate.of_index(self.retriever.index)
        if self.second is not None:
            if self.gate is None:
                raise ValueError("second: expected together with a gate from UECGate.calibrate.")
            self.gate.check_second(self.second)
        return self

    @classmethod
    def calibrate(
        cls,
        retriever: UECRetriever,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        *,
        wrong: float | None = None,
        risk: float | None = None,
        certainty: float = 0.95,
        needless: float | None = None,
        second: BaseChatModel | Judge | None = None,
        groups: Sequence[Hashable] | None = None,
    ) -> Self:
        """Create a gate that keeps wrong answers below a target.

        Parameters
        ----------
        retriever : UECRetriever
            A retriever whose k is the number of hits that an answer may use, and whose filter
            selects the passages.
        second : BaseChatModel or callable, optional
            As in the class; asked once for each query.
        queries, relevant_ids, wrong, risk, certainty, needless, groups
            As in `uec_rag.retrieval.gate.Gate.calibrate`.
        """
        cls._check_retriever(retriever)
        if not isinstance(retriever, UECRetriever):
            raise TypeError(
                f"retriever: expected a UECRetriever, got {type(retriever).__name__}; make the "
                "gate with the UECRetriever below it, and give it to UECGate(retriever=, gate=)."
            )
        judge = as_judge(second)
        gate = Gate.calibrate(
            retriever.index,
            queries,
            relevant_ids,
            wrong=wrong,
            risk=risk,
            certainty=certainty,
            needless=needless,
            second=judge,
            k=retriever.k,
            filter=passage_filter(retriever.filter),
            groups=groups,
        )
        return cls(retriever=retriever, gate=gate, second=judge)

    @property
    def report(self) -> str:
        """The description of what the threshold is based on."""
        return (self.gate or Gate.at(0.5)).report

    def route(
        self, answer: Runnable[Any, Any], clarify: Runnable[Any, Any], abstain: Runnable[Any, Any]
    ) -> Runnable[Question, Any]:
        """Route each decision to its own runnable, which receives the gate's output."""
        return self | RunnableBranch(
            (lambda found: found["decision"] == "answer", answer),
            (lambda found: found["decision"] == "clarify", clarify),
            abstain,
        )

    def invoke(self, input: Question, config: RunnableConfig | None = None, **kwargs: Any) -> Gated:
        """Retrieve and decide."""
        if (history := kwargs.pop("history", None)) is not None:
            kwargs["history"] = [history]
        return self.batch([input], config, **kwargs)[0]

    def batch(
        self,
        inputs: list[Question],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Gated]:
        """Retrieve for many questions in one search, and decide on each."""
        threshold = 0.5 if self.gate is None else self.gate.threshold.threshold
        # What `note_decision` adds would not be shown for a run without metadata.
        noted: RunnableConfig = {"metadata": {"uec_threshold": threshold}}
        return self._batch_with_config(
            partial(self._gate_all, kwargs),
            inputs,
            [merge_configs(one, noted) for one in get_config_list(config, len(inputs))],
            return_exceptions=return_exceptions,
        )

    async def abatch(
        self,
        inputs: list[Question],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Gated]:
        """Run `batch` without blocking the event loop."""
        batch = partial(self.batch, inputs, config, return_exceptions=return_exceptions)
        return await run_in_executor(None, partial(batch, **kwargs))

    def _gate_all(
        self,
        options: Mapping[str, Any],
        given: list[Question],
        run_manager: list[CallbackManagerForChainRun],
        config: list[RunnableConfig],
    ) -> list[Gated | Exception]:
        out, asked = self._asked(options, given)
        configs, queries = [config[place] for place in asked], [q for q, _ in asked.values()]
        if isinstance(self.retriever, UECRetriever):
            searched = {**options, "history": [before for _, before in asked.values()]}
            result, found = self.retriever.search_runs(queries, configs, **searched)
            decisions = result.decisions
            if self.gate is not None:
                decisions = self.gate.decide(result, self.second)
        else:
            found = self.retriever.batch([self._input(given[place]) for place in asked], configs)
            decisions = [*map(self._read, queries, found)]
        for place, documents, decision in zip(asked, found, decisions, strict=True):
            note_decision(run_manager[place], decision)
            one = gated(asked[place][0], documents, decision)
            dispatch_custom_event(EVENT, _event(one), config=config[place])
            others = given[place]
            out[place] = cast(Gated, {**(others if isinstance(others, Mapping) else {}), **one})
        return out

    def _asked(
        self, options: Mapping[str, Any], given: Sequence[Question]
    ) -> tuple[list[Gated | Exception], dict[int, tuple[str, list[str]]]]:
        """Return errors for invalid inputs, and the questions with their turns by position."""
        if not isinstance(self.retriever, UECRetriever):
            refuse_unknown(options, f"a UECGate over {type(self.retriever).__name__}", ())
        elif (
            self.gate is not None
            and self.second is not None
            and (k := self.retriever.search_options(options)["k"]) < self.gate.k
        ):
            raise ValueError(
                f"k: expected at least {self.gate.k}, as many hits as the second opinion reads, "
                f"got {k}. Calibrate a gate for this k."
            )
        out: list[Gated | Exception] = [ValueError("not asked")] * len(given)
        asked = {}
        for place, one in enumerate(joined(given, options.get("history"))):
            try:
                question, history = question_and_history(one)
                asked[place] = check_text(question, "query"), turns(history)
            except (TypeError, ValueError) as error:
                out[place] = error
        return out, asked

    def _input(self, given: Question) -> Question:
        """Return the input for the retriever: a question, or a mapping if it uses the history."""
        question, history = question_and_history(given)
        if isinstance(self.retriever, BaseRetriever) or not isinstance(given, Mapping):
            if turns(history):
                warn_of_turns(self.retriever)
            return question
        return {"input": question, **given}

    def _read(self, question: str, documents: Sequence[Document]) -> Decision:
        """Decide on documents by the decision in their metadata."""
        origin = f"retriever: documents of this {type(self.retriever).__name__}"
        known = decision_on(documents, origin)
        if self.gate is None or not documents:
            return known
        texts = [document.page_content for document in documents]
        return self.gate.redecide(known, question, texts, self.second)


def _event(found: Gated) -> dict[str, Any]:
    told: dict[str, Any] = {
        key: dict(found)[key] for key in ("question", "decision", "reason", "confidence")
    }
    told["ids"] = [document.id for document in found["documents"]]
    for name, key in (("scores", "score"), ("sigma2", "sigma2"), ("relevance", "relevance")):
        told[name] = [document.metadata.get(f"uec_{key}") for document in found["documents"]]
    return told
