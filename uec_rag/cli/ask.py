"""`uec-rag ask`: a question to an index."""

from pathlib import Path
from typing import Annotated

import typer

from uec_rag.base.manifest import MANIFEST
from uec_rag.cli.answers import LEGEND, answer_record, print_answer
from uec_rag.cli.console import print_json, say
from uec_rag.cli.options import Json


def ask(
    index: Annotated[
        Path, typer.Argument(metavar="INDEX", help="A folder that 'uec-rag index' made.")
    ],
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="In quotes.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Passages to show.")] = 5,
    json: Json = False,
) -> None:
    """Answer a question from an index: the best passages, and whether to trust them.

    Example: uec-rag ask idx "How do I reset my password?"
    """
    if not question.strip():
        raise ValueError("QUESTION is empty; expected some words")
    if not (index / MANIFEST).is_file():
        raise FileNotFoundError(
            f"INDEX: there is no index in {str(index)!r}; make one: uec-rag index FOLDER --out IDX"
        )
    say(f"Opening {index} ...")
    from uec_rag.retrieval import Retriever

    result = Retriever.load(index).search([question], k=k)
    if json:
        print_json(answer_record(result, 0))
    else:
        print_answer(result, 0, snippet=240)
        say(LEGEND)
