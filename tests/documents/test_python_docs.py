"""The demo's corpus: real documentation, the same on every call."""

from uec_rag.documents import fitting_pairs, passages_of
from uec_rag.documents.python_docs import CHUNK_SIZE, gather_corpus


def test_a_corpus_has_the_number_of_passages_asked_for_the_same_on_every_call():
    corpus = gather_corpus(2500)
    assert 2500 <= len(passages_of(corpus, size=CHUNK_SIZE)) < 2700
    assert {one.source for one in gather_corpus(300)} < {one.source for one in corpus}
    assert gather_corpus(2500) == corpus
    texts = [section.text for document in corpus for section in document.sections]
    assert len(set(texts)) == len(texts)
    assert len(fitting_pairs(corpus, size=CHUNK_SIZE)) > 500
    known = {document.source: document.sections[0].text for document in corpus}
    assert "common leading whitespace" in known["textwrap.dedent"]
    assert "keep it sorted" in known["bisect.insort_right"]
    assert "context manager" in known["topics/with"]
