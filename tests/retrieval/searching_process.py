"""A process of its own that searches a table of PostgreSQL and prints what it is told.

python -m tests.retrieval.searching_process DSN COLLECTION: a line of questions in JSON on standard
input, a line of answers on standard output, until there are no more.
"""

import json
import sys
import warnings

from tests.helpers import bag_of_words, pairs
from uec_rag import UEC, Retriever
from uec_rag.stores.pgvector import PgVectorStore


def make_uec():
    """The same in every process."""
    return UEC([bag_of_words(24, "bag"), "bm25"]).fit(pairs(200))


def told(retriever, questions):
    """All that is made of questions."""
    result = retriever.search(questions, k=4)
    return {
        "basis": result.basis,
        "ids": result.ids,
        "confidence": result.confidence.tolist(),
        "coefficients": result.coefficients.tolist(),
        "relevance": result.relevance.tolist(),
    }


def main():
    warnings.simplefilter("ignore")
    retriever = Retriever(make_uec(), PgVectorStore(sys.argv[1], collection=sys.argv[2]))
    for line in sys.stdin:
        print(json.dumps(told(retriever, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
