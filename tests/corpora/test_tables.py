"""Tables of questions that users give."""

import pytest

from uec_rag.corpora.tables import read_questions


def test_a_line_nested_too_deep_is_named(tmp_path):
    path = tmp_path / "questions.jsonl"
    deep = "[" * 100_000
    path.write_text('{"query": "Who?"}\n{"query": "What?", "relevant_ids": ' + deep + "\n")
    with pytest.raises(ValueError, match=r"questions\.jsonl, line 2: .* nested too deep"):
        read_questions(path, labelled=False)
