#!/bin/sh
# llama-index-core 0.14.25: pickling a component changes the component itself.
#
# BaseComponent.__getstate__ leaves out attributes that do not pickle. It deletes them from the
# state that pydantic returns, whose "__dict__" is that of the object, so that the object that was
# pickled has lost them, too. A postprocessor or an embedding that was sent to a worker raises
# AttributeError from then on in the process that sent it.
#
# Seen:
#     before: True
#     after: False
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet llama-index-core==0.14.25
"$folder/venv/bin/python" - > "$folder/seen" <<'PYTHON'
import pickle
from collections.abc import Callable

from llama_index.core.schema import BaseComponent


class Weighted(BaseComponent):
    weigh: Callable[[str], float]


component = Weighted(weigh=lambda text: 1.0)
print("before:", hasattr(component, "weigh"))
pickle.dumps(component)
print("after:", hasattr(component, "weigh"))
PYTHON
cat "$folder/seen"
printf 'before: True\nafter: False\n' | cmp - "$folder/seen"
