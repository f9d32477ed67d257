#!/bin/sh
# PyStemmer 2.2.0.3, 3.0.0 and 3.1.0: the English stems of some words differ between any two of
# them, and Stemmer.version() does not tell the first two apart.
#
# Expected: Stemmer.version(), the version of the algorithms, differs where stems differ. Who keeps
# stems, as an index of words does, would compare it.
#
# Seen, on Python 3.11: what is below. So compare the stems of a list of words.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >expected <<'EOF'
2.2.0.3 2.0.1 paste=past university=univers evening=even international=intern interval=interv skis=ski
3.0.0 2.0.1 paste=paste university=universiti evening=evening international=intern interval=interv skis=skis
3.1.0 3.1.0 paste=paste university=universiti evening=evening international=internat interval=interval skis=ski
EOF
for version in 2.2.0.3 3.0.0 3.1.0; do
    python3 -m venv "env-$version"
    "env-$version/bin/python" -m pip install -q --disable-pip-version-check "PyStemmer==$version"
    "env-$version/bin/python" - "$version" <<'EOF' | tee -a seen
import sys
import Stemmer

words = "paste university evening international interval skis".split()
stems = zip(words, Stemmer.Stemmer("english").stemWords(words))
print(sys.argv[1], Stemmer.version(), *(f"{word}={stem}" for word, stem in stems))
EOF
done
diff expected seen
