import numpy as np
import pytest

from benchmarks.paper import plots, results
from tests.helpers import data_of

GRID = {
    name: {system: results.Cell(**cell) for system, cell in cells.items()}
    for name, cells in data_of("grid_of_results.json").items()
}
SYSTEMS = ["bge-small", "e5-small", "uniform", "UEC"]


def lines():
    table = results.system_table(GRID, SYSTEMS, ["ndcg10", "auc10"], SYSTEMS[:2])
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return {(row[0], row[1]): row[2:] for row in rows}


def test_the_best_of_a_line_is_bold_and_the_oracle_does_not_compete():
    assert lines()["belebele_en", "nDCG@10"] == ["90.00", "80.00", "failed", "**95.00**", "90.00"]
    assert lines()["cranfield", "nDCG@10"] == ["30.00", "**40.00**", "35.00", "–", "40.00"]


def test_the_oracle_is_one_member_for_all_metrics_of_a_set():
    assert lines()["belebele_en", "AUC@10"][-1] == "–"  # of the member with the best nDCG@10
    assert lines()["cranfield", "AUC@10"][-1] == "20.00"


def test_the_papers_figures_stand_below_ours_where_the_data_set_is_the_same():
    paper = lines()["belebele_en (paper)", "nDCG@10"]
    assert paper == ["93.64", "94.91", "95.25", "", ""]
    assert ("cranfield (paper)", "nDCG@10") not in lines()


def test_only_systems_with_all_sets_have_an_average():
    assert results.averages(GRID, SYSTEMS, "ndcg10") == pytest.approx(
        {"bge-small": 0.6, "e5-small": 0.6}
    )


def test_every_failure_is_listed_once_with_its_sets():
    assert results.failures(GRID) == [
        "- uniform (belebele_en) failed: ValueError: no",
        "- UEC (cranfield) is not applicable: it only ranks",
    ]


@pytest.mark.parametrize("name", results.paper_tables())
def test_the_papers_tables_are_whole(name):
    table = results.paper_tables()[name]
    assert all(len(numbers) == len(table.columns) for numbers in table.rows.values())
    assert len(results.paper_table(name).splitlines()) == len(table.rows) + 4


@pytest.mark.parametrize("name", ["retrieval", "classification", "bitext", "clustering"])
def test_the_papers_averages_are_nearly_those_of_its_rows(name):
    table = results.paper_tables()[name]
    for (row, metric), average in table.rows.items():
        if row == "Average":
            own = [v for (r, m), v in table.rows.items() if m == metric and r != "Average"]
            gap = np.abs(np.mean(own, axis=0) - average)
            assert np.median(gap) < 0.5  # the paper's own averages are off by more in places


def test_the_same_figure_is_the_same_bytes(tmp_path):
    for name in ("a.png", "b.png"):
        plots.heatmap(tmp_path / name, [[0.2, 0.8], [0.6, 0.4]], ["x", "y"], ["p", "q"])
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_curve_with_a_zero_fits_on_a_logarithmic_axis(tmp_path):
    plots.curves(tmp_path / "c.png", [0, 0.1, 1], {"y": [1, 2, float("nan")]}, ("x", "y"))
    assert (tmp_path / "c.png").stat().st_size > 1000


def test_stacked_bars_have_a_colour_for_each_part(tmp_path):
    parts, colours = {"right": [60, 0], "wrong": [40, 100]}, {"right": "green", "wrong": "red"}
    plots.stacked(tmp_path / "s.png", ["ours", "theirs"], parts, colours, "questions")
    assert (tmp_path / "s.png").stat().st_size > 1000
    with pytest.raises(KeyError, match="wrong"):
        plots.stacked(tmp_path / "t.png", ["ours"], {"wrong": [1]}, {}, "questions")
