"""The core does without torch, langchain and langgraph: index, search, save, fit, commands."""

import pytest

from tests.helpers import python
from tests.markdown import ROOT

pytestmark = pytest.mark.slow  # runs the embedded models

ROUND = """
import sys
from importlib.machinery import PathFinder
from itertools import product
from pathlib import Path

FORBIDDEN = {"torch", "torchvision", "transformers", "sentence_transformers", "laplace"}
FORBIDDEN |= {"langchain", "langgraph"}

class Forbid(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in FORBIDDEN:
            return super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Forbid

from typer.testing import CliRunner
from uec_rag import UEC, Retriever, langchain, llama_index
from uec_rag.cli import app
from uec_rag.stores import LocalStore

folder = Path(sys.argv[1])
owners = "Anna Boris Clara David Elena Fritz".split()
things = "key map crown letter sword lamp".split()
named = [f"the {thing} of {owner}" for thing, owner in product(things, owners)]
texts = [f"Room {number} is where {what} is kept." for number, what in enumerate(named)]
questions = [f"In which room is {what}?" for what in named]
ids = [[str(number)] for number in range(len(texts))]
asked, wanted = questions[14], texts[14]

found = langchain.UECRetriever.from_texts(texts, UEC()).invoke(asked)
assert found[0].page_content == wanted
found = llama_index.UECRetriever.from_texts(texts, UEC()).retrieve(asked)
assert found[0].text == wanted

fitted = UEC().fit(list(zip(questions, texts)))
assert fitted.report.encoders["snowflake-arctic-embed-s"].prior_precision > 0
fitted.save(folder / "uec")
uec = UEC.load(folder / "uec")
retriever = Retriever(uec)
retriever.add(texts, ids=[own for [own] in ids])
retriever.save(folder / "0")
retriever = Retriever.load(folder / "0")
assert retriever.search([asked], k=1).ids == [["14"]]
retriever.calibrate(questions, ids)
over = langchain.UECRetriever.load(folder / "0")
gate = langchain.UECGate.from_labels(over, questions, ids, max_risk=0.5)
assert gate.invoke(asked)
state = langchain.retrieval_node(over).invoke({"question": asked})
assert state["decision"] == "answer"

(folder / "docs").mkdir()
(folder / "docs" / "rooms.txt").write_text("\\n\\n".join(texts))
index = folder / "index"
for command in (["index", folder / "docs", "--out", index], ["ask", index, asked]):
    done = CliRunner().invoke(app, list(map(str, command)))
    assert done.exit_code == 0, done.output
assert "=> answer" in done.output, done.output
assert not FORBIDDEN & {name.partition(".")[0] for name in sys.modules}
try:
    UEC(["intfloat/e5-small-v2"])
except ImportError as error:
    print(error)
"""


def test_everything_but_hub_models_runs_without_them(tmp_path):
    done = python(ROUND, tmp_path, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == (
        'This needs sentence-transformers and torch; install it with: pip install "uec-rag[models]"'
    )
