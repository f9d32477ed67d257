#!/bin/sh
# langchain-core 1.8.3: an unknown key of a call's config becomes "configurable", without a word.
#
# Expected: a RunnableConfig has a few keys (callbacks, configurable, metadata, tags ...), and one that
# it has not, as a keyword of the runnable that was put into the config by mistake, is refused or
# warned of.
#
# Seen, on Python 3.11: the key is moved below "configurable", where a runnable that has no such field
# does not look, so that a limit given there is no limit:
#   config: {'configurable': {'owner': 'ann'}}
#   documents: ["ann's", "bob's"]
#   warnings: 0
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >expected <<'EOF'
config: {'configurable': {'owner': 'ann'}}
documents: ["ann's", "bob's"]
warnings: 0
EOF
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check langchain-core==1.8.3
env/bin/python - <<'EOF' | tee seen
import warnings

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda


class Notes(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager, owner=None):
        notes = [Document("ann's", metadata={"owner": "ann"})]
        notes += [Document("bob's", metadata={"owner": "bob"})]
        return [note for note in notes if owner in (None, note.metadata["owner"])]


assert len(Notes().invoke("notes", owner="ann")) == 1
show = RunnableLambda(lambda _, config: {"configurable": config["configurable"]})
with warnings.catch_warnings(record=True, action="always") as caught:
    print("config:", show.invoke("notes", {"owner": "ann"}))
    found = Notes().invoke("notes", {"owner": "ann"})
print("documents:", [note.page_content for note in found])
print("warnings:", len(caught))
EOF
diff expected seen
