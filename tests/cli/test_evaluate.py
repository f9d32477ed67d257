"""`uec-rag evaluate`: measures of an index, printed and as JSON."""


def test_the_command_prints_and_refuses(run, index, tmp_path):
    table = tmp_path / "questions.csv"
    table.write_text("query,relevant_ids\nyeast and flour,bread.md\nthe anchor,boats.md\nwho?,\n")
    shown = run("evaluate", index, table, "-k", "3").stdout
    assert "3 questions, 2 with an answer" in shown
    assert "nDCG@3" in shown
    told = run("evaluate", index, table, "--json", json_output=True)
    assert told["facts"]["questions"] == 3
    assert "no such file" in run("evaluate", index, tmp_path / "none.csv", code=2).stderr
    table.write_text("query,relevant_ids\nyeast,nowhere.md\n")
    assert "not in the index" in run("evaluate", index, table, code=2).stderr
