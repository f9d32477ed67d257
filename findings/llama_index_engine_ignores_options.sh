#!/bin/sh
# llama-index-core 0.14.25: RetrieverQueryEngine.from_args ignores options that it does not have.
#
# Expected: TypeError for streamin=True, as Python raises for an unknown keyword; else an answer that
# should arrive token by token does not, and a mistyped node_postprocessors= leaves a filter out.
#
# Seen, on Python 3.11: no error and no warning; the engine answers at once:
#   streaming: StreamingResponse
#   streamin: Response
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >expected <<'EOF'
streaming: StreamingResponse
streamin: Response
EOF
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check llama-index-core==0.14.25
env/bin/python - <<'EOF' | tee seen
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import TextNode

nodes = [TextNode(text="The loan of a laptop lasts two weeks.")]
retriever = VectorStoreIndex(nodes, embed_model=MockEmbedding(8)).as_retriever()
for option in ("streaming", "streamin"):
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM(), **{option: True})
    print(f"{option}: {type(engine.query('How long?')).__name__}")
EOF
diff expected seen
