"""The gate as a LangChain runnable: answer, ask back or abstain."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import Annotated, Any, Self, TypeAlias, TypeGuard, Unpack, cast

from langchain_core.callbacks import (
    AsyncCallbackManagerForChainRun,
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForChainRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel, BaseLanguageModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    Runnable,
    RunnableBranch,
    RunnableConfig,
    RunnableLambda,
    RunnableSequence,
    RunnableSerializable,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase, coerce_to_runnable
from langchain_core.runnables.config import ensure_config
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.tracers._streaming import _StreamingCallbackHandler, _V2StreamingCallbackHandler
from langchain_core.vectorstores import VectorStoreRetriever
from pydantic import BeforeValidator, ConfigDict, SkipValidation, model_validator

from uec_rag.adapters import indexes
from uec_rag.adapters.other_retrievers import judge, keeping_findings, pending_on
from uec_rag.adapters.tool import Outcome, model_prompt, outcome_of
from uec_rag.base.checks import check_type
from uec_rag.base.files import as_path, is_index
from uec_rag.base.loops import beside, either
from uec_rag.confidence.decision import Decision
from uec_rag.confidence.model import NEAREST
from uec_rag.encoders.loading import EncoderLike
from uec_rag.ensemble import UEC
from uec_rag.gates.advisor import PROMPT, Advisor, ask_model
from uec_rag.gates.decision_models import APART
from uec_rag.gates.gate import GATE_FILE, Gate, check_gate
from uec_rag.gates.rulings import Pending
from uec_rag.index import Retriever
from uec_rag.index.save import close_saved
from uec_rag.langchain.conversion import (
    CallOptions,
    Question,
    check_config,
    in_run,
    passages_of,
    question_of,
    turns,
    with_options,
    with_uncertainty,
)
from uec_rag.langchain.gated import DECIDED, AsTool, Gated, innermost, narrow, reply_of, to_gated
from uec_rag.langchain.vectorstore import UECRetriever, UECVectorStore
from uec_rag.questions.query import Query
from uec_rag.retrieval import SearchResult
from uec_rag.retrieval.results import HitMetadata, own_metadata
from uec_rag.stores.source import SourceStore


def chat_advisor(model: Runnable[Any, Any], template: str = PROMPT) -> Advisor:
    """Create an advisor from a chat model, also a bound or retried one, or one before a parser.

    `template`: the prompt, with the fields `question` and `passages`.

    Examples
    --------
    >>> from langchain_core.language_models import FakeListChatModel
    >>> advisor = chat_advisor(FakeListChatModel(responses=['{"verdict": "answer"}']))
    >>> advisor("What purrs?", ["Cats purr."]).content
    '{"verdict": "answer"}'
    """
    return partial(ask_model, partial(_call_apart, model), template)


def _call_apart(model: Runnable[Any, Any], prompt: str) -> object:
    """Call a model as a part of the run that asks it, but in no stream that a user reads.

    Callbacks trace the call and count its tokens. LangGraph leaves it out by its tag; what makes
    events or patches of a run for a user is left out of the handlers.
    """
    config = ensure_config({"tags": [APART]})
    callbacks = config.get("callbacks")
    if isinstance(callbacks, list):
        config["callbacks"] = [one for one in callbacks if not isinstance(one, _STREAMING)]
    elif callbacks is not None:
        manager = callbacks.copy()
        for name in ("handlers", "inheritable_handlers"):
            kept = [one for one in getattr(manager, name) if not isinstance(one, _STREAMING)]
            setattr(manager, name, kept)
        config["callbacks"] = manager
    return model.invoke(prompt, config)


Advising: TypeAlias = BaseChatModel | Runnable[Any, Any] | Advisor
"""A chat model, perhaps wrapped, or any other advisor."""

_STREAMING = (_StreamingCallbackHandler, _V2StreamingCallbackHandler)


Way: TypeAlias = str | BaseChatModel | Runnable[Any, Any] | Callable[[Any], Any]
"""The goal of an outcome: a text, a model, or a chain or function of a gate's output."""


def is_model(runnable: object) -> TypeGuard[Runnable[Any, Any]]:
    """Return whether a runnable is a language model, perhaps bound, retried, or before a parser."""
    while not isinstance(runnable, BaseLanguageModel):
        if isinstance(runnable, RunnableBindingBase):
            runnable = runnable.bound
        elif isinstance(runnable, RunnableWithFallbacks):
            runnable = runnable.runnable
        elif isinstance(runnable, DynamicRunnable):
            runnable = runnable.default
        elif isinstance(runnable, RunnableSequence):
            runnable = runnable.first
        else:
            return False
    return True


def as_branch(way: Way) -> Runnable[Any, Any]:
    """Return the runnable that an outcome goes to."""
    if isinstance(way, str):
        return RunnableLambda(lambda _: way)
    if is_model(way):
        prompt: Runnable[Any, str] = RunnableLambda(
            lambda gated: model_prompt(gated["question"], reply_of(gated))
        )
        return prompt | way
    return coerce_to_runnable(way)


def as_advisor(advisor: Advising | None) -> Advisor | None:
    """Return the advisor that a model makes; anything else is returned unchanged."""
    return chat_advisor(advisor) if is_model(advisor) else cast(Advisor | None, advisor)


class _Judged(BaseRetriever):
    """The first k documents of another retriever, which are judged among thirty of it."""

    retriever: SkipValidation[BaseRetriever]
    uec: SkipValidation[UEC]
    k: int | None

    @classmethod
    def of(cls, retriever: BaseRetriever, uec: UEC) -> Self:
        """Return a retriever whose documents are judged, asked for thirty where it can be."""
        k: int | None = getattr(retriever, "k", None)
        update: dict[str, Any] = {"k": NEAREST}
        if isinstance(retriever, VectorStoreRetriever):
            k = retriever.search_kwargs.get("k", 4)
            update = {"search_kwargs": retriever.search_kwargs | update}
        source = retriever if k is None else retriever.model_copy(update=update)
        return cls(retriever=source, uec=uec, k=k)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        ask = either(self.retriever.invoke, self.retriever.ainvoke)
        return self._judge(query, ask(query, {"callbacks": run_manager.get_child()}))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        documents = await self.retriever.ainvoke(query, {"callbacks": run_manager.get_child()})
        return await beside(self._judge, query, documents)

    def _judge(self, query: str, documents: list[Document]) -> list[Document]:
        [judged] = judge(self.uec, query, passages_of(documents))
        return with_uncertainty(SearchResult([judged if self.k is None else judged.first(self.k)]))


class UECGate(AsTool[Question, Gated], RunnableSerializable[Question, Gated]):
    """Retrieves, and decides whether to answer, ask for clarification or abstain.

    Takes a question, or a mapping with a "question" or an "input", whose other keys are passed on;
    returns the keys of `Gated`. A call, or the mapping, may set `k`, `filter` and `tenant` (the
    guarantee is for the retriever's), `history` (or "chat_history", or "messages" as in a graph's
    state) and `within`, as in `UECRetriever`.

    Parameters
    ----------
    retriever : UECRetriever or Runnable
        The retriever to gate. It may also be a LangChain retriever over a `UECRetriever`
        (history-aware, `MultiQueryRetriever`, `EnsembleRetriever`,
        `ContextualCompressionRetriever`, ...), in which case the decision with the highest
        confidence among its documents is used, and `k` and `filter` are not supported. With
        `embedding`, it may be any retriever.
    embedding : UEC or Embeddings, optional
        Judges the documents of any other retriever, in its order; it is asked for thirty, of which
        as many as it returns otherwise are handed on. Confidence is unreliable if the ensemble is
        not fitted; `UECRetriever.over(...).fit_from(documents).index.uec` is.
    gate : Gate, optional
        A gate from `Gate.from_labels`; by default, that of the retriever's index.
    advisor : BaseChatModel, decision model or callable(question, texts) -> Advice, optional
        Reads the documents once per borderline question (`Gate.advisor`). A chat model, also one
        with `with_retry`, `with_fallbacks`, `bind` or a parser, receives the prompt of
        `chat_advisor`; if it says that the documents do not answer the question, its
        rewrite of it is searched for. A decision model (`BaseDecisionModel`, `TypeSafeClassifier`,
        `OpenAIDecisions`, `uec_rag.gates.decision_models.SystemOne`) gives a probability.
    rewriter : BaseChatModel or callable, optional
        Rewrites questions that a decision model declines.
    tenant_required : bool
        Whether a question without a tenant, of the retriever or of the call, is refused.

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

    embedding: Annotated[UEC | None, BeforeValidator(indexes.as_judge)] = None
    retriever: SkipValidation[UECRetriever | Runnable[Any, Any]]
    gate: Annotated[Gate | None, BeforeValidator(check_gate)] = None
    advisor: Annotated[Advising | None, BeforeValidator(as_advisor)] = None
    rewriter: Annotated[Advising | None, BeforeValidator(as_advisor)] = None
    tenant_required: bool = False

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_fields(cls, fields: object) -> object:
        """Tell where a gate's own options and the retriever go."""
        if isinstance(fields, dict):
            if options := fields.keys() & {"threshold", "max_wrong", "max_risk", "k"}:
                raise TypeError(
                    f"{min(options)}: UECGate expects gate=. Call UECGate(retriever=retriever, "
                    "gate=Gate(threshold)), or UECGate.from_labels for a guarantee."
                )
            if "retriever" not in fields:
                raise TypeError(
                    "retriever: expected a UECRetriever, or another retriever with embedding=, got "
                    "nothing. Call UECGate(retriever=retriever)."
                )
        return fields

    @model_validator(mode="after")
    def _complete(self) -> Self:
        check_type(self.retriever, Runnable, "retriever", "a retriever (see UECRetriever.over)")
        if self.embedding is not None and not isinstance(self.retriever, UECRetriever | _Judged):
            self.retriever = _Judged.of(cast(BaseRetriever, self.retriever), self.embedding)
        gate, below = self._active_gate or Gate(), self.retriever
        self.tenant_required |= gate.tenant_required
        if self.tenant_required and isinstance(below, UECRetriever) and not below.tenant_required:
            self.retriever = below.model_copy(update={"tenant_required": True})
        if self.tenant_required and not isinstance(self.retriever, UECRetriever):
            raise TypeError(
                f"tenant_required: a UECGate over {type(self.retriever).__name__} passes no tenant "
                "on; require it in the UECRetriever below."
            )
        advisor, rewriter = as_advisor(self.advisor), as_advisor(self.rewriter)
        if advisor is not None and gate.advisor is not advisor:
            self.gate = gate = replace(gate, advisor=advisor)
        if rewriter is not None and gate.rewriter is not rewriter:
            self.gate = replace(gate, rewriter=rewriter)
        return self

    @property
    def _active_gate(self) -> Gate | None:
        """The gate that decides: its own, else that of the retriever now; None for 0.5."""
        if self.gate is None and isinstance(self.retriever, UECRetriever):
            return self.retriever.index.gate
        return self.gate

    @classmethod
    def from_labels(
        cls,
        retriever: UECRetriever,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        advisor: Advising | None = None,
        *,
        max_wrong: float | None = None,
        max_risk: float | None = None,
        certainty: float = 0.95,
        rewriter: Advising | None = None,
    ) -> Self:
        """Create a gate that keeps wrong answers below a target.

        Parameters
        ----------
        retriever : UECRetriever
            A retriever whose k is the number of hits that an answer may use, and whose filter
            selects the passages.
        advisor : BaseChatModel or callable, optional
            As in the class; asked once for each query.
        rewriter : BaseChatModel or callable, optional
            As in the class.
        queries, relevant_ids, max_wrong, max_risk, certainty
            As in `uec_rag.Gate.from_labels`.
        """
        if not isinstance(retriever, UECRetriever):
            raise TypeError(
                f"retriever: expected a UECRetriever, got {type(retriever).__name__}; make the "
                "gate with the UECRetriever below it, and give it to UECGate(retriever=, gate=)."
            )
        gate = Gate.from_labels(
            retriever.index,
            queries,
            relevant_ids,
            max_wrong=max_wrong,
            max_risk=max_risk,
            certainty=certainty,
            advisor=as_advisor(advisor),
            rewriter=as_advisor(rewriter),
            **{name: retriever._defaults[name] for name in ("k", "filter", "tenant")},
        )
        return cls(retriever=retriever, gate=gate)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the gate to a folder; over another store, with the fit, but without passages.

        Without a gate, the default threshold is saved. If a tenant is required, it is saved with
        the gate, and with the index in that folder.
        """
        gate, retriever, folder = self._active_gate or Gate(), self.retriever, as_path(path)
        required = self.tenant_required or getattr(retriever, "tenant_required", False)
        if isinstance(retriever, UECRetriever) and folder == retriever.index.folder:
            retriever.index.check_whole("save")  # where the gate would decide for all
        if _is_over_a_source(retriever):
            retriever.index.save(folder, tenant_required=required or None)
        elif required and is_index(folder):
            close_saved(folder)
        folder.mkdir(parents=True, exist_ok=True)
        replace(gate, tenant_required=required).save(folder / GATE_FILE)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        retriever: UECRetriever | Runnable[Any, Any],
        advisor: Advising | None = None,
        encoders: Mapping[str, EncoderLike] | None = None,
    ) -> Self:
        """Load a gate from a folder that `save` has written.

        Parameters
        ----------
        path : path
        retriever : UECRetriever or Runnable
            The retriever of the gate; one over another store gets the saved fit.
        advisor : BaseChatModel or callable, optional
            The advisor that the gate was made with, which is not saved.
        encoders : mapping, optional
            For a fit over another store, whose models have other names now: as in `UEC.load`.

        Raises
        ------
        FileNotFoundError
            If there is no gate.
        IndexCorrupted, FingerprintMismatch
            If it is damaged, or an encoder is another than the saved ensemble's.
        """
        gate = Gate.load(as_path(path) / GATE_FILE, as_advisor(advisor))
        if _is_over_a_source(retriever):
            index = indexes.load_over(path, retriever.index, {"encoders": encoders})
            retriever = _with_index(retriever, index)
        return cls(retriever=retriever, gate=gate)

    def drift(self, questions: Sequence[str]) -> str | None:
        """Search for recent questions, and return a warning if they are unlike those of the gate.

        It takes 32 questions or more; see `uec_rag.confidence.risk.drift`.
        """
        gate = self._active_gate
        if gate is None or not gate.confidences or not isinstance(self.retriever, UECRetriever):
            raise ValueError("gate: expected one from from_labels, over a UECRetriever.")
        defaults = self.retriever._defaults
        result = self.retriever.index.with_gate(None).search(
            [*questions], gate.k, filter=defaults["filter"], tenant=defaults["tenant"]
        )
        return gate.drift([row.confidence_at(gate.k) for row in result])

    def route(
        self,
        answer: Way,
        clarify: Way | None = None,
        abstain: Way | None = None,
        uncertain: Way | None = None,
    ) -> Runnable[Question, Any]:
        """Send each outcome to a text, a chain or a chat model.

        A chain receives the gate's output; a model the question with what an agent is told of it:
        the decision, what to do, and the passages or the readings.

        Parameters
        ----------
        answer, clarify, abstain : str, BaseChatModel or Runnable
            By default, the clarifying question and the reason are said.
        uncertain : str, BaseChatModel or Runnable, optional
            For passages that are near but may not answer (reason_code "uncertain"), which a model
            can read with that caveat; by default, `abstain`.
        """
        ways: dict[Outcome, Way] = {"answer": answer}
        ways["clarify"] = itemgetter("clarifying_question") if clarify is None else clarify
        ways["abstain"] = itemgetter("reason") if abstain is None else abstain
        ways["uncertain"] = ways["abstain"] if uncertain is None else uncertain

        def leads_to(way: Outcome) -> Callable[[Gated], bool]:
            return lambda gated: outcome_of(gated["decision"], gated["reason_code"]) == way

        branches = [(leads_to(name), as_branch(way)) for name, way in ways.items()]
        return self | RunnableBranch(*branches[:-1], branches[-1][1])

    @property
    def limits(self) -> Mapping[str, Any]:
        """See `AsTool.limits`."""
        inner = innermost(self.retriever)
        return inner.limits if isinstance(inner, AsTool) else {}

    def narrowed(self, limits: Mapping[str, Any]) -> Self:
        """See `AsTool.narrowed`."""
        return self.model_copy(update={"retriever": narrow(self.retriever, limits)})

    def invoke(  # type: ignore[override]
        self, input: Question, config: RunnableConfig | None = None, **kwargs: Unpack[CallOptions]
    ) -> Gated:
        """Retrieve and decide."""
        check_config(config)
        run = self._decide
        return self._call_with_config(run, input, config, **kwargs)  # type: ignore[arg-type]

    async def ainvoke(  # type: ignore[override]
        self, input: Question, config: RunnableConfig | None = None, **kwargs: Unpack[CallOptions]
    ) -> Gated:
        """Run `invoke` without blocking the event loop, in which an advisor is asked."""
        check_config(config)
        run = self._adecide
        return await self._acall_with_config(run, input, config, **kwargs)  # type: ignore[arg-type]

    def _decide(
        self,
        input: Question,
        config: RunnableConfig,
        run_manager: CallbackManagerForChainRun,
        **call: Any,
    ) -> Gated:
        retriever, query, options, rule = self._prepare(input, config, call)
        with in_run(run_manager):
            documents = _retrieve(retriever, query, config, **options)
            return _output(input, *rule(documents).finish())

    async def _adecide(
        self,
        input: Question,
        config: RunnableConfig,
        run_manager: AsyncCallbackManagerForChainRun,
        **call: Any,
    ) -> Gated:
        if isinstance(self.retriever, UECRetriever):
            await self.retriever.index.afit_once()
        prepared = await beside(self._prepare, input, config, call)
        retriever, query, options, rule = prepared
        with in_run(run_manager):
            with keeping_findings(_text_of, _merged) as keep:
                documents = keep(await retriever.ainvoke(query, config, **options))
            pending = await beside(rule, documents)
            return _output(input, *await pending.afinish())

    def _prepare(
        self, input: Question, config: RunnableConfig, call: Mapping[str, Any]
    ) -> tuple[
        Runnable[Any, Any],
        Question,
        dict[str, Any],
        Callable[[list[Document]], Pending[list[Document]]],
    ]:
        """Return the retriever, its input and options, and what decides on its documents."""
        question, options = with_options(input, call, None)
        retriever, gate, search = self.retriever, self.gate, None
        query: Question = question
        text = question
        if isinstance(retriever, UECRetriever):  # in which the gate decides
            if gate is not None:
                retriever = _with_index(retriever, retriever.index.with_gate(gate))
            gate = None
        else:
            history = None if "history" in call else options.pop("history", None)
            if not isinstance(innermost(retriever), AsTool):
                check_config(config, {})
            if options:
                raise TypeError(
                    f"a UECGate over {type(retriever).__name__} takes no options, got "
                    f"{', '.join(options)}; set them in the UECRetriever below it."
                )
            text = Query.parse(question, turns(history)).lines
            if isinstance(innermost(retriever), AsTool):
                query = {"question": question, "chat_history": history}
            elif isinstance(input, Mapping) and not isinstance(retriever, BaseRetriever):
                query = {"input": question, **input}
            search = partial(_retrieve, retriever, config=config)
        problem = f"those of this {type(retriever).__name__} have none"
        expected = f"{DECIDED[:-1]}; {problem}; with embedding=, any retriever is judged."
        return (
            retriever,
            query,
            options,
            lambda hits: pending_on(hits, gate, text, _text_of, expected, search),
        )


_text_of = attrgetter("page_content")


def _retrieve(
    retriever: Runnable[Any, Any], query: Question, config: RunnableConfig, **options: Any
) -> list[Document]:
    """Return the documents of a retriever, with what was found of those that they contain."""
    with keeping_findings(_text_of, _merged) as keep:
        return keep(either(retriever.invoke, retriever.ainvoke)(query, config, **options))


def _merged(document: Document, findings: dict[str, Any]) -> Document:
    """Return a document that has taken the place of hits, with what was found of these."""
    merged = document.model_copy()
    merged.metadata = HitMetadata(own_metadata(document.metadata) | findings)
    return merged


def _output(input: Question, outcome: tuple[Decision, list[Document]]) -> Gated:
    """Return the output, with the other keys of the input; a reading is of one search alone."""
    decision, documents = outcome
    extra = {k: v for k, v in input.items() if k != "within"} if isinstance(input, Mapping) else {}
    output = to_gated(question_of(input), documents, decision)
    return cast(Gated, {**extra, **output})


def _with_index(retriever: UECRetriever, index: Retriever) -> UECRetriever:
    return retriever.model_copy(update={"vectorstore": UECVectorStore(index)})


def _is_over_a_source(retriever: object) -> TypeGuard[UECRetriever]:
    """Return whether a retriever is `UECRetriever.over` another package's store."""
    return isinstance(retriever, UECRetriever) and isinstance(retriever.index.store, SourceStore)
