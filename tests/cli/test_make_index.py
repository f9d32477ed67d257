"""`uec-rag index` and `uec-rag check`: from a folder of files to an index that answers."""

import os
import re
import shlex
import shutil
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from importlib import metadata
from pathlib import Path

import pytest
from rich.console import Console

from tests.helpers import database_of, index_of, make_older, python, rows_of
from tests.markdown import ROOT
from uec_rag import UEC, Retriever
from uec_rag.documents import passages_of, read_folder
from uec_rag.index.updates import options_of, record_options, update_files
from uec_rag.stores.source import Source, SourceStore


@pytest.fixture
def few(tmp_path):
    """A folder of two files, to be written to."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "bread.txt").write_text("The dough rests. The oven is hot and the flour is white.")
    (folder / "boats.txt").write_text("The sail is up. The anchor lies in the harbour by the mast.")
    return folder


def test_a_hit_says_where_it_is_from_and_begins_without_its_heading(run, tmp_path):
    index = Retriever(UEC(["bm25"]))
    known = {"source": "keys.pdf", "page": 3, "title": "Locks [and] keys"}
    index.add(["Locks [and] keys\n\nLocks turn.\n\n" + "Keys do not. " * 200], ["id"], [known])
    index.save(tmp_path / "idx")
    shown = run("ask", tmp_path / "idx", "locks").stdout
    assert "\nkeys.pdf, page 3, Locks [and] keys\nLocks turn." in shown
    assert "\nKeys do not. Keys do not." in shown
    assert len(shown) < 1500
    assert not re.search("score|variance|weights|in corpus", shown)
    explained = run("ask", tmp_path / "idx", "locks", "--explain")
    assert "weights: bm25 1.00" in explained.stdout
    assert "variance: how uncertain" in " ".join(explained.stderr.split())


def test_an_index_gives_its_passages_to_a_new_one(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    index = Retriever(UEC(["bm25"]))
    opened = {"source": "keys.md", "since": date(2026, 1, 2), "file_sha256": "ab"}
    index.add(["Locks turn.", "Keys do not.", "Gone."], ["lock", "key", "gone"], [opened, {}, {}])
    index.delete(["gone"])
    index.save(tmp_path / "idx")
    index.label("Do keys turn?", ["key", "lock"])
    index.close()
    record_options(tmp_path / "idx", {"exclude": ["drafts/"], "model": ["bm25"]})
    again = ("index", "~/idx", "--out", "~/new")
    for given, told in (
        ([], "was made with --model bm25; add that, or another"),
        (["--chunk-size", "500"], "is an index, whose passages are taken as they are; omit --"),
    ):
        assert told in " ".join(run(*again, *given, code=2).stderr.split())
    run(*again, "--model", "bm25")
    made = Retriever.load(tmp_path / "new")
    assert {one.id: one.text for one in made.passages()} == {
        "lock": "Locks turn.",
        "key": "Keys do not.",
    }
    assert [one.id for one in made.passages({"since": {"$gt": date(2026, 1, 1)}})] == ["lock"]
    assert made.get(["lock"])[0].metadata["source"] == "keys.md"
    assert made.labels == {"Do keys turn?": {"key", "lock"}}
    assert options_of(tmp_path / "new") == {"exclude": ["drafts/"], "model": ["bm25"]}


@pytest.mark.parametrize("has_log", [False, True])
def test_an_index_of_an_older_format_gives_all_it_holds_to_a_new_one(run, tmp_path, has_log):
    old = tmp_path / "old"
    index = Retriever(UEC("static"), tenant_required=True)
    known = [{"of": "a", "questions": ["Do locks turn?"]}, {"of": "b", "since": date(2026, 1, 2)}]
    index.add(["Locks turn.", "Keys do not.", "Gone."], ["lock", "key", "gone"], [*known, {}])
    index.save(old)
    if not has_log:
        index.delete(["gone"])
    index.of_tenant({"of": "a"}).label("Do keys turn?", ["lock"])
    index.close()
    make_older(old)
    with database_of(old) as database:
        if has_log:  # as a process leaves one that was killed
            gone = "SELECT row FROM passages WHERE id = 'gone'"
            database.execute(f"INSERT INTO dead (row) {gone}")
        assert len([*old.glob("*-wal")]) == has_log
        before = {file: file.read_bytes() for file in old.rglob("*") if file.is_file()}
        told = run("index", old, "--out", tmp_path / "new").stdout
        assert "new: 2 passages, 0 files, 1 labels" in " ".join(told.split())
        assert {file: file.read_bytes() for file in old.rglob("*") if file.is_file()} == before
    made = Retriever.load(tmp_path / "new")
    assert made.tenant_required
    assert made.uec.names == UEC("static").names
    texts = {p.id: (p.text, p.metadata) for p in made.of_tenant({"of": "a"}).passages()}
    assert texts == {"lock": ("Locks turn.", known[0])}
    later = made.of_tenant({"of": "b"}).passages({"since": {"$gt": date(2026, 1, 1)}})
    assert [one.id for one in later] == ["key"]
    assert {*made.of_tenant({"of": "a"}).labels} == {"Do keys turn?"}


@pytest.mark.parametrize("given", ["idx", "./idx", "../here/idx", "."])
def test_an_index_is_made_again_from_a_relative_path_in_place(run, tmp_path, monkeypatch, given):
    (tmp_path / "here").mkdir()
    index = index_of(UEC(["bm25"]), ["Locks turn."], ["lock"])
    index.save(tmp_path / "here/idx")
    index.label("Do locks turn?", ["lock"])
    index.close()
    record_options(tmp_path / "here/idx", {"model": ["bm25"]})
    (tmp_path / "here/idx/.update.lock").touch()  # as an earlier `--update` leaves it
    monkeypatch.chdir(tmp_path / ("here/idx" if given == "." else "here"))
    refused = run("index", given, "--out", given, code=2)
    assert "was made with --model bm25; add that" in " ".join(refused.output.split())
    run("index", given, "--out", given, "--model", "bm25")
    made = Retriever.load(given)
    assert [one.text for one in made.passages()] == ["Locks turn."]
    assert made.labels == {"Do locks turn?": {"lock"}}


def test_a_fit_over_a_store_is_refused_as_a_folder_of_passages(run, tmp_path):
    found = Source("candidates of theirs", lambda *_: [])
    open_fit = Retriever(uec := UEC(["bm25"]), SourceStore(uec.encoders, found))
    open_fit.save(tmp_path / "fit")  # and stays open
    refused = run("index", tmp_path / "fit", "--out", tmp_path / "x", "--model", "bm25", code=2)
    assert re.search(
        r"FOLDER: .*fit' holds no passages, as a fit or a gate .* Load it over that store",
        " ".join(refused.output.split()),
    )


def test_too_few_pairs_leave_the_ensemble_unfitted_with_a_note(run, few, words, tmp_path):
    result = run("index", few, "--out", tmp_path / "idx", "--model", words)
    assert result.stderr.count("note:") == 1
    assert "not fitted" in result.stderr
    answer = run("ask", tmp_path / "idx", "anchor", json_output=True)
    assert all(passage["sigma2"] == 0 for passage in answer["passages"])


def test_token_vectors_index_a_folder_without_a_download_and_again_in_place(
    run, few, tmp_path, monkeypatch
):
    monkeypatch.setenv("UEC_CACHE", str(tmp_path / "cache"))
    for name in ("new", "old"):
        (few / f"{name}.txt").write_text("The loan of a laptop lasts two weeks.")
        run("index", few, "--out", tmp_path / "idx", "--model", "static")
        made = Retriever.load(tmp_path / "idx")
        assert made.uec.names == ["wordllama", "bm25"]
        assert made.search(["How long may I keep a computer?"])[0].ids[0].startswith(("new", "old"))
    assert len(made) == 4
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "idx"}


@pytest.mark.slow
def test_a_folder_is_indexed_with_the_fit_that_comes_with_the_package(
    run, documents, tmp_path, monkeypatch
):
    monkeypatch.delenv("UEC_CACHE")  # the models' download
    made = run("index", documents, "--out", tmp_path / "idx")
    assert "note:" not in made.stderr
    assert "Fitting" not in made.stderr
    retriever = Retriever(UEC())
    passages = passages_of(read_folder(documents))
    retriever.add([p.text for p in passages], metadatas=[p.metadata for p in passages])
    for question in ("What belongs together with the anchor?", "Who wrote Hamlet?"):
        asked = run("ask", tmp_path / "idx", question, json_output=True)
        own = retriever.search([question], k=5)
        assert asked["decision"] == own.decisions[0].action
        assert asked["confidence"] == pytest.approx(own.confidence[0], abs=1e-4)


@pytest.mark.parametrize("row", rows_of("mistakes.csv"), ids=lambda row: row["command"])
def test_a_mistake_is_one_readable_line(run, tmp_path, monkeypatch, row):
    (tmp_path / "docs").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Some text.")
    (tmp_path / "q.csv").write_text("query,relevant_ids\nWhat?,a\n")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "index.db").write_bytes(bytes(68) + b"UECR")
    monkeypatch.chdir(tmp_path)
    result = run(*shlex.split(row["command"]), code=2)
    assert row["message"] in result.stderr.splitlines()[-1]
    assert result.stderr.count("error:") == 1
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_passages_are_cut_at_the_size_asked_for_also_by_updates(run, documents, words, tmp_path):
    chunks = ("--chunk-size", "120")
    folder = shutil.copytree(documents, tmp_path / "folder")
    made = ("index", folder, "--out", tmp_path / "idx")
    run(*made, "--model", words, "--model", "bm25", *chunks)
    index = Retriever.load(tmp_path / "idx")
    bodies = [passage.text.split("\n\n", 1)[1] for passage in index.passages()]
    assert 60 < max(map(len, bodies)) <= 120
    (folder / "bees.md").write_text("## Bees\n\n" + "Honey in the hive. " * 40)
    assert "1 changed" in run(*made, "--update").stdout
    index = Retriever.load(tmp_path / "idx")
    bodies = [p.text.split("\n\n", 1)[1] for p in index.passages({"source": "bees.md"})]
    assert 60 < max(map(len, bodies)) <= 120
    assert "0 changed" in run(*made, "--update").stdout


class TestUpdating:
    @pytest.fixture
    def folder(self, tmp_path, documents):
        return shutil.copytree(documents, tmp_path / "folder")

    def test_only_what_has_changed_is_read_and_what_is_gone_goes(self, run, folder, index):
        before = run("ask", index, "sand in the furnace", json_output=True)
        (folder / "bees.md").unlink()
        (folder / "boats.md").write_text("## Anchors\n\nThe anchor is heavy and the keel is deep.")
        (folder / "new.txt").write_text("The dough is in the oven, and the crust is brown.")
        told = run("index", folder, "--out", index, "--update", json_output=True)
        assert (told["new"], told["changed"], told["removed"]) == (1, 1, 1)
        assert (told["passages"], told["encoded"]) == (22, 2)
        for question in ("honey in the hive", "anchor and keel"):
            found = run("ask", index, question, "-k", "22", json_output=True)
            sources = [passage["metadata"]["source"] for passage in found["passages"]]
            assert "bees.md" not in sources
            assert sources.count("boats.md") == 1
        after = run("ask", index, "sand in the furnace", json_output=True)
        assert [p["id"] for p in after["passages"]] == [p["id"] for p in before["passages"]]
        assert after["passages"][0]["score"] == pytest.approx(before["passages"][0]["score"], 1e-2)

    def test_the_patterns_of_an_index_are_remembered_and_others_are_refused(
        self, run, folder, words, tmp_path
    ):
        made = ("index", folder, "--out", tmp_path / "idx")
        (folder / "drafts").mkdir()
        (folder / "drafts" / "bees.md").write_text("# Hives\n\nA draft.")
        run(*made, "--model", words, "--exclude", "drafts/", "--include", "*.md")
        (folder / "new.md").write_text("# Hives\n\nHoney.")
        (folder / "new.txt").write_text("Honey is sweeter.")
        before = len(Retriever.load(tmp_path / "idx"))
        for given in (["--include", "new.txt"], ["--exclude", "x"], ["--chunk-size", "500"]):
            told = " ".join(run(*made, "--update", *given, code=2).stderr.split())
            assert "--update reads files as the index was made" in told
            assert len(Retriever.load(tmp_path / "idx")) == before
        assert "1 new, 0 changed, 0 removed" in run(*made, "--update").stdout

    def test_a_folder_of_other_files_is_refused(self, run, index, few):
        for said in (
            "4 files (bees.md, boats.md, bread.md, ...) would be removed",
            "no file of the index is unchanged",  # it only has a name in common
        ):
            told = run("index", few, "--out", index, "--update", code=2).stderr
            assert said in " ".join(told.split())
            assert len(Retriever.load(index)) == 40
            (few / "bees.md").write_text("## Hives\n\nA page on something else.")


def test_an_index_is_checked_without_its_models(run, few, words, tmp_path):
    run("index", few, "--out", tmp_path / "idx", "--model", words)
    assert "undamaged" in run("check", tmp_path / "idx").stdout
    told = run("check", tmp_path / "idx", json_output=True)
    assert told["passages"] == len(Retriever.load(tmp_path / "idx"))
    with database_of(tmp_path / "idx") as database:
        database.execute("UPDATE passages SET text = 'forged' WHERE row = 0")
    failed = run("check", tmp_path / "idx", code=2)
    assert "its checksum differs" in failed.stderr
    assert "build the index again" in failed.stderr


class TestAnUpdateBesideOthers:
    @pytest.fixture
    def index(self, run, few, words, tmp_path):
        run("index", few, "--out", tmp_path / "idx", "--model", words)
        return tmp_path / "idx"

    def test_updates_wait_for_each_other_and_the_last_finds_all(self, few, index):
        def update(name):
            (few / name).write_text("The dough is in the oven.")
            return update_files(Retriever.load(index), few)[2]

        with ThreadPoolExecutor() as pool:
            counts = [*pool.map(update, ("a.txt", "b.txt", "c.txt"))]
        assert sum(counts) == 3
        assert len(Retriever.load(index).get(["a.txt#0", "b.txt#0", "c.txt#0"])) == 3


@pytest.mark.slow
def test_markdown_and_text_need_no_extra(tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [one for some in project["optional-dependencies"].values() for one in some]
    extras = {re.match(r"[\w.-]+", one)[0] for one in wanted} - {"numpy", "packaging", "uec-rag"}
    gone, folder = tmp_path / "gone", tmp_path / "folder"
    for part in (gone, folder):
        part.mkdir()
    for module, owners in metadata.packages_distributions().items():
        if extras & {*owners} and module.isidentifier():
            (gone / f"{module}.py").write_text("raise ModuleNotFoundError(__name__)")
    assert {"bs4", "docutils", "langchain_core", "torch"} <= {one.stem for one in gone.iterdir()}
    (folder / "bread.md").write_text("# Bread\n\n" + "|dough|\n|---|\n" + "|the oven|\n" * 200)
    (folder / "boats.txt").write_text("The sail is up, and the anchor lies in the harbour.")
    code = "import sys; from uec_rag.cli import app; app(sys.argv[1:])"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(gone), str(ROOT)])}
    for command in (
        ["index", folder, "--out", tmp_path / "idx", "--model", "bm25"],
        ["ask", tmp_path / "idx", "oven"],
    ):
        told = python(code, *command, env=environment)
        assert told.returncode == 0, told.stderr
    assert "bread.md" in told.stdout


@pytest.mark.slow
def test_files_that_cannot_be_read_are_summed_up_and_what_is_known_of_them_stays(
    run, few, words, tmp_path
):
    (few / "bad.pdf").write_bytes(b"no pdf")
    (few / "blank.txt").write_text(" ")
    (few / "table.csv").write_text("word,meaning\nhive,the house of bees\n")
    Path(os.fsdecode(os.fsencode(few) + b"/\xff.txt")).write_text("The dough.")
    made = run("index", few, "--out", tmp_path / "idx", "--model", words)
    said = " ".join(made.stderr.split())
    assert said.count("left out bad.pdf, which cannot be read") == 1
    assert "left out \\udcff.txt, which has a name that is not Unicode; rename it" in said
    assert "4 files, 2 unreadable (bad.pdf, \\udcff.txt)" in made.stdout

    def update():
        given = ("index", few, "--out", tmp_path / "idx", "--update")
        told = run(*given, json_output=True)
        return [told[name] for name in ("new", "changed", "removed", "unreadable", "passages")]

    assert update() == [0, 0, 0, 2, 3]
    (few / "table.csv").write_bytes(b"\0\0")
    assert update() == [0, 0, 0, 3, 3]
    (few / "table.csv").write_text("word,meaning\nkeel,what a ship stands on\n")
    assert update() == [0, 1, 0, 2, 3]


def test_an_update_without_a_formats_library_keeps_the_passages_of_its_files(
    run, few, words, tmp_path, monkeypatch
):
    (few / "fees.org").write_text("* Fees\n\nThe dough costs five euros.\n")
    given = ("index", few, "--out", tmp_path / "idx")
    before = run(*given, "--model", words, json_output=True)
    assert before["other"] == {}
    monkeypatch.setitem(sys.modules, "pypandoc", None)  # as if it were not installed
    told = run(*given, "--update", json_output=True)
    assert (told["removed"], told["passages"]) == (0, before["passages"])
    assert told["other"] == {".org": 1}


def test_what_of_a_file_is_left_out_is_told_at_the_end(run, few, words, tmp_path):
    (few / "fees.jsonl").write_text('{"fee": 5}\nno\n')
    given = ("index", few, "--out", tmp_path / "idx", "--model", words)
    said = " ".join(run(*given).stderr.split())
    assert "note: left out of fees.jsonl: 1 line not in JSON (2)" in said
    told = run(*given, json_output=True)
    assert told["left_out"] == {"fees.jsonl": {"line not in JSON (2)": 1}}


@pytest.mark.slow
def test_markdown_is_shown_as_such_on_a_terminal(run, words, tmp_path, monkeypatch):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "shop.md").write_text(
        "# Shop\n\n## Returns\n\nSend **any item** back:\n\n- by post\n"
    )
    run("index", folder, "--out", tmp_path / "idx")
    shown = run("ask", tmp_path / "idx", "Send any item back").stdout
    assert "Send **any item** back:\n\n- by post\n" in shown
    monkeypatch.setattr("uec_rag.cli.ask_index.out", Console(force_terminal=True, no_color=True))
    shown = re.sub("\x1b\\[[0-9;]*m", "", run("ask", tmp_path / "idx", "Send any item back").stdout)
    assert "Send any item back:" in shown
    assert " • by post" in shown
