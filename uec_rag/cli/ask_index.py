"""The commands that answer from an index: `ask`, `demo`, `serve`, `explore` and `mcp`."""

from __future__ import annotations

import textwrap
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uec_rag.base.checks import parse_json, visible
from uec_rag.cli.console import Index, Json, build_ensemble, open_index, out, plain, print_json, say
from uec_rag.documents.document import body_of
from uec_rag.documents.passages import PLAIN

if TYPE_CHECKING:
    from uec_rag.retrieval.results import Result

LEGEND = (
    "relevant: probability that the passage answers; score: similarity, reduced where uncertain; "
    "variance: how uncertain; confidence: probability that one of the first passages answers; "
    "in corpus: that any passage does; weights: how much each model counts for this question."
)


def ask(
    index: Index,
    question: str,
    k: Annotated[int, typer.Option("-k", min=1)] = 4,
    explain: Annotated[bool, typer.Option("--explain")] = False,
    json: Json = False,
) -> None:
    """Print the decision, confidence and best passages for a question.

    Example: uec-rag ask idx "How do I reset my password?"

    Parameters
    ----------
    question
        In quotes.
    k
        Passages to show.
    explain
        Print the models' weights, each passage's score, and what the numbers mean, too.
    """
    from uec_rag.adapters.tool import answer_record

    retriever = open_index(index)
    if retriever.gate is not None:
        say(f"The gate decides. {retriever.gate.report}")
    [result] = retriever.search([question], k=k)
    if json:
        print_json(answer_record(result))
    else:
        print_answer(result, explain=explain)
        if explain:
            say(LEGEND)


def print_answer(result: Result, *, limit: int = 1000, explain: bool = True) -> None:
    """Print the answer to a question.

    `limit`: number of characters to show of the first passage. `explain`: whether to print scores
    and weights.
    """
    decision = result.decision
    colour = {"answer": "green", "clarify": "yellow", "abstain": "red"}[decision.action]
    out.print(f"[bold]{plain(result.query)}[/]")
    headline, *rows = (decision.clarifying_question or decision.reason).split("\n")
    out.print(f"=> [bold {colour}]{decision.action}[/]: {plain(headline)}")
    for row in rows:
        out.print(f"   {plain(row)}")
    out.print()
    for rank, passage in enumerate(result.passages):
        fields = passage.metadata
        source = str(fields.get("source", passage.id))
        names = dict.fromkeys([source, f"page {fields.get('page')}", str(fields.get("title", ""))])
        labels = [name for name in names if name not in ("", "page None")]
        out.print(f"[bold]{plain(', '.join(labels))}[/]")
        body = body_of(passage)
        if rank or source.lower().endswith(PLAIN):
            text = " ".join(visible(body).split())
            out.print(
                textwrap.shorten(text, 240 if rank else limit, placeholder=" ..."), markup=False
            )
        else:
            if len(body) > limit:
                body = f"{body[: body.rfind(' ', 0, limit)]} ..."
            lines = "\n".join(map(visible, body.splitlines()))
            if out.is_terminal:
                from rich.markdown import Markdown  # takes longer to load than to write

                out.print(Markdown(lines, hyperlinks=False))
            else:
                out.print(lines, markup=False, soft_wrap=True)
        numbers = f"relevant {result.relevance[rank]:.0%}"
        if explain:
            numbers += f", score {result.scores[rank]:.3f}, variance {result.sigma2[rank]:.2g}"
        out.print(f"[dim]{numbers}[/]\n")
    if not explain:
        out.print(f"[dim]confidence {decision.confidence:.2f}[/]\n")
        return
    weights = ", ".join(f"{name} {weight:.2f}" for name, weight in result.weights.items())
    sure = f"confidence {decision.confidence:.2f}, in corpus {decision.in_corpus:.2f}"
    out.print(f"[dim]{sure}; weights: {plain(weights)}[/]\n")


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
    from uec_rag.adapters.tool import answer_record
    from uec_rag.documents.python_docs import CHUNK_SIZE, gather_corpus
    from uec_rag.index import Retriever
    from uec_rag.index.updates import replace_files

    say("Three questions name a function, two a name that many share, one is about France.")
    retriever = Retriever(build_ensemble(None))
    replace_files(retriever, gather_corpus(passages), size=CHUNK_SIZE)
    results = retriever.search(QUESTIONS, k=3)
    if json:
        answers = [answer_record(result) for result in results]
        print_json({"passages": len(retriever.store), "questions": answers})
        return
    say(LEGEND)
    for result in results:
        print_answer(result, limit=240)
    say('Now your own documents: uec-rag index FOLDER --out idx; uec-rag ask idx "..."')


Port = Annotated[int, typer.Option(min=0, max=65535)]


def serve(
    index: Index,
    host: str = "127.0.0.1",
    port: Port = 8000,
    token: Annotated[str | None, typer.Option(envvar="UEC_TOKEN")] = None,
    allow_host: list[str] = [],  # noqa: B006
    cors: Annotated[list[str], typer.Option(metavar="ORIGIN")] = [],  # noqa: B006
    write: Annotated[bool, typer.Option("--write")] = False,
    tenants: Annotated[bool, typer.Option("--tenants")] = False,
) -> None:
    """Answer questions over HTTP: /ask, /index, /healthz, /openapi.json.

    In a browser, / asks questions, and /docs shows these paths and lets you try them.

    What other processes write to the index is found without a restart.

    Example: uec-rag serve idx; curl localhost:8000/ask --json '{"question": "Who may park here?"}'

    Parameters
    ----------
    host
        The address to listen on; if others can reach it, --token is required.
    port
        0 for any free port.
    token
        The secret that every request must send.
    allow_host
        A host name of the server, such as that of a proxy.
    cors
        Allow requests by pages of an origin, https://app.example.com.
    write
        Let requests change labels and gate.
    tenants
        Require the tenant of each question, and show nothing of all passages.
    """
    from uec_rag.server import create_app
    from uec_rag.server.protections import check_access
    from uec_rag.server.running import serve as run

    names = check_access(host, token, allow_host, cors)
    retriever = open_index(index)
    app = create_app(retriever, write, token, names=names, origins=cors, tenants=tenants)
    run(app, host, port)


def explore(index: Index, port: Port = 8001) -> None:
    """Show an index on a page in the browser: ask, label, set the threshold.

    It is the page of 'uec-rag serve --write'. Nothing leaves this machine.

    Example: uec-rag explore idx

    Parameters
    ----------
    port
        0 for any free port.
    """
    serve(index, port=port, write=True)


def mcp(
    index: Index,
    filter: Annotated[
        dict[str, Any] | None, typer.Option(parser=parse_json, metavar="JSON")
    ] = None,
    name: str = "uec-rag",
    description: str = "",
) -> None:
    """Give agents tools to search an index and to read in it, by the Model Context Protocol.

    Example: uec-rag mcp idx, as the command of a client's configuration.

    Parameters
    ----------
    filter
        Show agents only passages with such metadata, such as {"team": "sales"}.
    name
        What clients call the server, such as "handbook", to tell several apart.
    description
        What the index is about, such as "The staff handbook.", which agents choose by.
    """
    from uec_rag.server import create_mcp
    from uec_rag.server.running import log_to_stderr

    with closing(open_index(index)) as retriever:
        server = create_mcp(retriever, filter, name=name, description=description)
        log_to_stderr()
        server.run("stdio")
