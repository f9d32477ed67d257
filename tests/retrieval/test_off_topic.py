"""`UEC()` over real documents answers no everyday question that has nothing to do with them."""

import inspect
import itertools
import re
from importlib.metadata import distributions, requires

import numpy
import pytest
import scipy.stats

from tests.helpers import DATA
from uec_rag import UEC, Retriever
from uec_rag.base.files import cache_folder
from uec_rag.documents import passages_of
from uec_rag.documents.document import Document, Section, cut
from uec_rag.documents.markdown import read_markdown
from uec_rag.documents.python_docs import CHUNK_SIZE, gather_corpus
from uec_rag.encoders import CachedEncoder

EVERYDAY = (DATA / "everyday.txt").read_text().splitlines()
ON_TOPIC = [
    "How do I remove the common indentation from all lines of a text?",
    "How do I insert an item into a list and keep it sorted?",
]
MOST = 600  # passages of a corpus


def required_packages():
    """What the packages that this one requires, with any extra, say of themselves."""
    required = {re.match(r"[\w.-]+", line)[0].lower() for line in requires("uec-rag")}
    found = {d.name.lower(): d.metadata.get_payload() for d in distributions()}
    texts = {name: found[name] for name in required & found.keys() if found[name]}
    sections = {name: cut(read_markdown(texts[name]))[1] for name in sorted(texts)}
    return passages_of(itertools.starmap(Document, sections.items()))


def docstrings_of(module):
    members = {name: getattr(module, name) for name in sorted(module.__all__)}
    docs = {name: inspect.getdoc(m) or "" for name, m in members.items() if callable(m)}
    return passages_of(Document(name, (Section((name,), doc),)) for name, doc in docs.items())


CORPORA = {
    **{f"{n} of Python's": lambda n=n: passages_of(gather_corpus(n), size=CHUNK_SIZE)
       for n in (100, 300, 600, 1000)},
    "numpy's": lambda: docstrings_of(numpy),
    "required packages'": required_packages,
    "scipy.stats'": lambda: docstrings_of(scipy.stats),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
def test_no_everyday_question_is_answered(name):
    uec = UEC()
    uec.encoders = [CachedEncoder(uec.encoders[0], cache_folder() / "embeddings"), uec.encoders[1]]
    retriever = Retriever(uec)
    passages = CORPORA[name]()
    retriever.add([p.text for p in (passages if "Python" in name else passages[:MOST])])
    found = retriever.search(EVERYDAY, k=4)
    told = zip(EVERYDAY, found.decisions, strict=True)
    assert [question for question, decision in told if decision.action == "answer"] == []
    if "Python" in name and len(passages) >= 300:
        told = [decision.action for decision in retriever.search(ON_TOPIC, k=4).decisions]
        # To insert on the left and on the right are two functions, of which one may be asked.
        assert told in (["answer", "answer"], ["answer", "clarify"])
