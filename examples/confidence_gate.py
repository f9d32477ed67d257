"""From calibration to decision: a LangChain gate that keeps the share of wrong answers in check.

    python examples/confidence_gate.py

Pairs made from Python's own documentation stand in for your labelled questions: some calibrate the
confidence of `UEC()`, some set the gate's threshold, and the rest show how it does. One answer in
ten is not in the index.
"""

import random

from langchain_core.runnables import RunnableLambda

from uec_rag import UEC
from uec_rag.documents import fitting_pairs
from uec_rag.documents.python_docs import gather_corpus
from uec_rag.langchain import UECGate, UECRetriever

RISK = 0.3


def split(pairs, seed: int = 0):
    """Pairs to calibrate on, for the threshold, and to look at."""
    shuffled = random.Random(seed).sample(pairs, len(pairs))
    first, second = (int(len(pairs) * share) for share in (0.3, 0.7))
    return shuffled[:first], shuffled[first:second], shuffled[second:]


def build_gate(uec: UEC | None = None, passages: int = 1500, max_risk: float = RISK):
    """A calibrated gate, and questions that nothing was fitted on with their right passages."""
    calibrate, threshold, rest = split(fitting_pairs(gather_corpus(passages)))
    # One answer in ten is left out: users also ask what no document says.
    indexed = [p for i, (_, p) in enumerate(calibrate + threshold + rest) if i % 10]
    ids = {text: str(number) for number, text in enumerate(indexed)}
    retriever = UECRetriever.from_texts(indexed, uec, ids=list(ids.values()), k=5)

    def labelled(pairs):
        return [q for q, _ in pairs], [[ids[p]] if p in ids else [] for _, p in pairs]

    retriever.index.calibrate(*labelled(calibrate))
    gate = UECGate.from_labels(retriever, *labelled(threshold), max_risk=max_risk)
    return gate, *labelled(rest)


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
        f"{1 - sum(right) / len(right):.0%}; the gate answers {len(answered) / len(right):.0%} "
        f"and is wrong in {1 - sum(answered) / max(1, len(answered)):.0%} of these."
    )
    chain = gate.route(
        answer=RunnableLambda(lambda f: "answer from: " + f["documents"][0].page_content[:50]),
        clarify=RunnableLambda(lambda f: f"ask back, {len(f['candidates'])} candidates"),
        abstain=RunnableLambda(lambda f: f"I do not know ({f['reason']})"),
    )
    for question in (*questions[:4], "What is the capital of France?"):
        print(f"  {question[:60]!r}: {chain.invoke(question)}")


if __name__ == "__main__":
    main()
