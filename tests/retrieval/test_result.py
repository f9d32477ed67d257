"""A result as a table, and as a notebook shows it."""

import pytest

from uec_rag import Retriever


def test_a_result_is_a_table_with_a_row_for_each_hit(full, queries):
    result = full.search(queries[:3], 4)
    frame = result.to_frame()
    assert len(frame) == 12
    assert list(frame["rank"][:4]) == [1, 2, 3, 4]
    assert frame["id"].tolist() == [id_ for row in result.ids for id_ in row]
    assert frame["uec_score"].tolist() == pytest.approx(result.scores.ravel().tolist())
    assert set(frame["query"]) == set(queries[:3])


def test_a_notebook_shows_decisions_and_hits_and_obeys_no_document(fitted, texts):
    index = Retriever(fitted)
    bad = "<script>alert(1)</script> \x1b[31m" + "x" * 1_000_000
    index.add([bad, *texts[:30]])
    shown = index.search([texts[0], "<b>bold</b>"] + ["more"] * 30, 31)._repr_html_()
    assert "<script" not in shown
    assert "<b>bold" not in shown
    assert "&lt;script&gt;" in shown
    assert "\x1b" not in shown
    assert len(shown) < 1_000_000
    assert "12 more questions" in shown
    assert f"<b>{index.search([texts[0]], 31).decisions[0].action}</b>" in shown
