"""`uec-rag evaluate`: measures of an index, printed, as JSON and on one page."""

import json
import re
from html import unescape


def test_the_command_prints_writes_and_refuses(run, index, documents, words, tmp_path):
    table, page = tmp_path / "questions.csv", tmp_path / "report.html"
    table.write_text("query,relevant_ids\nyeast and flour,bread.md\nthe anchor,boats.md\nwho?,\n")
    shown = run("evaluate", index, table, "--html", page, "-k", "3")
    assert "3 questions, 2 with an answer" in shown.stdout
    assert "reciprocal rank fusion" in " ".join(shown.stdout.split())
    said = unescape(re.sub("<[^>]*>", "", page.read_text()))
    assert all(line.rstrip() in said for line in shown.stdout.splitlines()[:2])
    told = run("evaluate", index, table, "--json", "--against", index, json_output=True)
    assert told["against"]["difference"] == [0.0, 0.0, 0.0]
    assert json.dumps(told)
    for options, message in (
        ((tmp_path / "none.csv",), "no such file"),
        ((table, "--html", tmp_path), "--html: expected a file"),
    ):
        refused = run("evaluate", index, *options, code=2)
        assert message in " ".join(refused.stderr.split())
    other, without = tmp_path / "other", tmp_path / "without"
    without.mkdir()
    (without / "boats.md").write_text((documents / "boats.md").read_text())
    run("index", without, "--out", other, "--model", words)
    refused = run("evaluate", index, table, "--against", other, code=2)
    assert f"asked of {other}" in refused.stderr.replace("\n", "")
    assert "Searching" not in refused.stderr
    table.write_text("query,relevant_ids\nyeast,nowhere.md\n")
    assert "not in the index" in run("evaluate", index, table, code=2).stderr
