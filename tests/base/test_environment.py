import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from uec_rag.base import environment
from uec_rag.base.environment import (
    FEATURES,
    missing_extra,
    report,
    require,
)

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run_python(code, *import_folders):
    """Run code in a fresh interpreter, where nothing has been imported yet."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *import_folders]))}
    return subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True)


@pytest.fixture
def broken_torchvision(tmp_path):
    """A folder with an installed torchvision that fails half-way, as one for another torch does."""
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import torchvision.extension\n"
        "raise RuntimeError('operator torchvision::nms does not exist')\n"
    )
    (package / "extension.py").touch()
    (tmp_path / "torchvision-0.28.0.dist-info").mkdir()
    (tmp_path / "torchvision-0.28.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torchvision\nVersion: 0.28.0\n"
    )
    return tmp_path


@pytest.fixture
def working_torchvision(broken_torchvision):
    (broken_torchvision / "torchvision" / "__init__.py").write_text("__version__ = '0.28.0'\n")
    return broken_torchvision


SHIELD = (
    "from uec_rag.base.environment import shield_from_broken_torchvision as shield\n"
    "shield(); shield()\n"
)


def test_a_broken_torchvision_looks_absent_to_every_way_of_asking(broken_torchvision):
    result = run_python(
        f"""{SHIELD}
import importlib.metadata, importlib.util, sys
assert importlib.util.find_spec("torchvision") is None
assert not [name for name in sys.modules if name.startswith("torchvision.")]
try:
    import torchvision
except ModuleNotFoundError as error:
    print("no module:", error.name)
try:
    importlib.metadata.version("torchvision")
except importlib.metadata.PackageNotFoundError:
    print("no distribution")
print("numpy", importlib.metadata.version("numpy"))
""",
        broken_torchvision,
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[:2] == ["no module: torchvision", "no distribution"]
    assert lines[2].startswith("numpy 2")


def test_the_shield_warns_once_and_says_how_to_mend_it(broken_torchvision):
    result = run_python(SHIELD, broken_torchvision)
    assert result.stderr.count("RuntimeWarning") == 1
    assert "operator torchvision::nms does not exist" in result.stderr
    assert "pip uninstall -y torchvision" in result.stderr


def test_a_working_torchvision_is_left_alone(working_torchvision):
    result = run_python(
        f"{SHIELD}import torchvision; print(torchvision.__version__)", working_torchvision
    )
    assert (result.stdout, result.stderr) == ("0.28.0\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("first", ["", "import transformers\n"])
def test_the_model_libraries_import_beside_a_broken_torchvision(broken_torchvision, first):
    code = "import laplace, sentence_transformers\nfrom transformers import AutoImageProcessor"
    assert run_python(first + code, broken_torchvision).returncode != 0
    shielded = run_python(first + SHIELD + code, broken_torchvision)
    assert shielded.returncode == 0, shielded.stderr


def test_without_torchvision_the_shield_imports_nothing():
    result = run_python(
        f"import sys; sys.modules['torchvision'] = None\n{SHIELD}print('torch' in sys.modules)"
    )
    assert (result.stdout, result.stderr) == ("False\n", "")


def test_the_report_names_every_library_uec_rag_asks_for():
    rows = report().rows
    for name in (
        "python",
        "numpy",
        "torch",
        "sentence-transformers",
        "laplace-torch",
        "langchain-core",
        "llama-index-core",
        "[models]",
    ):
        assert rows[name]
    assert rows["devices"].startswith("cpu")
    assert "pytest" not in rows


def test_the_report_has_the_fix_for_a_broken_torchvision(broken_torchvision):
    code = "from uec_rag.base.environment import report; print(*report().problems, sep='\\n')"
    result = run_python(code, broken_torchvision)
    assert "torchvision" in result.stdout
    assert "fix='pip uninstall -y torchvision'" in result.stdout


def test_the_report_tells_absent_and_outdated_libraries_apart(monkeypatch):
    found = {"numpy": None, "regex": None, "langchain-core": "0.3.1"}
    found |= {"sentence-transformers": None, "torch": None}
    version = environment._version
    monkeypatch.setattr(environment, "_version", lambda name: found.get(name, version(name)))
    shown = report()
    problems = {problem.what: problem.fix for problem in shown.problems}
    fix = problems["not installed: numpy, regex"]
    assert fix == 'pip install "numpy>=2" "regex>=2024.5.15"'
    assert problems["langchain-core 0.3.1 is not langchain-core<2,>=1.4"].startswith("pip install")
    assert not [what for what in problems if "sentence" in what]
    told = 'without sentence-transformers, torch: pip install "uec-rag[models]"'
    assert shown.rows["[models]"] == told


def test_a_version_that_only_an_extra_asks_for_is_no_problem(monkeypatch):
    stated = ["torch>=2", 'torch>=99; extra == "models"', 'usearch>=99; extra == "stores"']
    monkeypatch.setattr(environment.metadata, "requires", lambda name: stated)
    monkeypatch.setattr(environment, "_version", lambda name: "2.6")
    problems = [problem.what for problem in report().problems]
    assert "usearch 2.6 is not usearch>=99" in problems
    assert not [what for what in problems if what.startswith("torch ")]


def test_every_extra_has_its_sentence():
    assert set(FEATURES) == set(PROJECT["optional-dependencies"]) - {"all", "dev", "mutation"}


@pytest.mark.parametrize("extra", FEATURES)
def test_a_missing_extra_is_told_with_the_command_that_brings_it(extra):
    text = missing_extra("some-package", extra)
    assert text.startswith(FEATURES[extra])
    assert text.endswith(f'needs some-package; install it with: pip install "uec-rag[{extra}]"')


def test_what_is_missing_is_named_at_once():
    require("models", "numpy")
    with pytest.raises(ImportError, match=r"needs no-such and nor-such; .*uec-rag\[models\]"):
        require("models", "no-such", "numpy", "nor-such")
