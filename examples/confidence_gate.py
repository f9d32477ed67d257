"""From labels to decisions: a LangChain gate that keeps the share of wrong answers in check.

    python examples/confidence_gate.py

"What does X do?" for the functions of Python's own documentation stand in for your labelled
questions: some calibrate the confidence of `UEC()`, some set the gate's threshold, and the rest
show how it does. One function in ten is not in the index.
"""

import random

from langchain_core.runnables import RunnableLambda

from uec_rag import UEC
from uec_rag.documents import passages_of
from uec_rag.documents.python_docs import gather_corpus
from uec_rag.langchain import UECGate, UECRetriever

RISK = 0.1
QUESTIONS = (
    "How do I remove common leading whitespace from every line?",
    "What does join do?",
    "What is the capital of France?",
)


def split(labelled, seed: int = 0):
    """Questions to calibrate on, for the threshold, and to look at."""
    shuffled = random.Random(seed).sample(labelled, len(labelled))
    first, second = (int(len(labelled) * share) for share in (0.3, 0.7))
    return shuffled[:first], shuffled[first:second], shuffled[second:]


def build_gate(uec: UEC | None = None, passages: int = 600, max_risk: float = RISK):
    """A calibrated gate, and questions that nothing was fitted on with their right passages."""
    corpus = passages_of(gather_corpus(passages))
    titles = {p.id: str(p.metadata["title"]) for p in corpus if "." in str(p.metadata["title"])}
    # One function in ten is left out: users also ask what no document says.
    gone = {*sorted({*titles.values()})[::10]}
    indexed = [passage for passage in corpus if titles.get(passage.id) not in gone]
    retriever = UECRetriever.from_texts(
        [passage.text for passage in indexed],
        uec,
        metadatas=[passage.metadata for passage in indexed],
        ids=[passage.id for passage in indexed],
        k=4,
    )
    ids: dict[str, list[str]] = {f"What does {title} do?": [] for title in titles.values()}
    for passage in indexed:
        if passage.id in titles:
            ids[f"What does {titles[passage.id]} do?"].append(passage.id)
    parts = split([*ids.items()])
    calibrate, threshold, rest = (([q for q, _ in part], [i for _, i in part]) for part in parts)
    retriever.index.calibrate(*calibrate)
    return UECGate.from_labels(retriever, *threshold, max_risk=max_risk), *rest


def main() -> None:
    print("Indexing and calibrating on Python's documentation, about half a minute ...")
    gate, questions, answers = build_gate()
    print(gate.retriever.report)
    print(gate.gate.report)
    found = gate.batch(questions)
    right = [
        any(d.id in ids for d in f["documents"]) for f, ids in zip(found, answers, strict=True)
    ]
    answered = [r for r, f in zip(right, found, strict=True) if f["decision"] == "answer"]
    print(
        f"On {len(questions)} other questions: answering all would be wrong in "
        f"{1 - sum(right) / len(right):.0%}; the gate answers {len(answered) / len(right):.0%}"
        + (f" and is wrong in {1 - sum(answered) / len(answered):.0%} of these." * bool(answered))
    )
    chain = gate.route(
        answer=RunnableLambda(lambda f: "answer from: " + f["documents"][0].metadata["title"]),
        clarify=RunnableLambda(lambda f: f"ask back: {f['clarifying_question']}"),
        abstain=RunnableLambda(lambda f: f"I do not know. {f['reason']}"),
    )
    for question in QUESTIONS:
        print(f"{question}\n  {chain.invoke(question)}")


if __name__ == "__main__":
    main()
