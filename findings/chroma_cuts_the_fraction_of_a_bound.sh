#!/bin/sh
# chromadb 1.5.9 cuts the fraction of a bound that it compares with whole numbers: of the prices 4, 5
# and 6, none is above 4.5 and below 5.5, and -4 is not above -4.5. With 4.0 and 6.0 as bounds, 5 is.
# Seen on 27 November 2026: "[] [] ['b']".
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "chromadb==1.5.9"
"$folder/venv/bin/python" - <<'PYTHON'
import chromadb

collection = chromadb.EphemeralClient().create_collection("prices")
prices = {"a": 4, "b": 5, "c": 6, "d": -4}
collection.add(
    ids=[*prices],
    embeddings=[[1.0, 0.0]] * len(prices),
    metadatas=[{"price": price} for price in prices.values()],
)


def between(low, high):
    both = [{"price": {"$gt": low}}, {"price": {"$lt": high}}]
    return collection.get(where={"$and": both})["ids"]


seen = between(4.5, 5.5), between(-4.5, 0.5), between(4.0, 6.0)
print(*seen)
assert seen == ([], [], ["b"]), "it changed"
PYTHON
