#!/bin/sh
# scipy 1.17.1 with numpy 2.4.6: `import scipy.optimize`, for the minimum of one function, also imports
# numpy.f2py, which writes wrappers of Fortran, numpy.testing, scipy.fft and scipy.spatial: over 300
# modules beside numpy's, a third of a second. One would expect what a minimum needs, and the others
# where a function is called that uses them.
# Seen on 1 December 2026: "numpy.f2py numpy.testing scipy.fft scipy.spatial".
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "scipy==1.17.1" "numpy==2.4.6"
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import numpy

before = {*sys.modules}
import scipy.optimize

names = "numpy.f2py numpy.testing scipy.fft scipy.spatial"
loaded = {*sys.modules} - before
print(*(name for name in names.split() if name in loaded))
assert loaded >= {*names.split()} and len(loaded) > 300, "it changed"
PYTHON
