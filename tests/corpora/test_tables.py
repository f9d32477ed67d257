"""Tables of questions that users give."""

import pytest

from uec_rag.corpora.tables import read_questions


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.csv", "question\nWho?\n"),
        ("q.jsonl", '{"question": "Who?"}'),
        ("r.csv", "query\nWho?\n"),
    ],
)
def test_the_column_of_questions_is_called_query_or_question(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert read_questions(tmp_path / name, labelled=False) == {"Who?": set()}


def test_a_line_nested_too_deep_is_named(tmp_path):
    path = tmp_path / "questions.jsonl"
    deep = "[" * 100_000
    path.write_text('{"query": "Who?"}\n{"query": "What?", "relevant_ids": ' + deep + "\n")
    with pytest.raises(ValueError, match=r"questions\.jsonl, line 2: .* nested too deep"):
        read_questions(path, labelled=False)
