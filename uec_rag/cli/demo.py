"""`uec-rag demo`: six questions about the documentation that comes with Python."""

from collections import Counter
from typing import Annotated

import typer

from uec_rag.cli.ask import LEGEND, answer_record, print_answer
from uec_rag.cli.building import add_passages, build_ensemble
from uec_rag.cli.console import Json, out, print_json, say


def demo(
    passages: Annotated[
        int, typer.Option(min=100, help="How many passages to index; fewer are faster.")
    ] = 3000,
    json: Json = False,
) -> None:
    """Index Python's own documentation and ask it six questions.

    Three ask for a function in it, drawn at random, two use a name that many functions share, and
    one is about something else.

    Takes a minute the first time, then seconds.

    Example: uec-rag demo
    """
    say(
        "Six questions about Python's standard library, asked of its own documentation: three "
        "about functions drawn at random, two about names that many functions share, and one about "
        "something else."
    )
    from uec_rag.corpora import passages_of
    from uec_rag.corpora.python_docs import CHUNK_SIZE, draw_questions, gather_corpus
    from uec_rag.retrieval import Retriever

    documents = gather_corpus(passages)
    corpus = passages_of(documents, size=CHUNK_SIZE)
    questions = draw_questions(documents)
    retriever = Retriever(build_ensemble(None))
    add_passages(retriever, corpus)
    result = retriever.search(questions, k=3)
    if json:
        print_json(
            {
                "passages": len(corpus),
                "encoders": retriever.uec.names,
                "questions": [answer_record(result, row) for row in range(len(questions))],
            }
        )
        return
    out.print()
    for row in range(len(questions)):
        print_answer(result, row, first=150, others=150)
    say(LEGEND)
    counts = Counter(decision.action for decision in result.decisions)
    out.print(
        f"Of these {len(questions)} questions: answered {counts['answer']}, with a clarifying "
        f"question {counts['clarify']}, left unanswered {counts['abstain']}. A retriever that does "
        "not decide passes on three passages for each."
    )
    say('Now your own documents: uec-rag index FOLDER --out idx; uec-rag ask idx "..."')
