"""A Markdown file decides alike, whoever splits it: our reader, LangChain's or LlamaIndex's."""

import pytest
from langchain_text_splitters import HTMLHeaderTextSplitter, MarkdownHeaderTextSplitter
from llama_index.core import Document
from llama_index.core.node_parser import MarkdownNodeParser
from markdown_it import MarkdownIt

from tests.helpers import DATA, rows_of
from uec_rag import UEC, Retriever, langchain, llama_index
from uec_rag.documents import passages_of, read_folder

FILE = DATA / "headings.md"
LEVELS = [(level, f"{'#' * level}", f"h{level}", f"Header {level}") for level in (1, 2, 3)]
LABELS = {"What are the prerequisites?": "Prerequisites", "What are the steps?": "Steps"}
CHAPTERS = ("Installation", "Upgrade", "Migration")


def reader(uec, folder):
    (folder / FILE.name).write_text(FILE.read_text())
    passages = passages_of(read_folder(folder))
    index = Retriever(uec)
    index.add([p.text for p in passages], [p.id for p in passages], [p.metadata for p in passages])
    return index


def markdown_splitter(uec, folder):
    splitter = MarkdownHeaderTextSplitter([(mark, name) for _, mark, _, name in LEVELS])
    return langchain.UECRetriever.from_documents(splitter.split_text(FILE.read_text()), uec).index


def html_splitter(uec, folder):
    splitter = HTMLHeaderTextSplitter([(tag, name) for _, _, tag, name in LEVELS])
    page = MarkdownIt().render(FILE.read_text())
    return langchain.UECRetriever.from_documents(splitter.split_text(page), uec).index


def node_parser(uec, folder):
    document = Document(text=FILE.read_text(), metadata={"file_name": FILE.name})
    nodes = MarkdownNodeParser().get_nodes_from_documents([document])
    return llama_index.UECRetriever.from_nodes(nodes, uec).index


@pytest.fixture(scope="module", params=[reader, markdown_splitter, html_splitter, node_parser])
def index(request, tmp_path_factory):
    return request.param(UEC(), tmp_path_factory.mktemp("documents"))


@pytest.mark.parametrize("row", rows_of("headings.csv"), ids=lambda row: row["question"])
def test_a_file_decides_alike_whoever_splits_it(index, row):
    [decision] = index.search([row["question"]]).decisions
    assert decision.action == row["decision"], decision
    if decision.action == "clarify":
        title = LABELS[row["question"]]
        offered = {reading.title for reading in decision.readings}
        assert offered == {f"{chapter}: {title}" for chapter in CHAPTERS}
