"""constraints.txt, with which `make` sets up: what pyproject.toml asks for, and from no index."""

import re
import tomllib
from itertools import chain

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.markdown import ROOT

LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINS = [Requirement(line) for line in LINES if not line.startswith("#")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {**PROJECT["optional-dependencies"]}
SET_UP_APART = {"mutation"}  # by `make mutants`
DECLARED = [
    requirement
    for line in chain(
        PROJECT["dependencies"], *(EXTRAS[name] for name in EXTRAS if name not in SET_UP_APART)
    )
    if (requirement := Requirement(line)).name != PROJECT["name"]
]


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_every_requirement_has_one_version_within_its_bounds(system, python):
    here = {"sys_platform": system, "python_version": python, "python_full_version": f"{python}.9"}
    pins: dict[str, list[Requirement]] = {}
    for pin in PINS:
        if pin.marker is None or pin.marker.evaluate(here):
            pins.setdefault(canonicalize_name(pin.name), []).append(pin)
    for requirement in DECLARED:
        [pin] = pins[canonicalize_name(requirement.name)]  # else run `make lock`
        [version] = pin.specifier
        assert version.operator == "=="
        assert requirement.specifier.contains(version.version, prereleases=True), requirement


def test_no_address_and_no_build_of_one_machine_is_pinned():
    assert len(PINS) > 200
    assert [pin for pin in PINS if pin.url or "+" in str(pin.specifier)] == []
    assert [line for line in LINES if re.search(r"://|^-", line)] == []


def test_the_makefile_installs_the_torch_that_is_pinned():
    [torch] = (str(pin) for pin in PINS if pin.name == "torch")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.findall(r"^TORCH \?= (.+)$", makefile, re.MULTILINE) == [torch]
