from benchmarks.paper import tiny
from benchmarks.paper.analyses import challenge
from benchmarks.paper.plan import MAIN, Group, make_plan
from benchmarks.paper.systems.lineup import Lineup
from tests.paper.bags import Bag


def test_every_query_is_looked_at_and_the_counts_are_shown(tiny_data, tmp_path):
    plan = make_plan(tiny_data, sets=["tiny_search"], fit=[tiny.FIT], proxy=tiny.PROXY)
    encoders = [Bag("one", 0.9), Bag("two", 0.9)]
    result = challenge.run([Group(MAIN, plan, Lineup(encoders, plan.pairs, lambda e: e))])
    assert result["queries"] == len(plan.tasks[0].data.queries)
    assert result["won"] <= result["missed_by_members"]
    report = "\n\n".join(challenge.section(result, tmp_path / "x.png"))
    assert f"Of {result['queries']} queries" in report
    case = result["case"]
    if case is None:
        assert result["won"] == 0
        assert "no case of the first kind" in report
    else:
        assert case["uec"] <= 10 < min(case["members"])
