import json
import shutil

import pytest
from typer.testing import CliRunner

from benchmarks.paper import tiny
from benchmarks.paper.__main__ import app
from benchmarks.paper.plan import LANGUAGES, MAIN, Group, Plan, make_plan
from benchmarks.paper.results import Results
from benchmarks.paper.run import run
from benchmarks.paper.systems.lineup import Lineup
from tests.paper.bags import BAGS, Bag
from uec_rag.encoders import CachedEncoder

FEW = ("tiny_search", "tiny_similarity")

pytestmark = pytest.mark.slow


def group(data, encoders, sets=FEW, name=MAIN):
    plan = make_plan(data, sets=sets, fit=[tiny.FIT], proxy=tiny.PROXY)
    return Group(name, plan, Lineup(encoders, plan.pairs, lambda encoder: encoder))


def two_groups(data, cache):
    encoders = [CachedEncoder(Bag(name, noise), cache) for name, noise in BAGS.items()]
    main = group(data, encoders)
    plan = Plan(main.plan.tasks[:1], main.plan.pairs)
    return [main, Group(LANGUAGES, plan, Lineup(encoders[:2], plan.pairs, lambda e: e))]


@pytest.fixture(scope="module")
def first_run(tiny_data, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "out"
    run(two_groups(tiny_data, out.parent / "cache"), out)
    return out


@pytest.fixture
def finished(first_run, tmp_path):
    return shutil.copytree(first_run, tmp_path / "out")


def test_a_run_leaves_report_figures_and_every_number(finished):
    found = json.loads((finished / "results.json").read_text())
    cells = found["groups"][MAIN]["retrieval"]["tiny_search"]
    assert {"one", "two", "three", "GroVE", "Borda", "uniform", "UEC.paper", "UEC"} <= set(cells)
    assert not [name for name, cell in cells.items() if "error" in cell]
    assert not [name for name, result in found["analysis"].items() if "error" in result]
    report = (finished / "report.md").read_text()
    for title in ("Retrieval", "Semantic textual", "Ablation", "Calibration", "Theory", "Time"):
        assert f"## {title}" in report
    for line in report.splitlines():
        if line.startswith("!["):
            assert (finished / line.split("(")[1].rstrip(")")).stat().st_size > 1000


def test_a_killed_run_goes_on_where_it_was(finished, tiny_data):
    kept = finished / "results" / MAIN / "retrieval" / "tiny_search" / "UEC.json"
    lost = kept.with_name("uniform.json")
    before = lost.read_text()
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"metrics": {"ndcg10": 0.123}}))
    lost.unlink()
    run(two_groups(tiny_data, finished.parent / "cache"), finished)
    again, first = json.loads(lost.read_text()), json.loads(before)
    assert again["metrics"] == first["metrics"]
    assert "12.30" in (finished / "report.md").read_text()


def test_a_folder_of_another_run_is_refused(finished, tiny_data, bags):
    with pytest.raises(ValueError, match="other settings"):
        run([group(tiny_data, bags[:2])], finished)


def test_a_system_that_fails_keeps_its_row_with_the_reason(tiny_data, bags, tmp_path, monkeypatch):
    def no_memory(self, means):
        raise MemoryError("out of memory")

    monkeypatch.setattr(Lineup, "grove", no_memory)
    bags[1].resize(12)  # no shared space
    out = tmp_path / "out"
    run([group(tiny_data, bags[:2], ["tiny_search"])], out)
    cells = json.loads((out / "results.json").read_text())["groups"][MAIN]["retrieval"]
    assert cells["tiny_search"]["GroVE"]["error"] == "MemoryError: out of memory"
    assert "one dimension" in cells["tiny_search"]["uniform"]["not_applicable"]
    assert cells["tiny_search"]["UEC"]["metrics"]["ndcg10"] > 0
    report = (out / "report.md").read_text()
    assert "- GroVE (all sets) failed: MemoryError: out of memory" in report


def test_numbers_that_are_none_become_null(tmp_path):
    results = Results(tmp_path, {"a": 1})
    results.put({"x": float("nan"), "y": [1.0, float("inf")]}, "some", "key: 1/2")
    assert results.get("some", "key: 1/2") == {"x": None, "y": [1.0, None]}
    assert results.get("some", "other") is None


def test_a_quick_run_with_the_embedded_models(tmp_path):
    done = CliRunner().invoke(app, ["--quick", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    systems = {s for cells in found["groups"][MAIN].values() for c in cells.values() for s in c}
    assert {"UEC", "UEC.paper", "GroVE", "weighted (test)"} <= systems
    uec = found["groups"][MAIN]["retrieval"]["tiny_search"]["UEC"]["metrics"]
    assert uec["ndcg10"] > 0.5
