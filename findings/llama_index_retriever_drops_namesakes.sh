#!/bin/sh
# llama-index-core 0.14.25: BaseRetriever.retrieve drops a node whose id another node has.
#
# Expected: what `_retrieve` returns is what `retrieve` returns. Two nodes of one id, as of two
# collections that number their texts from 1, differ in text and metadata, and are two hits.
#
# Seen, on Python 3.11: only the first is returned, whatever the second says, before any
# postprocessor could filter by metadata:
#   _retrieve: ['dogs', 'cats']
#   retrieve: ['dogs']
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >expected <<'EOF'
_retrieve: ['dogs', 'cats']
retrieve: ['dogs']
EOF
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check llama-index-core==0.14.25
env/bin/python - <<'EOF' | tee seen
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode


class TwoCollections(BaseRetriever):
    def _retrieve(self, query_bundle):
        nodes = [
            TextNode(id_="1", text="dogs", metadata={"collection": "a"}),
            TextNode(id_="1", text="cats", metadata={"collection": "b"}),
        ]
        return [NodeWithScore(node=node, score=0.5) for node in nodes]


both = TwoCollections()
print("_retrieve:", [hit.text for hit in both._retrieve(QueryBundle("pets"))])
print("retrieve:", [hit.text for hit in both.retrieve("pets")])
EOF
diff expected seen
