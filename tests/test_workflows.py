""".github/workflows: that they call what is there, and who may publish."""

import os
import re
import subprocess
import sys

import pytest
import yaml

from benchmarks.weights import SOURCES
from tests.markdown import ROOT
from uec_rag import __version__
from uec_rag.encoders.packages import PACKAGED

WORKFLOWS = {
    path.name: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / ".github/workflows").glob("*.yml"))
}
RELEASE = WORKFLOWS["release.yml"]["jobs"]


def commands(workflow):
    """What the steps of a workflow run."""
    return [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_target_that_a_workflow_makes_is_one_of_the_makefile(name):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    made = re.findall(r"\bmake ([\w-]+)", "\n".join(commands(WORKFLOWS[name])))
    assert {*made} <= {*targets}


@pytest.mark.parametrize(("tag", "taken"), [(f"v{__version__}", True), ("v0.0.1", False)])
def test_only_the_tag_of_this_version_is_released(tag, taken, tmp_path):
    [step] = (s for s in RELEASE["build"]["steps"] if s.get("name") == "The tag is the version")
    (tmp_path / "python").symlink_to(sys.executable)
    found = os.environ | {"GITHUB_REF_NAME": tag, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-ec", step["run"]], cwd=ROOT, env=found)
    assert (done.returncode == 0) is taken


def test_weights_of_both_presets_are_built_checked_and_published_only_if_asked_for():
    jobs = WORKFLOWS["weights.yml"]["jobs"]
    assert [*jobs["build"]["strategy"]["matrix"]["model"]] == [*SOURCES] == [*PACKAGED]
    built = "\n".join(commands({"jobs": {"build": jobs["build"]}}))
    assert built.index("benchmarks.weights") < built.index("twine check --strict")
    assert jobs["publish"]["if"] == "inputs.publish"
    assert jobs["publish"]["needs"] == "build"
    trusted = [name for name, job in jobs.items() if "id-token" in job["permissions"]]
    assert trusted == ["publish"]


def test_what_is_published_was_built_checked_and_tried_and_no_token_is_kept():
    assert WORKFLOWS["release.yml"][True] == {"push": {"tags": ["v*"]}}  # YAML's "on" is a truth
    built = "\n".join(commands({"jobs": {"build": RELEASE["build"]}}))
    order = [built.index(each) for each in ("-m build\n", "twine check --strict", "first_lines.py")]
    assert order == sorted(order)
    assert RELEASE["publish"]["needs"] == "build"
    assert RELEASE["publish"]["environment"]["name"] == "pypi"
    trusted = [name for name, job in RELEASE.items() if "id-token" in job["permissions"]]
    assert trusted == ["publish"]
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
