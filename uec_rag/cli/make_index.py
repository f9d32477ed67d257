"""`uec-rag index` and `uec-rag check`: making, updating and verifying an index of documents."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uec_rag.base.checks import pluralize
from uec_rag.base.errors import NoFit
from uec_rag.base.files import is_index, is_saved, refuse_outdated
from uec_rag.cli.console import (
    ENCODERS,
    Index,
    Json,
    build_ensemble,
    check_index,
    note,
    open_index,
    print_json,
    print_text,
    say,
)
from uec_rag.documents.folder import Folder, list_first
from uec_rag.documents.passages import CHUNK_SIZE, FEWEST_CHARACTERS

if TYPE_CHECKING:
    from uec_rag.ensemble import UEC
    from uec_rag.index import Retriever
    from uec_rag.stores.passage import Passage

_DRAFT = "index"  # the folder of an index that is not complete, beside what was embedded for it
_AT_ONCE = 5_000_000  # characters of files whose passages are in memory together

Patterns = Annotated[list[str], typer.Option(metavar="PATTERN")]


def index(
    folder: Path,
    to: Annotated[Path, typer.Option("--out")],
    model: list[str] | None = None,
    exclude: Patterns = [],  # noqa: B006
    include: Patterns = [],  # noqa: B006
    chunk_size: Annotated[int | None, typer.Option(min=FEWEST_CHARACTERS)] = None,
    update: Annotated[bool, typer.Option("--update")] = False,
    questions_by: Annotated[str, typer.Option(metavar="MODEL")] = "",
    tenant_key: Annotated[str, typer.Option(metavar="KEY")] = "",
    must_open: Annotated[bool, typer.Option("--open")] = False,
    json: Json = False,
) -> None:
    """Make an index from a folder of documents.

    The ensemble is `UEC()` with its shipped fit. Models of --model are fitted on the headings and
    the first sentences of the passages.

    With --update, an existing index keeps its ensemble and the passages of unchanged files. Changed
    files are read again and split as before, and the passages of removed files are deleted; a
    folder that lacks most of them and has none unchanged is refused. Files are selected by the
    patterns that the index was made with.

    What was embedded is kept beside the output until the index is complete: if this is stopped, the
    same command goes on from there.

    With --questions-by, a language model writes questions and everyday names for each passage,
    which are searched with it. What is written is kept in a hidden file beside IDX: run the command
    again to go on after an interruption; nothing is asked for twice.

    Example: uec-rag index ./docs --out idx

    Parameters
    ----------
    folder
        Folder of documents: text, Markdown, CSV, and others with the extra 'documents'. Or a
        saved index, also of an older format, whose passages, labels and options are taken as they
        are, and its preset if --model is omitted.
    to
        Output folder. An existing index is overwritten.
    model
        english (default), multilingual, static (token vectors), or a model's hub name or folder,
        with words beside it; repeatable.
    exclude
        Leave out such files, as a .gitignore does; repeatable.
    include
        Index only files matching PATTERN (repeatable). Default: all but changelogs and licences.
    chunk_size
        Largest number of characters in a passage; the default is 800.
    update
        Read only what has changed since IDX was made.
    questions_by
        Chat model that writes questions, such as openai:gpt-5-mini, by LangChain's
        init_chat_model.
    tenant_key
        Metadata key that names a passage's tenant: no question is written from texts of two.
    must_open
        Require no tenant, also where the index that is read, or replaced, does.
    """
    choices = {
        "exclude": exclude,
        "include": include,
        "chunk_size": chunk_size,
        "questions_by": questions_by,
        "tenant_key": tenant_key,
    }
    options = {name: value for name, value in choices.items() if value}
    if update and (model or options):
        raise ValueError(
            "--update reads files as the index was made, and keeps its models; omit --model, "
            "--exclude, --include, --chunk-size, --questions-by and --tenant-key, or make the "
            "index again without --update"
        )
    if to.exists() and not (to.is_dir() and (is_saved(to) or not any(to.iterdir()))):
        refuse_outdated(to)
        raise FileExistsError(
            f"--out: {str(to)!r} exists and was not made by uec-rag; choose another path"
        )
    if is_index(to):
        from uec_rag.stores import LocalStore

        LocalStore(to, read_only=True).close()  # one of another version is not replaced
    from uec_rag.index.updates import count_labels

    make = partial(_update, folder, to) if update else partial(_make, folder, to, model, options)
    retriever, contents, counts = make()
    if must_open:
        retriever.save(to, tenant_required=False)
    if count := count_labels(retriever):  # warns of those whose passages are gone
        counts["labels"] = count
    gate = retriever.gate
    if gate is not None and (misfit := gate.misfit(retriever, None)):
        note(misfit)
    retriever.close()  # which removes what was replaced
    shutil.rmtree(_unfinished(to), ignore_errors=True)
    counts["unreadable"] = len(contents.unreadable)
    if json:
        parts = {file.source: dict(file.left_out) for file in contents.documents if file.left_out}
        extras = dict(contents.other.most_common())
        print_json({"path": str(to), **counts, "other": extras, "left_out": parts})
        return
    summary = ", ".join(f"{number:,} {name}" for name, number in counts.items())
    print_text(f"{to}: {summary}{list_first(contents.unreadable)}")
    contents.tell_left_out()
    say(f'Ask it: uec-rag ask {to} "your question"')


def _update(folder: Path, to: Path) -> tuple[Retriever, Folder, dict[str, int]]:
    """Read what has changed in a folder; return the index, the folder, and counts."""
    from uec_rag.index.updates import options_of, update_files

    retriever = open_index(to)
    retriever.uec = _keeping(retriever.uec, to)
    writer = _writer(options_of(to), to, is_closed=retriever.tenant_required)
    changes, contents, encoded = update_files(retriever, folder, writer)
    names = ("new", "changed", "removed", "unchanged")
    counts = {name: len(getattr(changes, name)) for name in names}
    return retriever, contents, counts | {"passages": len(retriever.store), "encoded": encoded}


def _make(
    folder: Path, to: Path, model: Sequence[str] | None, options: Mapping[str, Any]
) -> tuple[Retriever, Folder, dict[str, int]]:
    """Make an index of a folder; return it, what was found in the folder, and counts."""
    from uec_rag.index import Retriever
    from uec_rag.index.save import requires_tenant
    from uec_rag.index.updates import add_saved, list_made_with, record_options, replace_files
    from uec_rag.stores import LocalStore

    is_saved_index = is_index(folder)
    is_closed = is_saved_index and requires_tenant(folder)
    writer = _writer(options, to, is_closed=is_closed)
    models = _models_for(folder, model, options) if is_saved_index else model
    contents = Folder(folder) if is_saved_index else list_made_with(folder, options)
    ensemble, store = build_ensemble(models), None
    if not is_saved_index:  # of which not all need be in memory
        shutil.rmtree(draft := _unfinished(to) / _DRAFT, ignore_errors=True)
        store = LocalStore(draft)
    retriever = Retriever(_keeping(ensemble, to), store)
    if is_saved_index:
        say(f"Reading {folder} ...")
        add_saved(retriever, folder, writer)
    else:
        say(f"Indexing {pluralize(len(contents.sources), 'file')} of {folder} ...")
        size, group = options.get("chunk_size", CHUNK_SIZE), _AT_ONCE if writer is None else inf
        for documents in contents.groups(most=group):
            replace_files(retriever, documents, size=size, prepare=writer, is_new=True)
        if not any(document.sections for document in contents.documents):
            retriever.close()
            shutil.rmtree(_unfinished(to))
            files = list_first(contents.sources)
            raise ValueError(f"no file in {str(folder)!r} holds text to index{files}")
    if not ensemble.is_fitted:
        try:
            retriever.fit_from()
        except NoFit as error:
            note(f"the ensemble is not fitted, so that confidence is unreliable. {error}")
    retriever = _moved(retriever, to)
    record_options(to, {**options, "model": [*model]} if model else options)
    counts = {"passages": len(retriever.store), "files": len(contents.documents)}
    return retriever, contents, counts


def _moved(retriever: Retriever, to: Path) -> Retriever:
    """Save an index to a folder, where it stays; return it there."""
    from uec_rag.index import Retriever

    draft, is_new = retriever.folder, not is_index(to)
    retriever.save(draft if draft is not None and is_new else to)
    if draft is None:
        return retriever
    retriever.close()
    if is_new:
        with suppress(FileNotFoundError):
            to.rmdir()  # it is empty
        draft.rename(to)
    return Retriever.load(to, retriever.uec)


def _unfinished(to: Path) -> Path:
    """Return the folder that has what was embedded for an index, until it is complete."""
    return to.absolute().with_name(f"{to.absolute().name}.unfinished")


def _keeping(ensemble: UEC, to: Path) -> UEC:
    """Return an ensemble that goes on with what was embedded for an index, and keeps more."""
    if any(_unfinished(to).glob("*.sqlite3")):
        say(f"Going on with what {_unfinished(to).name} has ...")
    return ensemble.with_cache(_unfinished(to))


def _writer(
    options: Mapping[str, Any], to: Path, *, is_closed: bool
) -> Callable[[Sequence[Passage]], None] | None:
    """Return what lets a chat model write questions for the passages of an index; None without.

    ValueError if it would read passages of several tenants at once.
    """
    name, tenant = options.get("questions_by", ""), options.get("tenant_key", "")
    if name and is_closed and not tenant:
        raise ValueError(
            "--questions-by: this index requires tenants, of whom one's questions must not be "
            "written from another one's texts; add --tenant-key KEY, the metadata key that names "
            "a passage's tenant"
        )
    return partial(_write_questions, name, tenant, to) if name else None


def _write_questions(name: str, tenant: str, to: Path, passages: Sequence[Passage]) -> None:
    """Add what a model writes for passages to their metadata; say first what it takes."""
    from uec_rag.base.text import questions_in
    from uec_rag.documents.question_writer import AT_ONCE, estimate_calls, write_questions

    keep = to.with_name(f".{to.name}.questions.jsonl")
    keep.parent.mkdir(parents=True, exist_ok=True)
    count, calls, tokens = estimate_calls(passages, keep=keep, name=name, tenant=tenant)
    call: Any = repr  # which is not called if nothing is asked for
    if count:
        from uec_rag.langchain.models import chat_model

        call = chat_model(name, "--questions-by")
        say(
            f"{name} writes questions for {pluralize(count, 'passage')}, in about "
            f"{pluralize(calls, 'call')} and {tokens:,} tokens ..."
        )
    options: Any = {"keep": keep, "name": name, "at_once": AT_ONCE, "tenant": tenant}
    questions = write_questions(passages, call, **options)
    for passage, lines in zip(passages, questions, strict=True):
        if lines:
            before = questions_in(passage.metadata)
            passage.metadata["questions"] = [*dict.fromkeys([*before, *lines])]
    if count:
        say(str(questions))


def _models_for(
    folder: Path, model: Sequence[str] | None, options: Mapping[str, Any]
) -> Sequence[str] | None:
    """Return the models of an index that is made from another one: those given, or its preset.

    ValueError for options that do not apply, or if it has other models and none are given.
    """
    from uec_rag.encoders.packages import PRESETS
    from uec_rag.index.save import preset_of
    from uec_rag.index.updates import options_of

    ours = "questions_by", "tenant_key"
    if options := {name: value for name, value in options.items() if name not in ours}:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in options)
        raise ValueError(
            f"FOLDER: {str(folder)!r} is an index, whose passages are taken as they are; omit "
            f"{flags}, or index the documents"
        )
    if model or ENCODERS.get():
        return model
    before = options_of(folder).get("model") or [*filter(None, [preset_of(folder)])]
    if before and not (len(before) == 1 and before[0] in PRESETS):
        models = " ".join(f"--model {name}" for name in before)
        raise ValueError(
            f"FOLDER: {str(folder)!r} was made with {models}; add that, or another model, or "
            "--model english for UEC()"
        )
    return before


def check(index: Index, json: Json = False) -> None:
    """Verify the checksums of an index: of its vectors, words, passages and ensemble.

    Example: uec-rag check idx
    """
    check_index(index)
    from uec_rag.index.save import check_index as check_contents

    count = check_contents(index.absolute())
    if json:
        print_json({"path": str(index), "passages": count})
    else:
        print_text(f"{index}: {pluralize(count, 'passage')}, undamaged.")
