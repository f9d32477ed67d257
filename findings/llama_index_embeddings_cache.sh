#!/bin/sh
# llama-index-core 0.14.25: BaseEmbedding(embeddings_cache=...) keeps vectors by the text alone.
#
# Expected: a question and a passage of the same words have keys of their own, since a model whose
# get_query_embedding differs from its get_text_embedding (prompts, two towers) gives two vectors.
#
# Seen, on Python 3.11: the question gets the passage's vector, and the other way round:
#   without a cache: passage [0.0, 1.0], question [1.0, 0.0]
#   with a cache: passage [0.0, 1.0], question [0.0, 1.0]
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >expected <<'EOF'
without a cache: passage [0.0, 1.0], question [1.0, 0.0]
with a cache: passage [0.0, 1.0], question [0.0, 1.0]
EOF
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check llama-index-core==0.14.25
env/bin/python - <<'EOF' | tee seen
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.storage.kvstore import SimpleKVStore


class TwoTowers(BaseEmbedding):
    def _get_query_embedding(self, query):
        return [1.0, 0.0]

    async def _aget_query_embedding(self, query):
        return [1.0, 0.0]

    def _get_text_embedding(self, text):
        return [0.0, 1.0]


for said, options in (("without", {}), ("with", {"embeddings_cache": SimpleKVStore()})):
    model = TwoTowers(**options)
    passage = model.get_text_embedding("refunds")
    print(f"{said} a cache: passage {passage}, question {model.get_query_embedding('refunds')}")
EOF
diff expected seen
