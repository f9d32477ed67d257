"""`uec-rag questions`."""

from uec_rag import Retriever


def test_the_questions_to_label_next_have_no_label(run, index, tmp_path):
    table = tmp_path / "asked.csv"
    table.write_text("query\nhoney in the hive\nanchor and keel\nwho wrote hamlet?\n")
    shown = run("questions", index, table, "--json", json_output=True)
    assert {"who wrote hamlet?", "anchor and keel"} <= {one["query"] for one in shown}
    Retriever.load(index).label("anchor and keel", [])
    shown = run("questions", index, table, "--json", json_output=True)
    assert "anchor and keel" not in {one["query"] for one in shown}
    assert len(run("questions", index, "--most", "3").stdout.splitlines()) <= 3
