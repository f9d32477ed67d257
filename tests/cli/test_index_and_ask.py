"""`uec-rag index` and `uec-rag ask`: from a folder of files to an answer."""

import json
import os
import re
import shlex
import shutil
import tomllib
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.helpers import data_of, database_of, python, rows_of
from tests.markdown import ROOT
from uec_rag import UEC, Retriever
from uec_rag.cli import app
from uec_rag.cli.answers import beginning
from uec_rag.documents import passages_of, read_folder
from uec_rag.encoders.base import token_counter
from uec_rag.retrieval.files import update_files
from uec_rag.stores import open_store
from uec_rag.stores.base import Passage


def test_json_has_all_that_a_result_knows(run, documents, words, tmp_path):
    run("index", documents, "--out", tmp_path / "idx", "--model", words, "--model", "bm25")
    answer = run("ask", tmp_path / "idx", "honey in the hive", "--json", json_output=True)
    [found] = Retriever.load(tmp_path / "idx", fit=False).search(["honey in the hive"], k=4)
    assert [passage["metadata"]["source"] for passage in answer["passages"]] == ["bees.md"] * 4
    first, known = answer["passages"][0], found.metadata(0, details=True)
    for name in ("decision", "reason"):
        assert answer[name] == known[f"uec_{name}"]
    assert answer["candidates"] == [*found.decision.candidates]
    for name in ("confidence", "in_corpus", "underspecified", "weights"):
        assert answer[name] == pytest.approx(known[f"uec_{name}"], rel=1e-3)
    for name in ("score", "mu", "sigma2", "relevance"):
        assert first[name] == pytest.approx(known[f"uec_{name}"], rel=1e-3)
    assert first["score"] == float(f"{known['uec_score']:.6g}")
    assert first["matched_terms"] == known["uec_matched_terms"]
    assert first["matched_terms"][0] in ("hive", "honey")
    assert first["encoders"].keys() == {words.name, "bm25"}
    assert first["encoders"]["bm25"].keys() == {"similarity", "rank", "share"}
    assert [passage["id"] for passage in answer["passages"]] == found.ids


@pytest.mark.parametrize(("metadata", "shown"), data_of("places_of_hits.json"))
def test_a_hit_says_where_it_is_from(metadata, shown):
    text = str(beginning(Passage("the id", "Some text.", metadata), 80))
    assert text == f"{shown}\nSome text."


def test_a_hit_is_shown_without_fences_and_borders_and_otherwise_as_it_is():
    said = "Boxes ☐☐☐☐ (...)\n=====\n\n```sh\nrsync\n```\n\n| tool |\n| ---- |\n| tar |"
    shown = str(beginning(Passage("the id", said, {}), 80))
    assert shown == "the id\nBoxes ☐☐☐☐ (...) rsync | tool | | | | tar |"


def test_passages_may_lie_in_a_store_that_is_empty_and_is_looked_at_before_any_work(
    run, few_documents, words, tmp_path
):
    place = f"qdrant://{tmp_path}/engine/passages"
    given = ("index", few_documents, "--model", words, "--store", place, "--out")
    run(*given, tmp_path / "idx")
    asked = ("ask", tmp_path / "idx", "anchor", "--store", place, "--json")
    assert run(*asked, json_output=True)["passages"]
    again = run(*given, tmp_path / "other", code=2)
    assert "--store: expected an empty store, got one with 2 passages" in " ".join(
        again.stderr.split()
    )
    assert "Reading" not in again.stderr
    elsewhere = ("--store", "s3://a/b", "--out", tmp_path / "other")
    assert "Reading" not in run("index", few_documents, *elsewhere, code=2).stderr


def test_too_few_pairs_leave_the_ensemble_unfitted_with_a_note(run, few_documents, words, tmp_path):
    result = run("index", few_documents, "--out", tmp_path / "idx", "--model", words)
    assert result.stderr.count("note:") == 1
    assert "not fitted" in result.stderr
    answer = run("ask", tmp_path / "idx", "anchor", "--json", json_output=True)
    assert all(passage["sigma2"] == 0 for passage in answer["passages"])


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
        asked = run("ask", tmp_path / "idx", question, "--json", json_output=True)
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


def test_questions_are_asked_in_turn_until_an_empty_line(index):
    asked = CliRunner().invoke(
        app,
        ["ask", str(index), "-k", "1"],
        input="honey in the hive\n/new\nthe anchor\n\nnot asked\n",
    )
    assert asked.exit_code == 0
    assert asked.stdout.count("=> ") == 2
    assert asked.stdout.index("bees.md") < asked.stdout.index("boats.md")
    assert "not asked" not in asked.stdout
    ended = CliRunner().invoke(app, ["ask", str(index), "-k", "1", "--json"], input="honey")
    assert json.loads(ended.stdout)["question"] == "honey"


def test_passages_are_cut_by_tokens_of_the_first_encoder(run, documents, words, tmp_path):
    chunks = ("--chunk-size", "30", "--overlap", "10")
    folder = shutil.copytree(documents, tmp_path / "folder")
    made = ("index", folder, "--out", tmp_path / "idx")
    run(*made, "--model", words, "--model", "bm25", *chunks)
    index = Retriever.load(tmp_path / "idx")
    count = token_counter(index.uec.encoders)
    bodies = [passage.text.split("\n\n", 1)[1] for passage in index.passages()]
    assert 20 < max(map(count, bodies)) <= 30
    assert count("honey " * 1000) == 1000
    (folder / "bees.md").write_text("## Bees\n\n" + "Honey in the hive. " * 40)
    assert "1 changed" in run(*made, "--update").stdout
    index = Retriever.load(tmp_path / "idx")
    bodies = [p.text.split("\n\n", 1)[1] for p in index.passages({"source": "bees.md"})]
    assert 20 < max(map(count, bodies)) <= 30
    assert "1 changed" not in run(*made, "--update", *chunks).stdout
    other = run(*made, "--update", "--chunk-size", "50", code=2)
    expected = "--chunk-size 30 --overlap 10, got --chunk-size 50"
    assert expected in " ".join(other.stderr.split())


class TestUpdating:
    @pytest.fixture
    def folder(self, tmp_path, documents):
        return shutil.copytree(documents, tmp_path / "folder")

    def test_only_what_has_changed_is_read_and_what_is_gone_goes(self, run, folder, index):
        before = run("ask", index, "sand in the furnace", "--json", json_output=True)
        (folder / "bees.md").unlink()
        (folder / "boats.md").write_text("## Anchors\n\nThe anchor is heavy and the keel is deep.")
        (folder / "new.txt").write_text("The dough is in the oven, and the crust is brown.")
        told = run("index", folder, "--out", index, "--update", "--json", json_output=True)
        assert (told["new"], told["changed"], told["removed"]) == (1, 1, 1)
        assert (told["passages"], told["encoded"]) == (62, 2)
        for question in ("honey in the hive", "anchor and keel"):
            found = run("ask", index, question, "-k", "62", "--json", json_output=True)
            sources = [passage["metadata"]["source"] for passage in found["passages"]]
            assert "bees.md" not in sources
            assert sources.count("boats.md") == 1
        after = run("ask", index, "sand in the furnace", "--json", json_output=True)
        assert [p["id"] for p in after["passages"]] == [p["id"] for p in before["passages"]]
        assert after["passages"][0]["score"] == pytest.approx(before["passages"][0]["score"], 1e-2)

    def test_the_patterns_of_an_index_are_remembered_and_others_are_refused(
        self, run, folder, words, tmp_path
    ):
        made = ("index", folder, "--out", tmp_path / "idx")
        patterns = ("--exclude", "drafts/", "--include", "*.md")
        (folder / "drafts").mkdir()
        (folder / "drafts" / "bees.md").write_text("# Hives\n\nA draft.")
        run(*made, "--model", words, *patterns)
        (folder / "new.md").write_text("# Hives\n\nHoney.")
        (folder / "new.txt").write_text("Honey is sweeter.")
        before = len(Retriever.load(tmp_path / "idx"))
        for given in (["--include", "new.txt"], ["--exclude", "boats.*"], ["--follow-symlinks"]):
            told = " ".join(run(*made, "--update", *given, code=2).stderr.split())
            assert "expected --exclude 'drafts/' --include '*.md', got --" in told
            assert len(Retriever.load(tmp_path / "idx")) == before
        assert "1 new, 0 changed, 0 removed" in run(*made, "--update").stdout
        assert "0 new, 0 changed, 0 removed" in run(*made, "--update", *patterns).stdout

    def test_an_index_of_all_files_is_not_updated_from_some(self, run, folder, index):
        update = ("index", folder, "--out", index, "--update", "--include", "bees.md")
        told = " ".join(run(*update, code=2).stderr.split())
        assert "expected none of them, got --include" in told
        assert len(Retriever.load(index)) == 120

    def test_a_folder_of_other_files_is_refused(self, run, index, few_documents, tmp_path):
        other = shutil.copytree(few_documents, tmp_path / "other")
        for said in (
            "4 files (bees.md, boats.md, bread.md, ...) would be removed",
            "no file of the index is unchanged",  # it only has a name in common
        ):
            told = run("index", other, "--out", index, "--update", code=2).stderr
            assert said in " ".join(told.split())
            assert len(Retriever.load(index)) == 120
            (other / "bees.md").write_text("## Hives\n\nA page on something else.")

    def test_what_is_unchanged_removed_or_without_text_is_counted_once(self, run, folder, index):
        (folder / "bees.md").touch()
        told = run("index", folder, "--out", index, "--update")
        assert "0 new, 0 changed, 0 removed" in told.stdout
        assert "Reading" not in told.stderr
        (folder / "boats.md").unlink()
        told = run("index", folder, "--out", index, "--update").stdout
        assert "0 changed, 1 removed, 3 unchanged, 90 passages, 0 encoded" in told
        (folder / "bees.md").write_text("...")
        told = run("index", folder, "--out", index, "--update")
        assert "left out bees.md, which holds no text" in " ".join(told.stderr.split())
        assert "0 removed, 2 unchanged, 60 passages, 0 encoded; 1 empty (bees.md)" in told.stdout


def test_an_index_is_checked_without_its_models(run, few_documents, words, tmp_path):
    run("index", few_documents, "--out", tmp_path / "idx", "--model", words)
    assert "undamaged" in run("check", tmp_path / "idx").stdout
    told = run("check", tmp_path / "idx", "--json", json_output=True)
    assert told["passages"] == len(Retriever.load(tmp_path / "idx"))
    with database_of(tmp_path / "idx") as database:
        database.execute("UPDATE passages SET text = 'forged' WHERE row = 0")
    failed = run("check", tmp_path / "idx", code=2)
    assert "its checksum differs" in failed.stderr
    assert "build the index again" in failed.stderr


class TestAnUpdateBesideOthers:
    @pytest.fixture
    def folder(self, tmp_path, few_documents):
        return shutil.copytree(few_documents, tmp_path / "folder")

    @pytest.fixture
    def index(self, run, folder, words, tmp_path):
        run("index", folder, "--out", tmp_path / "idx", "--model", words)
        return tmp_path / "idx"

    def test_updates_wait_for_each_other_and_the_last_finds_all(self, folder, index):
        def update(name):
            (folder / name).write_text("The dough is in the oven.")
            return update_files(Retriever.load(index), folder)[2]

        with ThreadPoolExecutor() as pool:
            counts = [*pool.map(update, ("a.txt", "b.txt", "c.txt"))]
        assert sum(counts) == 3
        assert len(Retriever.load(index).get(["a.txt#0", "b.txt#0", "c.txt#0"])) == 3

    def test_passages_of_no_file_stay_whatever_their_source(self, run, folder, index):
        retriever = Retriever.load(index)
        sources = [None, "faq.md", ["a", "b"], {"file": "a"}, 3]
        ids = retriever.add(["A note."] * 5, metadatas=[{"source": s} for s in sources])
        (folder / "bread.txt").unlink()
        told = run("index", folder, "--out", index, "--update", "--json", json_output=True)
        assert told["removed"] == 1
        assert len(Retriever.load(index).get(ids)) == 5


def paragraphs(word, count):
    return "\n".join(
        f"## About {word} {i}\n\nThe {word} of matter {i} is here.\n" for i in range(count)
    )


@pytest.mark.parametrize("left", ["a part of each file", "no number of passages"])
def test_an_update_in_an_engine_brings_what_another_left_out(run, words, tmp_path, left):
    """It was killed, as in tests/survival, or of an older version, which kept no numbers."""
    folder, place, counts = (
        tmp_path / "folder",
        f"qdrant://{tmp_path}/engine/passages",
        {"grows": 100, "new": 200},
    )
    folder.mkdir()
    for name, count in counts.items():
        (folder / f"{name}.md").write_text(paragraphs(name, count))
    made = ("index", folder, "--out", tmp_path / "idx", "--store", place)
    run(*made, "--model", words)
    retriever = Retriever.load(tmp_path / "idx", store=open_store(place))
    before = {passage.id: passage.text for passage in retriever.passages()}
    if left == "a part of each file":
        retriever.delete([f"new.md#about-new-{i}" for i in range(64, 200)])
    else:
        passages = [*retriever.passages()]
        known = [{k: v for k, v in p.metadata.items() if k != "file_passages"} for p in passages]
        retriever.add([p.text for p in passages], [p.id for p in passages], known)
    retriever.close()
    changed = 1 if left == "a part of each file" else 2
    for expected in (changed, 0):
        told = run(*made, "--update", "--json", json_output=True)
        assert (told["new"], told["changed"], told["unchanged"]) == (0, expected, 2 - expected)
    retriever = Retriever.load(tmp_path / "idx", store=open_store(place))
    assert {passage.id: passage.text for passage in retriever.passages()} == before


def test_an_index_is_fitted_on_pairs_of_a_file(run, few_documents, pairs_file, words, tmp_path):
    made = ("index", few_documents, "--model", words, "--out", tmp_path / "idx")
    assert "Fitting the ensemble on 80 (question" in run(*made, "--fit", pairs_file).stderr
    assert Retriever.load(tmp_path / "idx").uec.is_fitted


TAUGHT = [f"{word} number {i},{i * 2654435761 % 2**32:08x}" for i in range(60) for word in "ab"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["q,p", "q, "], "line 3: expected some text as passage"),
        (TAUGHT, "cannot distinguish these passages from others (slope 0)"),
        (None, "no such file"),
    ],
)
def test_pairs_that_teach_nothing_make_no_index(run, few_documents, words, tmp_path, rows, message):
    path, out = tmp_path / "pairs.csv", tmp_path / "idx"
    if rows:
        path.write_text("\n".join(["query,passage", *rows]), encoding="utf-8")
    told = run("index", few_documents, "--model", words, "--out", out, "--fit", path, code=2).stderr
    assert message in told
    assert not out.exists()


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


class TestFilesThatCannotBeIndexed:
    @pytest.fixture
    def folder(self, tmp_path, few_documents):
        folder = shutil.copytree(few_documents, tmp_path / "folder")
        (folder / "bad.pdf").write_bytes(b"no pdf")
        (folder / "blank.txt").write_text(" ")
        Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")).write_text("The dough.")
        return folder

    def test_they_are_named_at_once_and_in_the_summary(self, run, folder, words, tmp_path):
        made = run("index", folder, "--out", tmp_path / "idx", "--model", words)
        said = " ".join(made.stderr.split())
        for named in (
            "left out bad.pdf, which cannot be read",
            "left out blank.txt, which holds no text",
            "left out \\udcff.txt, which has a name that is not Unicode; rename it",
        ):
            assert said.index(named) < said.index("Indexing")
            assert said.count(named) == 1
        assert "2 files; 1 empty (blank.txt); 2 unreadable (bad.pdf, \\udcff.txt)" in made.stdout

    def test_an_update_does_not_call_them_new(self, run, folder, words, tmp_path):
        run("index", folder, "--out", tmp_path / "idx", "--model", words)
        update = ["index", folder, "--out", tmp_path / "idx", "--update", "--json"]
        told = run(*update, json_output=True)
        assert [told[kind] for kind in ("new", "changed", "removed")] == [0, 0, 0]
        assert [told[kind] for kind in ("unchanged", "empty", "unreadable")] == [2, 1, 2]

    def test_what_is_known_of_a_file_stays_while_it_is_damaged(self, run, folder, words, tmp_path):
        (folder / "table.csv").write_text("word,meaning\nhive,the house of bees\n")
        run("index", folder, "--out", tmp_path / "idx", "--model", words)
        (folder / "table.csv").write_bytes(b"\0\0")
        update = ["index", folder, "--out", tmp_path / "idx", "--update", "--json"]
        told = run(*update, json_output=True)
        assert (told["changed"], told["unreadable"], told["passages"]) == (0, 3, 3)
        (folder / "table.csv").write_text("word,meaning\nkeel,what a ship stands on\n")
        told = run(*update, json_output=True)
        assert (told["changed"], told["unreadable"], told["passages"]) == (1, 2, 3)


def test_files_of_other_kinds_are_counted_by_their_suffix(run, few_documents, words, tmp_path):
    folder = shutil.copytree(few_documents, tmp_path / "folder")
    for name in ("a.py", "b.PY", "c.doc", "README", ".hidden.py"):
        (folder / name).write_text("text")
    given = ("index", folder, "--out", tmp_path / "idx", "--model", words)
    made = run(*given)
    said = "left out 4 files of kinds that are not read: 2 .py, 1 without a suffix, 1 .doc"
    assert said in " ".join(made.stderr.split())
    told = run(*given, "--json", json_output=True)
    assert told["other"] == {".py": 2, "": 1, ".doc": 1}


@pytest.mark.slow
def test_asking_the_embedded_models_waits_for_no_library_that_it_does_not_use(
    run, documents, tmp_path, monkeypatch
):
    """Torch and what brings it take longer to import than the answer does to find.

    Of scipy the sparse products of words are used.
    """
    monkeypatch.delenv("UEC_CACHE")  # the models' download, and texts encoded before
    run("index", documents, "--out", tmp_path / "idx")
    code = (
        "import sys; from uec_rag.cli import app\n"
        "app(sys.argv[1:], standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    asked = python(code, "ask", tmp_path / "idx", "honey in the hive", check=True)
    assert "bees.md" in asked.stdout
    imported = set(asked.stderr.splitlines()[-1].split())
    assert {"uec_rag", "onnxruntime"} <= imported
    assert imported.isdisjoint(
        {
            *("torch", "torchvision", "transformers", "sentence_transformers", "laplace"),
            *("scipy.optimize", "scipy.stats", "sklearn", "matplotlib", "pandas"),
            *("langchain_core", "llama_index"),
        }
    )
