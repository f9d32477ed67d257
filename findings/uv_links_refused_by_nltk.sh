#!/bin/sh
# nltk 3.10.4 refuses to read its data from files that have several names. uv 0.13.9 links the files of
# packages to those in its cache, where both are on one file system, so that in an environment made by
# uv, with the default link mode on Linux, the stop words in llama-index-core 0.14.25 cannot be read;
# with UV_LINK_MODE=copy, they can. Seen on 28 November 2026: "link: PermissionError", "copy: 198".
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/uv"
"$folder/uv/bin/pip" install -q "uv==0.13.9"
for mode in hardlink copy; do
  python3 -m venv "$folder/$mode"
  UV_CACHE_DIR="$folder/cache" UV_LINK_MODE=$mode "$folder/uv/bin/uv" pip install -q \
    --python "$folder/$mode/bin/python" "llama-index-core==0.14.25" "nltk==3.10.4"
done
cat > "$folder/read.py" <<'PYTHON'
from llama_index.core.utils import globals_helper

try:
    print(len(globals_helper.stopwords))
except PermissionError as error:
    print(type(error).__name__)
PYTHON
linked=$("$folder/hardlink/bin/python" "$folder/read.py" 2>/dev/null | tail -n 1)
copied=$("$folder/copy/bin/python" "$folder/read.py" 2>/dev/null | tail -n 1)
echo "link: $linked; copy: $copied"
[ "$linked" = PermissionError ] && [ "$copied" -gt 100 ] || { echo "it changed" >&2; exit 1; }
