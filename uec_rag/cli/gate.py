"""`uec-rag gate`: a threshold that keeps the share of wrong answers below a target."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uec_rag.cli.console import out, print_json, say
from uec_rag.cli.options import Json, check_index
from uec_rag.cli.tables import read_rows

if TYPE_CHECKING:
    from uec_rag.stores.base import Passage

_RISK, _CERTAINTY = 0.05, 0.95


def gate(
    index: Annotated[
        Path, typer.Argument(metavar="INDEX", help="A folder that 'uec-rag index' made.")
    ],
    questions: Annotated[
        Path,
        typer.Argument(
            metavar="QUESTIONS",
            help="A .jsonl, .csv or .tsv file: query and, unless --abstain is given, passage.",
        ),
    ],
    to: Annotated[Path, typer.Option("--out", metavar="GATE", help="File for the gate.")],
    risk: Annotated[
        float | None,
        typer.Option(
            help="Highest share of wrong ones among the answered.", show_default=str(_RISK)
        ),
    ] = None,
    certainty: Annotated[
        float | None, typer.Option(help="How sure to be of it.", show_default=str(_CERTAINTY))
    ] = None,
    abstain: Annotated[
        float | None,
        typer.Option(help="Share of questions to leave unanswered instead; nothing is promised."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Passages that an answer may rest on.")] = 5,
    json: Json = False,
) -> None:
    """Set the confidence above which to answer, from questions as users ask them.

    A passage is an id as 'uec-rag ask --json' prints it, or a file, all of whose passages then
    answer; none where the documents do not answer. A question that several passages answer has
    several rows.

    Example: uec-rag gate idx questions.csv --risk 0.1 --out gate.json
    """
    for name, value in {"--risk": risk, "--certainty": certainty}.items():
        if abstain is not None and value is not None:
            raise ValueError(
                f"--abstain and {name}: expected one of them, got both; --abstain leaves a share "
                "of the questions unanswered, whatever the risk"
            )
    if to.is_dir() or not to.absolute().parent.is_dir():
        raise ValueError(f"--out: expected a file in a folder that is there, got {str(to)!r}")
    columns = ("query",) if abstain is not None else ("query", "passage")
    asked = _read(questions, columns)
    check_index(index)
    say(f"Opening {index} ...")
    from uec_rag.retrieval import Retriever
    from uec_rag.retrieval.gate import Gate

    retriever = Retriever.load(index)
    queries = list(asked)
    if abstain is not None:
        made = Gate.budget(retriever, queries, abstain=abstain, k=k)
    else:
        known = _ids_by_name(retriever.passages())
        unknown = sorted({name for names in asked.values() for name in names} - set(known))
        if unknown:
            raise ValueError(
                f"{questions.name}: {len(unknown)} passages are not in the index, first "
                f"{unknown[0]!r}; expected ids or files as 'uec-rag ask --json' prints them"
            )
        relevant = [{id_ for name in names for id_ in known[name]} for names in asked.values()]
        made = Gate.calibrate(
            retriever,
            queries,
            relevant,
            risk=_RISK if risk is None else risk,
            certainty=_CERTAINTY if certainty is None else certainty,
            k=k,
        )
    made.save(to)
    if json:
        print_json({"path": str(to), **made.metadata(), "report": made.report})
    else:
        out.print(made.report, markup=False, soft_wrap=True)
        say(f'Saved in {to}. Use it: uec-rag ask {index} "your question" --gate {to}')


def _read(path: Path, columns: tuple[str, ...]) -> dict[str, set[str]]:
    """Each question with the names of what answers it."""
    asked: dict[str, set[str]] = {}
    for line, row in read_rows(path, columns, "QUESTIONS"):
        query, passage = row.get("query"), row.get("passage") or ""
        if not isinstance(query, str) or not query.strip():
            raise ValueError(
                f"{path.name}, line {line}: expected some text as query, got {query!r}"
            )
        if not isinstance(passage, str):
            raise ValueError(
                f"{path.name}, line {line}: expected an id or a file as passage, got {passage!r}"
            )
        asked.setdefault(query, set()).update([passage.strip()] if passage.strip() else [])
    return asked


def _ids_by_name(passages: "Iterable[Passage]") -> dict[str, list[str]]:
    """Ids of the passages that an id or a file names."""
    found: dict[str, list[str]] = {}
    for passage in passages:
        for name in {passage.id, str(passage.metadata.get("source", passage.id))}:
            found.setdefault(name, []).append(passage.id)
    return found
