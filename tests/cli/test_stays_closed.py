"""An index that requires a tenant goes on to require it, whatever is made of it, until told."""

import pickle

import pytest

from tests.helpers import index_of
from tests.ways import of_langchain
from uec_rag import UEC, Gate, Retriever, langchain, llama_index
from uec_rag.stores.source import Source, SourceStore

WORDS = UEC(["bm25"])
TEXTS = ["The boiler room is opened by Ines.", "The boiler room is opened by Piet."]
TEAMS = [{"team": "day"}, {"team": "night"}]
DAY, NIGHT = {"team": "day"}, {"team": "night"}
QUESTION = "Who opens the boiler room?"


def open_index():
    return index_of(WORDS, TEXTS, [*"dn"], TEAMS)


def closed_in(folder, tenant=None):
    """Whether what is saved in a folder answers nobody who names no tenant."""
    index = Retriever.load(folder, WORDS)
    with pytest.raises(ValueError, match="tenant: expected a filter"):
        index.search([QUESTION])
    assert index.search([QUESTION], tenant=DAY).ids == [["d"]]
    index.close()
    return True


def saved_by_gate(index, folder):
    index.save(folder)
    langchain.UECGate(retriever=of_langchain(index), tenant_required=True).save(folder)


CLOSING = {
    "index": lambda index, folder: Retriever(WORDS, index.store, tenant_required=True).save(folder),
    "LangChain's retriever": lambda index, folder: of_langchain(index, tenant_required=True).save(
        folder
    ),
    "LangChain's store": lambda index, folder: langchain.UECVectorStore(
        index, tenant_required=True
    ).save(folder),
    "LlamaIndex's retriever": lambda index, folder: llama_index.UECRetriever(
        index, tenant=NIGHT, tenant_required=True
    ).save(folder),
    "LlamaIndex's store": lambda index, folder: llama_index.UECVectorStore(
        index, tenant_required=True
    ).persist(folder),
    "gate": saved_by_gate,
}


@pytest.mark.parametrize("close", CLOSING.values(), ids=CLOSING)
def test_whoever_requires_a_tenant_saves_that(close, tmp_path):
    close(open_index(), tmp_path / "idx")
    assert closed_in(tmp_path / "idx")


def replaced(folder, _):
    open_index().save(folder)


def replaced_by_another_store(folder, _):
    open_index().save(folder.parent / "beside")
    Retriever.load(folder.parent / "beside", WORDS).save(folder)


def saved_again(folder, _):
    Retriever.load(folder, WORDS).save(folder)


def closed_meanwhile(folder, _):
    index = Retriever.load(folder, WORDS)
    Retriever.load(folder, WORDS).save(folder, tenant_required=False)
    beside = Retriever.load(folder, WORDS)
    of_langchain(index, tenant_required=True).save(folder)
    beside.label(QUESTION, None, tenant=DAY)
    beside.save(folder)


def learned_again(folder, _):
    index = Retriever.load(folder, WORDS)
    index.snapshot().save(folder.parent / "view")
    pickle.loads(pickle.dumps(index.snapshot())).save(folder.parent / "pickled")
    index.with_gate(Gate(0.7)).save(folder.parent / "gated")
    assert all(closed_in(folder.parent / name) for name in ("view", "pickled", "gated"))


def of_command(*options):
    def make(folder, run):
        run("index", folder, "--out", folder.parent / "new", *options)
        assert closed_in(folder.parent / "new")

    return make


def of_documents(folder, run):
    (folder.parent / "docs").mkdir()
    (folder.parent / "docs" / "boiler.md").write_text("# Boiler\n\nIt is warm.")
    run("index", folder.parent / "docs", "--out", folder, "--model", "bm25")
    found = Retriever.load(folder, WORDS)
    assert found.tenant_required
    with pytest.raises(ValueError, match="tenant: expected a filter"):
        found.search([QUESTION])
    found.tenant_required = False
    found.add(TEXTS, [*"dn"], TEAMS)
    found.close()


def of_documents_updated(folder, run):
    of_documents(folder, run)
    (folder.parent / "docs" / "second.md").write_text("# Cellar\n\nIt is cold.")
    shown = run("index", folder.parent / "docs", "--out", folder, "--update", "--json")
    assert '"new": 1' in shown.stdout


AGAIN = {
    "saved again": saved_again,
    "replaced": replaced,
    "replaced by another store": replaced_by_another_store,
    "closed by another process": closed_meanwhile,
    "views": learned_again,
    "copied by the command": of_command("--model", "bm25"),
    "of documents": of_documents,
    "updated": of_documents_updated,
}


@pytest.mark.parametrize("make", AGAIN.values(), ids=AGAIN)
def test_what_is_closed_stays_closed(make, run, tmp_path):
    Retriever(WORDS, open_index().store, tenant_required=True).save(tmp_path / "idx")
    make(tmp_path / "idx", run)
    assert closed_in(tmp_path / "idx")


def test_labels_of_tenants_go_with_the_passages(run, tmp_path):
    index = Retriever(WORDS, open_index().store, tenant_required=True)
    index.save(tmp_path / "idx")
    index.label(QUESTION, ["d"], tenant=DAY)
    index.label(QUESTION, ["n"], tenant=NIGHT)
    index.snapshot().save(tmp_path / "view")
    shown = run("index", tmp_path / "idx", "--out", tmp_path / "new", "--model", "bm25", "--json")
    assert '"labels": 2' in shown.stdout
    for name in ("view", "new"):
        copy = Retriever.load(tmp_path / name, WORDS)
        assert [copy.labels_of(tenant) for tenant in (DAY, NIGHT)] == [
            {QUESTION: {"d"}},
            {QUESTION: {"n"}},
        ]


def opened_by_attribute(folder, _):
    index = Retriever.load(folder, WORDS)
    index.tenant_required = False
    index.save(folder)


OPENING = {
    "attribute": opened_by_attribute,
    "argument": lambda folder, _: Retriever.load(folder, WORDS).save(folder, tenant_required=False),
    "in place of it": lambda folder, _: open_index().save(folder, tenant_required=False),
    "option": lambda folder, run: run("index", folder, "--out", folder, "--model=bm25", "--open"),
}


@pytest.mark.parametrize("opened", OPENING.values(), ids=OPENING)
def test_a_word_opens_it(opened, run, tmp_path):
    Retriever(WORDS, open_index().store, tenant_required=True).save(tmp_path / "idx")
    opened(tmp_path / "idx", run)
    assert {*Retriever.load(tmp_path / "idx", WORDS).search([QUESTION]).ids[0]} == {"d", "n"}


def test_a_gate_that_requires_a_tenant_is_loaded_so(tmp_path):
    retriever = of_langchain(open_index())
    for gate in (
        langchain.UECGate(retriever=retriever, tenant_required=True),
        langchain.UECGate(retriever=of_langchain(open_index(), tenant_required=True)),
    ):
        gate.save(tmp_path / "gate")
        again = langchain.UECGate.load(tmp_path / "gate", retriever)
        with pytest.raises(ValueError, match="tenant: expected a filter"):
            again.invoke(QUESTION)
        assert len(again.invoke(QUESTION, tenant=DAY)["documents"]) == 1


def test_a_fit_over_a_store_requires_what_its_retriever_did(tmp_path):
    source = SourceStore(WORDS.encoders, Source("shelf", lambda *_: [*open_index().passages()]))
    made = of_langchain(Retriever(WORDS, source, fit=False), tenant_required=True)
    gate = langchain.UECGate(retriever=of_langchain(made.index), tenant_required=True)
    for saved in (made, gate):
        saved.save(tmp_path / "fit")
        again = Retriever.load(tmp_path / "fit", store=source)
        with pytest.raises(ValueError, match="tenant: expected a filter"):
            again.search([QUESTION])


def test_no_model_reads_passages_of_several_tenants(run, tmp_path):
    Retriever(WORDS, open_index().store, tenant_required=True).save(tmp_path / "idx")
    again = ("index", tmp_path / "idx", "--out", tmp_path / "new", "--model", "bm25")
    shown = run(*again, "--questions-by", "openai:gpt-5-mini", code=2)
    assert "--tenant-key KEY" in " ".join(shown.stderr.split())
    assert not (tmp_path / "new").exists()
    shown = run(*again, "--questions-by", "openai:gpt-5-mini", "--tenant-key", "firm", code=2)
    assert "expected 'firm' in the metadata of each passage" in " ".join(shown.stderr.split())
    assert not (tmp_path / "new").exists()
