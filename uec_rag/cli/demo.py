"""`uec-rag demo`: six questions about the documentation that comes with Python."""

from typing import Annotated

import typer

from uec_rag.cli.ask import LEGEND, print_answer
from uec_rag.cli.console import Json, build_ensemble, print_json, say

QUESTIONS = (
    "What does textwrap.dedent do?",
    "What does itertools.groupby do?",
    "What does builtins.classmethod do?",
    "What does pop do?",  # many classes have one
    "What does split do?",
    "What is the capital of France?",
)


def demo(passages: Annotated[int, typer.Option(min=100)] = 600, json: Json = False) -> None:
    """Index Python's own documentation and ask it six questions.

    Takes half a minute: the passages are embedded.

    Example: uec-rag demo

    Parameters
    ----------
    passages
        How many passages to index; fewer are faster.
    """
    from uec_rag.documents.python_docs import CHUNK_SIZE, gather_corpus
    from uec_rag.retrieval import Retriever
    from uec_rag.retrieval.files import replace_files
    from uec_rag.retrieval.tool import answer_record

    say("Three questions name a function, two a name that many share, one is about France.")
    retriever = Retriever(build_ensemble(None))
    replace_files(retriever, gather_corpus(passages), size=CHUNK_SIZE)
    results = retriever.search(QUESTIONS, k=3)
    if json:
        answers = [answer_record(result) for result in results]
        print_json({"passages": len(retriever), "questions": answers})
        return
    say(LEGEND)
    for result in results:
        print_answer(result, first=240)
    say('Now your own documents: uec-rag index FOLDER --out idx; uec-rag ask idx "..."')
