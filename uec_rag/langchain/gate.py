"""The gate as a LangChain runnable: answer, ask back or abstain."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self, TypeGuard, cast, get_args

from langchain_core.callbacks import (
    AsyncCallbackManagerForChainRun,
    BaseRunManager,
    CallbackManagerForChainRun,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableBranch, RunnableConfig, RunnableSerializable
from langchain_core.runnables.config import get_config_list, merge_configs, run_in_executor
from langchain_core.vectorstores import VectorStoreRetriever
from pydantic import BeforeValidator, ConfigDict, SkipValidation, field_validator, model_validator

from uec_rag.base.checks import check_text
from uec_rag.confidence.advice import PROMPT, Advice, Advisor, Verdict, prompt, run_to_end
from uec_rag.confidence.decision import Decision
from uec_rag.confidence.risk import Drift
from uec_rag.langchain.documents import (
    Question,
    join_histories,
    note_decision,
    passage_filter,
    question_and_history,
    refuse_unknown,
    turns,
)
from uec_rag.langchain.gated import AsTool, Gated, decision_on, to_gated, warn_of_turns
from uec_rag.langchain.vectorstore import UECRetriever, UECVectorStore
from uec_rag.retrieval import Retriever
from uec_rag.retrieval.gate import GATE_FILE, Gate, Pending, check_gate
from uec_rag.retrieval.labelled import without_gate

EVENT = "uec_gate"
"""Name of the custom callback event that every decision sends."""


_ADVICE: dict[str, Any] = {
    "title": "advice",
    "description": "Whether the passages answer the question.",
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": [*get_args(Verdict)]},
        "options": {"type": "array", "items": {"type": "string"}},
        "rewrite": {"type": "string"},
    },
    "required": ["verdict"],
}
"""The JSON schema of advice, for models with structured output."""


def chat_advisor(model: BaseChatModel, template: str = PROMPT) -> Advisor:
    """Create an advisor from a chat model, by structured output if the model has it.

    `template`: the prompt, with the fields `question` and `passages`.

    Examples
    --------
    >>> from langchain_core.language_models import FakeListChatModel
    >>> advisor = chat_advisor(FakeListChatModel(responses=['{"verdict": "answer"}']))
    >>> advisor("What purrs?", ["Cats purr."])
    '{"verdict": "answer"}'
    """
    try:
        structured = model.with_structured_output(_ADVICE)
    except NotImplementedError:
        structured = None

    def advise(question: str, texts: Sequence[str]) -> object:
        asked = prompt(question, texts, template)
        return model.invoke(asked).text if structured is None else structured.invoke(asked)

    return advise


def as_advisor(advisor: BaseChatModel | Advisor | None) -> Advisor | None:
    """Return the advisor that a chat model makes; anything else is returned unchanged."""
    return chat_advisor(advisor) if isinstance(advisor, BaseChatModel) else advisor


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
    gate : Gate, optional
        A gate from `Gate.from_labels`; by default, that of the retriever (`UECRetriever.gate`).
    advisor : BaseChatModel or callable(question, texts) -> Advice, optional
        LLM or callable consulted once per borderline question (`Gate.advisor`); a chat model
        receives the prompt of `chat_advisor`. If it says that the documents found do not answer the
        question, its rewrite of it is searched for.

    Examples
    --------
    Set up, over words alone, to run anywhere; ``UEC()`` adds an embedding model:

    >>> from uec_rag import UEC
    >>> texts = ["Cats purr when they are content.", "Dogs bark at strangers."]
    >>> retriever = UECRetriever.from_texts(texts, UEC(["bm25"]), k=1)
    >>> gate = UECGate(retriever=retriever)

    Decide:

    >>> found = gate.invoke("Why do cats purr?")
    >>> found["decision"], found["documents"][0].page_content
    ('answer', 'Cats purr when they are content.')

    Route a chain:

    >>> from langchain_core.runnables import RunnableLambda
    >>> chain = gate.route(
    ...     answer=RunnableLambda(lambda found: found["documents"][0].page_content),
    ...     clarify=RunnableLambda(lambda found: found["clarifying_question"]),
    ...     abstain=RunnableLambda(lambda found: "I do not know."),
    ... )
    >>> chain.invoke("What is the capital of France?")
    'I do not know.'
    """

    retriever: SkipValidation[UECRetriever | Runnable[Any, Any]]
    gate: Annotated[Gate | None, BeforeValidator(check_gate)] = None
    advisor: Annotated[Advisor | None, BeforeValidator(as_advisor)] = None

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
        gate = self._active_gate
        if self.advisor is not None and (gate is None or gate.advisor is not self.advisor):
            self.gate = replace(gate or Gate(), advisor=self.advisor)
        return self

    @property
    def _active_gate(self) -> Gate | None:
        """The gate that decides: its own, else that of the retriever now; None for 0.5."""
        if self.gate is None and isinstance(self.retriever, UECRetriever):
            return self.retriever.gate
        return self.gate

    @classmethod
    def from_labels(
        cls,
        retriever: UECRetriever,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        *,
        max_wrong: float | None = None,
        max_risk: float | None = None,
        certainty: float = 0.95,
        advisor: BaseChatModel | Advisor | None = None,
    ) -> Self:
        """Create a gate that keeps wrong answers below a target.

        Parameters
        ----------
        retriever : UECRetriever
            A retriever whose k is the number of hits that an answer may use, and whose filter
            selects the passages.
        advisor : BaseChatModel or callable, optional
            As in the class; asked once for each query.
        queries, relevant_ids, max_wrong, max_risk, certainty
            As in `uec_rag.retrieval.gate.Gate.from_labels`.
        """
        cls._check_retriever(retriever)
        if not isinstance(retriever, UECRetriever):
            raise TypeError(
                f"retriever: expected a UECRetriever, got {type(retriever).__name__}; make the "
                "gate with the UECRetriever below it, and give it to UECGate(retriever=, gate=)."
            )
        reader = as_advisor(advisor)
        gate = Gate.from_labels(
            retriever.index,
            queries,
            relevant_ids,
            max_wrong=max_wrong,
            max_risk=max_risk,
            certainty=certainty,
            advisor=reader,
            k=retriever.k,
            filter=passage_filter(retriever.filter),
        )
        return cls(retriever=retriever, gate=gate, advisor=reader)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the gate to a folder; over another store, with the fit, but without passages.

        Without a gate, the threshold 0.5 is saved.
        """
        gate, retriever = self._active_gate or Gate(), self.retriever
        if _is_over_a_source(retriever):
            retriever.save(path)
        Path(path).mkdir(parents=True, exist_ok=True)
        gate.save(Path(path) / GATE_FILE)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        retriever: UECRetriever | Runnable[Any, Any],
        advisor: BaseChatModel | Advisor | None = None,
    ) -> Self:
        """Load a gate from a folder that `save` has written.

        Parameters
        ----------
        path : path
        retriever : UECRetriever or Runnable
            The retriever of the gate; one over another store gets the saved fit.
        advisor : BaseChatModel or callable, optional
            The advisor that the gate was made with, which is not saved.

        Raises
        ------
        FileNotFoundError
            If there is no gate.
        IndexCorrupted, FingerprintMismatch
            If it is damaged, or an encoder is another than the saved ensemble's.
        """
        gate = Gate.load(Path(path) / GATE_FILE, as_advisor(advisor))
        if _is_over_a_source(retriever):
            known = dict(zip(retriever.index.uec.names, retriever.index.uec.encoders, strict=True))
            index = Retriever.load(path, store=retriever.index.store, encoders=known)
            retriever = retriever.model_copy(update={"vectorstore": UECVectorStore(index)})
        return cls(retriever=retriever, gate=gate)

    def drift(self, questions: Sequence[str]) -> str | None:
        """Search for recent questions, and return a warning if they are unlike those of the gate.

        It takes 32 questions or more; see `uec_rag.confidence.risk.Drift`.
        """
        gate = self._active_gate
        if gate is None or not gate.confidences or not isinstance(self.retriever, UECRetriever):
            raise ValueError("gate: expected one from from_labels, over a UECRetriever.")
        found = without_gate(self.retriever.index).search([*questions], gate.k)
        return Drift(gate.confidences).record(found.confidence.tolist())

    @property
    def report(self) -> str:
        """The description of what the threshold is based on."""
        return (self._active_gate or Gate()).report

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
        return self.batch([input], config, **_batch_options(kwargs))[0]

    async def ainvoke(
        self, input: Question, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Gated:
        """Run `invoke` without blocking the event loop, in which an advisor is asked."""
        return (await self.abatch([input], config, **_batch_options(kwargs)))[0]

    def batch(
        self,
        inputs: list[Question],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Gated]:
        """Retrieve for many questions in one search, and decide on each."""
        return self._batch_with_config(
            partial(self._gate_all, kwargs),
            inputs,
            self._with_threshold(config, len(inputs)),
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
        """Run `batch` without blocking the event loop, in which an advisor is asked."""
        return await self._abatch_with_config(
            partial(self._agate_all, kwargs),
            inputs,
            self._with_threshold(config, len(inputs)),
            return_exceptions=return_exceptions,
        )

    def _with_threshold(
        self, config: RunnableConfig | list[RunnableConfig] | None, count: int
    ) -> list[RunnableConfig]:
        """Return the config of each run, with the threshold in its metadata."""
        threshold = (self._active_gate or Gate()).threshold
        # What `note_decision` adds would not be shown for a run without metadata.
        noted: RunnableConfig = {"metadata": {"uec_threshold": threshold}}
        return [merge_configs(one, noted) for one in get_config_list(config, count)]

    def _gate_all(
        self,
        options: Mapping[str, Any],
        questions: list[Question],
        run_manager: list[CallbackManagerForChainRun],
        config: list[RunnableConfig],
    ) -> list[Gated | Exception]:
        out, asked = self._parse_inputs(options, questions)
        configs, queries = [config[position] for position in asked], [q for q, _ in asked.values()]
        if isinstance(self.retriever, UECRetriever):
            retriever, searched = self._retriever_and_options(options, asked)
            result, documents = retriever.search_runs(queries, configs, **searched)
            decisions = result.decisions
        else:
            inputs = [self._input(questions[position]) for position in asked]
            documents = self.retriever.batch(inputs, configs)
            decisions, pending = self._pending(queries, documents)
            replies = run_to_end(self.gate.consult(pending)) if self.gate and pending.rows else []
            decisions = self._settle(documents, decisions, pending, replies, configs)
        for index, event in self._put(out, asked, questions, documents, decisions, run_manager):
            dispatch_custom_event(EVENT, event, config=config[index])
        return out

    async def _agate_all(
        self,
        options: Mapping[str, Any],
        questions: list[Question],
        run_manager: list[AsyncCallbackManagerForChainRun],
        config: list[RunnableConfig],
    ) -> list[Gated | Exception]:
        """Run `_gate_all` without blocking the event loop."""
        out, asked = self._parse_inputs(options, questions)
        configs, queries = [config[position] for position in asked], [q for q, _ in asked.values()]
        if isinstance(self.retriever, UECRetriever):
            retriever, searched = self._retriever_and_options(options, asked)
            result, documents = await retriever.asearch_runs(queries, configs, **searched)
            decisions = result.decisions
        else:
            inputs = [self._input(questions[position]) for position in asked]
            documents = await self.retriever.abatch(inputs, configs)
            decisions, pending = self._pending(queries, documents)
            replies = await self.gate.consult(pending) if self.gate else []
            decisions = await run_in_executor(
                None, self._settle, documents, decisions, pending, replies, configs
            )
        for index, event in self._put(out, asked, questions, documents, decisions, run_manager):
            await adispatch_custom_event(EVENT, event, config=config[index])
        return out

    def _retriever_and_options(
        self, options: Mapping[str, Any], asked: Mapping[int, tuple[str, list[str]]]
    ) -> tuple[UECRetriever, dict[str, Any]]:
        """Return the retriever with this gate, and the options of its search."""
        histories = [before for _, before in asked.values()]
        retriever = cast(UECRetriever, self.retriever).with_gate(self.gate)
        return retriever, {**options, "history": histories}

    def _parse_inputs(
        self, options: Mapping[str, Any], questions: Sequence[Question]
    ) -> tuple[list[Gated | Exception], dict[int, tuple[str, list[str]]]]:
        """Return errors for invalid inputs, and the questions with their turns by position."""
        if not isinstance(self.retriever, UECRetriever):
            refuse_unknown(options, f"a UECGate over {type(self.retriever).__name__}", ())
        out: list[Gated | Exception] = [ValueError("not asked")] * len(questions)
        asked = {}
        for position, asked_question in enumerate(
            join_histories(questions, options.get("history"))
        ):
            try:
                question, history = question_and_history(asked_question)
                asked[position] = check_text(question, "query"), turns(history)
            except (TypeError, ValueError) as error:
                out[position] = error
        return out, asked

    def _input(self, asked_question: Question) -> Question:
        """Return the input for the retriever: a question, or a mapping if it uses the history."""
        question, history = question_and_history(asked_question)
        if isinstance(self.retriever, BaseRetriever) or not isinstance(asked_question, Mapping):
            if turns(history):
                warn_of_turns(self.retriever)
            return question
        return {"input": question, **asked_question}

    def _decide_documents(self, hits: Sequence[list[Document]]) -> list[Decision]:
        """Decide on the documents of another retriever, by the decisions in their metadata."""
        origin = f"retriever: documents of this {type(self.retriever).__name__}"
        decisions = [decision_on(documents, origin) for documents in hits]
        gate = self.gate
        if gate is None:
            return decisions
        return [
            gate.decide_again(decision, len(documents)) if documents else decision
            for decision, documents in zip(decisions, hits, strict=True)
        ]

    def _pending(
        self, questions: Sequence[str], hits: Sequence[list[Document]]
    ) -> tuple[list[Decision], Pending]:
        """Decide on documents of another retriever, and list what the advisor is to be asked."""
        decisions = self._decide_documents(hits)
        texts = [[document.page_content for document in documents] for documents in hits]
        return decisions, (self.gate or Gate()).pending(questions, texts, decisions)

    def _settle(
        self,
        hits: list[list[Document]],
        decisions: list[Decision],
        pending: Pending,
        replies: Sequence[Advice | str],
        configs: Sequence[RunnableConfig],
    ) -> list[Decision]:
        """Return the final decisions; documents of an answered rewrite take the place of others."""
        if self.gate is None or not replies:
            return decisions

        def search(rewrites: Sequence[str]) -> list[tuple[Decision, list[Document]]]:
            rows = self.retriever.batch([*rewrites], configs[0])
            return [*zip(self._decide_documents(rows), rows, strict=True)]

        settled = self.gate.settle(decisions, pending, replies, search)
        for row, (_, other) in enumerate(settled):
            hits[row] = hits[row] if other is None else other
        return [decision for decision, _ in settled]

    def _put(
        self,
        out: list[Gated | Exception],
        asked: Mapping[int, tuple[str, list[str]]],
        questions: Sequence[Question],
        hits: Sequence[list[Document]],
        decisions: Sequence[Decision],
        runs: Sequence[BaseRunManager],
    ) -> list[tuple[int, dict[str, Any]]]:
        """Put the output of each question in its position; returns its event with the position."""
        events = []
        for position, documents, decision in zip(asked, hits, decisions, strict=True):
            note_decision(runs[position], decision)
            output = to_gated(asked[position][0], documents, decision)
            events.append((position, self._event(output, decision)))
            others = questions[position]
            out[position] = cast(
                Gated, {**(others if isinstance(others, Mapping) else {}), **output}
            )
        return events

    def _event(self, output: Gated, decision: Decision) -> dict[str, Any]:
        told: dict[str, Any] = {
            key: dict(output)[key]
            for key in ("question", "decision", "reason", "reason_code", "confidence")
        }
        told |= decision.advice_metadata()
        if (gate := self._active_gate) is not None and gate.advisor is not None:
            told["advisor"] = gate.usage.counts()
        told["ids"] = [document.id for document in output["documents"]]
        for name, key in (("scores", "score"), ("sigma2", "sigma2"), ("relevance", "relevance")):
            told[name] = [document.metadata.get(f"uec_{key}") for document in output["documents"]]
        return told


def _is_over_a_source(retriever: object) -> TypeGuard[UECRetriever]:
    """Return whether a retriever is `UECRetriever.over` another package's store."""
    return isinstance(retriever, UECRetriever) and not retriever.index.store.can_list


def _batch_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of one question as those of a batch, with a list of histories."""
    history = options.pop("history", None)
    return options if history is None else {**options, "history": [history]}
