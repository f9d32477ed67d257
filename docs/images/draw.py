"""The gallery: every picture of `uec_rag.paper.plots`, drawn from a corpus that every Python has.

Questions and answers are made from Python's own documentation: a docstring's first sentence asks
for the rest. The ensemble that needs no hub is fitted and calibrated on one half of them, the
pictures show the other. The documentation of a quarter of the modules is not in the corpus: what
is asked about them has no answer there. Under two minutes on two cores; seconds when run again, as
embeddings are kept.

What a search and a passage cost by store and size is drawn from what was measured of them once,
which takes hours: docs/results/scale, by `engines.py --json` and `ten_million.py --json`.

    python docs/images/draw.py [--out docs/images]
"""

# ruff: noqa: RUF001 - Chinese questions end in a Chinese question mark
from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from uec_rag import UEC, Retriever
from uec_rag.confidence.risk import risk_threshold
from uec_rag.corpora import fitting_pairs
from uec_rag.corpora.python_docs import CHUNK_SIZE, gather_corpus
from uec_rag.encoders import EMBEDDED, CachedEncoder, load_encoder
from uec_rag.encoders.artifacts import cache_folder
from uec_rag.paper import plots
from uec_rag.retrieval.result import SearchResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_K = 10
_MISSING = 0.25  # share of the modules that the corpus lacks
_RISK = 0.15  # of a wrong answer, that the gate allows
_DPI = 130
_MEASURED = Path(__file__).parent.parent / "results" / "scale"

OTHER_QUESTIONS = {
    "English, other topics": (
        "How long should bread dough rest before baking?",
        "Which river flows through Vienna?",
        "What helps against a sore throat?",
        "When was the printing press invented?",
        "How do bees find their way home?",
        "Who painted the Mona Lisa?",
        "How do I remove a red wine stain from a carpet?",
        "Why is the sky blue?",
        "What is the offside rule in football?",
        "How often should tomatoes be watered?",
    ),
    "German": (
        "Wie lange muss Brotteig vor dem Backen ruhen?",
        "Welcher Fluss fließt durch Wien?",
        "Was hilft gegen Halsschmerzen?",
        "Wann wurde der Buchdruck erfunden?",
        "Wie finden Bienen nach Hause?",
        "Wie öffne ich eine Datei zum Lesen?",
        "Wie sortiere ich eine Liste von Zahlen?",
        "Warum ist der Himmel blau?",
        "Wie wandle ich einen Text in eine Zahl um?",
        "Wie oft soll man Tomaten gießen?",
    ),
    "Russian": (
        "Сколько времени должно подходить тесто для хлеба?",
        "Какая река протекает через Вену?",
        "Что помогает от боли в горле?",
        "Когда изобрели книгопечатание?",
        "Как пчёлы находят дорогу домой?",
        "Как открыть файл для чтения?",
        "Как отсортировать список чисел?",
        "Почему небо голубое?",
        "Как превратить строку в число?",
        "Как часто нужно поливать помидоры?",
    ),
    "Chinese": (
        "烤面包之前面团要发酵多久？",
        "哪条河流经维也纳？",
        "喉咙痛怎么办？",
        "印刷术是什么时候发明的？",
        "蜜蜂怎样找到回家的路？",
        "怎样打开一个文件来读取？",
        "怎样给一列数字排序？",
        "天空为什么是蓝色的？",
        "怎样把字符串转换成数字？",
        "西红柿多久浇一次水？",
    ),
}
"""For the heatmap: questions that the corpus does not answer, or not in its own language."""


@dataclass(frozen=True)
class Question:
    """A question, the text that answers it, and the module ("": the language reference)."""

    text: str
    answer: str
    module: str


@dataclass(frozen=True, eq=False)
class Shown:
    """Questions that were not fitted on, and what was found for them.

    Attributes
    ----------
    questions : list of Question
    result : SearchResult
    relevant : array, shape (n, k)
        Which hits are the answer.
    cosine : array, shape (n,)
        Top cosine of the best single encoder.
    best : str
        That encoder.
    """

    questions: list[Question]
    result: SearchResult
    relevant: NDArray[np.bool_]
    cosine: NDArray[np.floating]
    best: str

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Whether the answer is among the hits."""
        return self.relevant.any(axis=1)

    @property
    def ndcg(self) -> NDArray[np.float64]:
        """nDCG@10 of each question; there is one answer to it."""
        return _ndcg(self.relevant)


def gather_questions() -> list[Question]:
    """Make questions of all documentation, shuffled."""
    found: dict[str, Question] = {}
    for document in gather_corpus(10_000):
        name = document.source.removeprefix("topics/")
        module = name.split(".")[0] if name == document.source else ""
        for text, answer in fitting_pairs([document], size=CHUNK_SIZE):
            found.setdefault(text, Question(text, f"{name}\n\n{answer}", module))
    questions = list(found.values())
    return [questions[row] for row in np.random.default_rng(0).permutation(len(questions))]


def ask_other_half(questions: list[Question]) -> tuple[Retriever, Shown]:
    """Fit and calibrate on one half of the questions, ask the other."""
    modules = sorted({q.module for q in questions} - {""})
    missing = set(np.random.default_rng(0).permutation(modules)[: round(_MISSING * len(modules))])
    there = [q for q in questions if q.module not in missing]
    half = len(questions) // 2
    known, shown = questions[:half], questions[half:]
    encoders = [
        CachedEncoder(load_encoder(member), cache_folder() / "embeddings")
        for member in EMBEDDED
        if member != "bm25"
    ]
    retriever = Retriever(UEC([*encoders, "bm25"]).fit([(q.text, q.answer) for q in known]))
    retriever.add([q.answer for q in there], ids=[q.text for q in there])
    labels = [[] if q.module in missing else [q.text] for q in known]
    retriever.calibrate([q.text for q in known], labels, k=_K)
    result = retriever.search([q.text for q in shown], k=_K)
    relevant = _relevant(shown, result.ids)
    alone = []
    for encoder in encoders:
        queries = encoder.encode([q.text for q in shown], "query").embedding
        cosines = queries @ encoder.encode([q.answer for q in there], "passage").embedding.T
        top = np.argsort(-cosines, axis=1)[:, :_K]
        quality = _ndcg(_relevant(shown, [[there[i].text for i in row] for row in top])).mean()
        alone.append((quality, encoder.name, cosines.max(axis=1)))
    _, best, cosine = max(alone, key=lambda one: one[0])
    return retriever, Shown(shown, result, relevant, cosine, best)


def draw(retriever: Retriever, shown: Shown) -> Iterator[tuple[str, Figure]]:
    """Yield the pictures, each with the name of its file."""
    count = len(shown.questions)
    signals = {"UEC's confidence": shown.result.confidence, "best encoder's cosine": shown.cosine}

    figure = plots.abstention(signals, shown.ndcg)
    figure.axes[0].set_ylabel("mean nDCG@10 of the rest")
    yield "abstention", _titled(figure, f"Leaving out what is unsure, {count} questions")

    order = np.random.default_rng(1).permutation(count)
    learn, test = order[: count // 2], order[count // 2 :]
    gate = risk_threshold(shown.result.confidence[learn], shown.answered[learn], risk=_RISK)
    figure = plots.risk_coverage(
        {name: signal[test] for name, signal in signals.items()},
        shown.answered[test],
        threshold=gate.threshold,
        risk=_RISK,
    )
    yield "risk_coverage", _titled(figure, f"Answering the surest, {len(test)} questions")

    relevance, relevant = shown.result.relevance.ravel(), shown.relevant.ravel()
    figure = plots.reliability_diagram(relevance, relevant)
    yield "reliability", _titled(figure, f"Relevance of {len(relevant):,} hits")

    figure = plots.variance_error_bins(relevance, relevance * (1 - relevance), relevant)
    yield "variance_error", _titled(figure, "Relevance p: its variance p(1 − p), its error")

    groups = ["docstrings" if q.module else "language reference" for q in shown.questions]
    pi = [shown.result.coefficients]
    for group, texts in OTHER_QUESTIONS.items():
        pi.append(retriever.search(list(texts), k=_K).coefficients)
        groups += [group] * len(texts)
    figure = plots.coefficient_heatmap(np.concatenate(pi), groups, shown.result.names)
    yield "coefficients", _titled(figure, "Mean coefficients by kind of question")


def _relevant(questions: Sequence[Question], ids: Sequence[Sequence[str]]) -> NDArray[np.bool_]:
    return np.array([[i == q.text for i in row] for q, row in zip(questions, ids, strict=True)])


def _ndcg(relevant: NDArray[np.bool_]) -> NDArray[np.float64]:
    return relevant @ (1 / np.log2(np.arange(2, relevant.shape[1] + 2)))


def _titled(figure: Figure, title: str) -> Figure:
    figure.axes[0].set_title(title, loc="left", weight="bold", size=11)
    return figure


def cost(measured: Sequence[Mapping[str, Any]]) -> Figure:
    """Milliseconds a query and bytes on the disk against the number of passages, by store.

    Of an engine those with the fewest candidates; the lower one where kinds of questions differ.

    Parameters
    ----------
    measured : sequence of mapping
        What `benchmarks/engines.py --json` writes, of one encoder.
    """
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    times: dict[str, dict[int, float]] = {}
    sizes: dict[str, dict[int, float]] = {}
    for run in sorted(measured, key=lambda run: run["passages"]):
        for row in run["filled"]:
            whole = row["bytes"] + row.get("of its index", 0)
            sizes.setdefault(row["store"], {})[run["passages"]] = whole / 1e9
        given = [row["candidates"] for row in run["found"] if row.get("candidates")]
        for row in run["found"]:
            if row.get("candidates", 0) in (0, min(given, default=0)):
                points = times.setdefault(row["store"], {})
                known = points.get(run["passages"], np.inf)
                points[run["passages"]] = min(known, row["ms a query"])
    figure, _ = plots._figure(7.0, 8.4, (1, 1))
    titles = ("A search of one question, milliseconds", "On the disk, GB")
    for axes, title, by_store in zip(figure.axes, titles, (times, sizes), strict=True):
        axes.set(xscale="log", yscale="log")
        axes.set_title(title, loc="left", weight="bold", size=11)
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        for colour, store in zip(plots._COLOURS, sizes, strict=False):
            points = by_store[store]
            axes.plot([*points], [*points.values()], "o-", color=colour, linewidth=2, label=store)
        axes.legend(frameon=False)
    figure.axes[-1].set_xlabel("passages")
    return figure


def main(
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("docs/images"),
) -> None:
    """Draw the pictures, and print what they show."""
    console = Console()
    console.print("Fitting and asking; the first time takes a minute or two ...")
    retriever, shown = ask_other_half(gather_questions())
    console.print(
        f"{len(shown.questions)} questions to {len(retriever):,} passages: mean nDCG@10 "
        f"{shown.ndcg.mean():.3f}, answered in the first {_K}: {shown.answered.mean():.1%}. "
        f"Best single encoder: {shown.best}."
    )
    out.mkdir(parents=True, exist_ok=True)
    runs = [json.loads(file.read_text()) for file in sorted(_MEASURED.glob("*.json"))]
    for name, figure in (*draw(retriever, shown), ("cost", cost(runs))):
        # Without matplotlib's version in it, the same picture is the same file.
        figure.savefig(out / f"{name}.png", dpi=_DPI, metadata={"Software": None})
        console.print(f"{out / name}.png")


if __name__ == "__main__":
    typer.run(main)
