"""A process of its own that searches a table of PostgreSQL and prints what it is told.

python -m tests.retrieval.searching_process FITTED DSN COLLECTION: a line of questions in JSON on
standard input, a line of answers on standard output, until there are no more.
"""

import json
import sys
import warnings

from tests.helpers import bag_of_words
from uec_rag import UEC, Retriever
from uec_rag.stores.pgvector import PgVectorStore


def bag():
    """The encoder, the same in every process."""
    return bag_of_words(24, "bag")


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
    fitted, dsn, name = sys.argv[1:]
    uec = UEC.load(fitted, encoders={"bag": bag()})
    retriever = Retriever(uec, PgVectorStore(dsn, collection=name))
    for line in sys.stdin:
        print(json.dumps(told(retriever, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
