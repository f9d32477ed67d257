"""From calibration to decision: a LangChain gate that keeps the share of wrong answers in check.

    python examples/confidence_gate.py

Pairs made from Python's own documentation stand in for your labelled questions: some fit the
ensemble, some calibrate its confidence, some set the gate's threshold, and the rest show how it
does. One answer in ten is not in the index.
"""

import random

from langchain_core.runnables import RunnableLambda

from uec_rag import UEC
from uec_rag.corpora import fitting_pairs
from uec_rag.corpora.python_docs import gather_corpus
from uec_rag.encoders import EMBEDDED
from uec_rag.langchain import UECGate, UECRetriever

RISK = 0.3


def split(pairs, seed: int = 0):
    """Pairs to fit on, to calibrate on, for the threshold, and to look at."""
    shuffled = random.Random(seed).sample(pairs, len(pairs))
    ends = [int(len(pairs) * share) for share in (0.25, 0.45, 0.75)]
    return (
        shuffled[: ends[0]],
        shuffled[ends[0] : ends[1]],
        shuffled[ends[1] : ends[2]],
        shuffled[ends[2] :],
    )


def build_gate(encoders=EMBEDDED, passages: int = 3000, risk: float = RISK):
    """A calibrated gate, and questions that nothing was fitted on with their right passages."""
    fit, calibrate, threshold, rest = split(fitting_pairs(gather_corpus(passages)))
    uec = UEC(encoders).fit(fit)
    # One answer in ten is left out: users also ask what no document says.
    indexed = [p for i, (_, p) in enumerate(calibrate + threshold + rest) if i % 10]
    indexed = list(dict.fromkeys([*(p for _, p in fit), *indexed]))
    ids = {text: str(number) for number, text in enumerate(indexed)}
    retriever = UECRetriever.from_texts(indexed, uec, ids=list(ids.values()), k=5)

    def labelled(pairs):
        return [q for q, _ in pairs], [[ids[p]] if p in ids else [] for _, p in pairs]

    retriever.calibrate(*labelled(calibrate))
    gate = UECGate.calibrate(retriever, *labelled(threshold), risk=risk)
    return gate, *labelled(rest)


def main() -> None:
    print("Fitting and calibrating on Python's documentation, about two minutes ...")
    gate, questions, answers = build_gate()
    print(gate.retriever.report)
    print(gate.report)
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
