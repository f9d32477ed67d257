"""`uec-rag doctor`: what is installed, and what to do about what is wrong."""

from uec_rag.base import environment
from uec_rag.base.environment import EnvironmentReport, Problem


def test_a_sound_environment_is_listed(run, own_cache):
    shown, found = run("doctor").stdout, run("doctor", "--json", json_output=True)
    for line in ("python", "torch", "devices", "cache folder", "All is well"):
        assert line in shown
    assert found["problems"] == []
    assert found["rows"]["cache folder"] == str(own_cache)


def test_a_problem_comes_with_its_remedy_and_exit_code_1(run, monkeypatch):
    problem = Problem("numpy 1.0 is not numpy>=2", 'pip install "numpy>=2"')
    report = EnvironmentReport({"python": "3.11", "numpy": "1.0"}, (problem,))
    monkeypatch.setattr(environment, "report", lambda: report)
    shown = run("doctor", code=1).stdout
    assert "numpy 1.0 is not numpy>=2" in shown
    assert 'pip install "numpy>=2"' in shown
    assert "All is well" not in shown
    [found] = run("doctor", "--json", code=1, json_output=True)["problems"]
    assert found["fix"] == 'pip install "numpy>=2"'
