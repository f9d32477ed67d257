#!/bin/sh
# ragas 0.4.3 with langchain-community 0.4.2, which pip installs beside it on 29 November 2026: `import
# ragas` fails. It imports langchain_community.chat_models.vertexai, which 0.4 no longer has, and asks
# for no version of langchain-community.
#
# Expected: what pip resolves can be imported. Seen: "No module named
# 'langchain_community.chat_models.vertexai'"; with langchain-community 0.3.31 it is imported.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 0.4.2 0.3.31; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install -q --disable-pip-version-check "ragas==0.4.3" "langchain-community==$version"
    "$folder/$version/bin/python" - "$version" <<'PYTHON' | tee -a "$folder/seen"
import sys

try:
    import ragas
except ModuleNotFoundError as error:
    print(sys.argv[1], error.name)
else:
    print(sys.argv[1], "imported")
PYTHON
done
printf '%s\n' "0.4.2 langchain_community.chat_models.vertexai" "0.3.31 imported" >"$folder/expected"
diff "$folder/expected" "$folder/seen"
