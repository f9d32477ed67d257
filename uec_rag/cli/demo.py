"""`uec-rag demo`: six questions to the documentation that comes with Python."""

import hashlib
import json as json_library
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uec_rag.cli.ask import LEGEND, WIDTH, answer_record, print_answer
from uec_rag.cli.building import add_passages, build_ensemble
from uec_rag.cli.console import Json, out, print_json, say
from uec_rag.cli.values import whole
from uec_rag.encoders import EMBEDDED
from uec_rag.encoders.artifacts import cache_folder

if TYPE_CHECKING:
    from uec_rag.retrieval import Retriever
    from uec_rag.stores.base import Passage

_PASSAGES = 3000

# What an index follows from; not the adapters, the command line or the paper's reproduction.
_ROOMS = ("base", "encoders", "stores", "confidence", "laplace", "corpora", "ensemble", "retrieval")
_CODE = ("cli/demo.py", *(f"{room}/*.{end}" for room in _ROOMS for end in ("py", "json")))


def demo(
    passages: Annotated[
        int,
        typer.Option(
            metavar="NUMBER",
            parser=whole(100),
            help="How many passages to index; fewer are faster.",
        ),
    ] = _PASSAGES,
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

    documents = gather_corpus(passages)
    corpus = passages_of(documents, size=CHUNK_SIZE)
    questions = draw_questions(documents)
    retriever = _retriever(corpus)
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
        print_answer(result, row, snippet=98)
    say(LEGEND)
    counts = Counter(decision.action for decision in result.decisions)
    out.print(
        f"Of these {len(questions)} questions {counts['answer']} are answered, "
        f"{counts['clarify']} asked back about and {counts['abstain']} left unanswered. A "
        "retriever without a decision hands on three passages for each.",
        width=min(out.width, WIDTH),
    )
    say('Now your own documents: uec-rag index FOLDER --out idx; uec-rag ask idx "..."')


def _retriever(corpus: "Sequence[Passage]") -> "Retriever":
    """Load the index of this very corpus by this very code from the cache, or make it."""
    from uec_rag.retrieval import Retriever

    folder = cache_folder() / "demo" / _key(corpus)
    if folder.is_dir():
        say(f"Opening the index of {len(corpus):,} passages made before ...")
        return Retriever.load(folder)
    say("The first run takes a minute, later ones take seconds.")
    retriever = Retriever(build_ensemble(None))
    add_passages(retriever, corpus)
    for old in folder.parent.glob("*"):
        shutil.rmtree(old, ignore_errors=True)
    retriever.save(folder)
    return retriever


def _key(corpus: "Sequence[Passage]") -> str:
    """Hash all that the index follows from: texts, models, and this package's code and fit."""
    state = [EMBEDDED, [[passage.id, passage.text] for passage in corpus]]
    digest = hashlib.sha256(json_library.dumps(state).encode())
    package = Path(__file__).parents[1]
    for pattern in _CODE:
        for file in sorted(package.glob(pattern)):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:32]
