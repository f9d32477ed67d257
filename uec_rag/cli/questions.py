"""`uec-rag questions`: the questions whose labels would teach a gate most."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uec_rag.base.checks import six_digits
from uec_rag.cli.console import Index, Json, open_index, print_json, print_text
from uec_rag.documents.labels import read_questions


def questions(
    index: Index,
    asked: Annotated[Path | None, typer.Argument(metavar="ASKED")] = None,
    most: Annotated[int, typer.Option(min=1)] = 10,
    json: Json = False,
) -> None:
    """List the questions to label next: those that a label would teach most.

    These are the questions without a label whose confidence is nearest to the threshold, one for
    each passage that is found first. Label them on the page of 'uec-rag explore', with
    `Retriever.label` or POST /labels.

    Example: uec-rag questions idx asked.csv

    Parameters
    ----------
    asked
        A .csv file with a column query; the default is headings of the passages.
    most
        List at most so many.
    """
    from uec_rag.evaluation.labels import questions_to_ask, questions_to_label

    own = [] if asked is None else [*read_questions(asked, labelled=False)]
    retriever = open_index(index)
    own = questions_to_ask(retriever) if asked is None else own
    rows = [
        (result.query, result.decision.confidence)
        for result in questions_to_label(retriever, own, most)
    ]
    if json:
        print_json(six_digits([{"query": query, "confidence": sure} for query, sure in rows]))
    else:
        print_text("\n".join(f"{sure:.2f}  {query}" for query, sure in rows))
