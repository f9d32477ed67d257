"""An embedding behind an API and a local model in one ensemble, with uncertainty for both.

    python examples/langchain_black_box.py
    OPENAI_API_KEY=... python examples/langchain_black_box.py     (pip install langchain-openai)

Of an API only the vectors are seen. That is enough: its last layer is taken to be the identity on
its output, so it gets a posterior, a slope and a weight like a model whose weights are at hand,
and its vectors may be of another length. Without a key a stand-in takes the API's place, which
counts letters; it is weak on purpose, to show what the fit makes of a weak member.

It prints what was fitted: each model's slope (how much a difference of its cosine says), its prior
and scale (how wide its posterior is), and the error on pairs that were kept apart (NLL, the lower
the better). Then a question: what a cosine of each model counts for it (its slope, beside the
others', times its weight), and the passages with score and variance.
"""

import os

from langchain_core.embeddings import Embeddings

from uec_rag import UEC
from uec_rag.documents import fitting_pairs, passages_of
from uec_rag.documents.python_docs import gather_corpus
from uec_rag.langchain import UECRetriever

QUESTION = "How do I remove the common indentation from all lines of a text?"


class LetterTriples(Embeddings):
    """A stand-in for an API: how often each run of three letters comes, folded into 256 numbers.

    Real and deterministic, but no language model: it sees spelling, not meaning.
    """

    model = "letter-triples"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Embed one query."""
        vector = [0.0] * 256
        padded = f"  {text.lower()}  "
        for start in range(len(padded) - 2):
            a, b, c = (ord(letter) for letter in padded[start : start + 3])
            vector[(a * 961 + b * 31 + c) % 256] += 1.0
        return vector


def api() -> Embeddings:
    """OpenAI's embedding where there is a key, else the stand-in."""
    if os.environ.get("OPENAI_API_KEY"):
        from langchain_openai import OpenAIEmbeddings

        return OpenAIEmbeddings(model="text-embedding-3-small")
    print("No OPENAI_API_KEY: letter counts stand in for the API.")
    return LetterTriples()


def main(local="arctic-embed-s", passages: int = 1000) -> None:
    documents = gather_corpus(passages)
    corpus = passages_of(documents)

    uec = UEC([api(), local])  # an API and a model on this machine: any mixture
    uec.fit(fitting_pairs(documents, limit=200))
    print(uec.report)

    retriever = UECRetriever.from_texts(
        [passage.text for passage in corpus],
        uec,
        metadatas=[passage.metadata for passage in corpus],
        k=3,
        details=True,
    )
    found = retriever.invoke(QUESTION)
    print(f"\n{QUESTION}")
    coefficients = found[0].metadata["uec_weights"]
    for (name, coefficient), weight in zip(coefficients.items(), uec.fitted.weights, strict=True):
        print(f"  a cosine of {name} counts {coefficient * weight:.2f}")
    for document in found:
        m = document.metadata
        print(f"  {m['uec_score']:.3f} (variance {m['uec_sigma2']:.1e})  {m['source']}")


if __name__ == "__main__":
    main()
