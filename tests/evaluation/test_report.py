"""The report of an evaluation, on a page of its own."""

import re

from uec_rag import Retriever
from uec_rag.base.version import __version__
from uec_rag.evaluation.evaluate import evaluate
from uec_rag.evaluation.report import evaluation_page


def test_the_page_stands_alone_and_obeys_no_document(fitted, texts):
    index = Retriever(fitted)
    bad = "<script>alert(1)</script> \x1b[31m" + texts[0]
    index.add([bad, *texts[1:60]], [f"p{i}" for i in range(60)])
    found = evaluate(index, {bad: ["p1"], texts[2]: ["p2"]}, k=4)
    page = evaluation_page(found, index="<b>idx</b>", questions="\x1bq.csv")
    assert "<script" not in page
    assert "\x1b" not in page
    assert not re.search(r"(?:src|href)=", page)
    for named in ("&lt;b&gt;idx", "60 passages", "q.csv", *found.facts["members"], __version__):
        assert named in page
