"""The wheel and the sdist: complete, and enough beside what they ask for."""

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from build.env import DefaultIsolatedEnv

from tests.markdown import ROOT, assert_prints, examples
from uec_rag.base import __version__

pytestmark = pytest.mark.slow

README = (ROOT / "README.md").read_text(encoding="utf-8")


def run(*command, cwd=ROOT):
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=own)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the sdist, built from here, and the wheel, built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def environment(built, tmp_path_factory):
    """A new virtual environment with the wheel and the extra "langchain", as pip resolves them."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    (wheel,) = built.glob("*.whl")
    asked = f"uec-rag[langchain] @ {wheel.as_uri()}"
    run(folder / "bin" / "python", "-m", "pip", "install", "-q", asked, cwd=folder)
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = [path for path in (ROOT / "uec_rag").rglob("*") if path.is_file()]
    assert names == {
        path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts
    }
    assert "uec_rag/py.typed" in names


def test_the_sdist_holds_what_the_project_is_carried_on_with(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        top = {Path(name).parts[1] for name in archive.getnames()}
    folders = {"uec_rag", "tests", "docs", "examples", "benchmarks"}
    assert folders | {"pyproject.toml", "LICENSE"} <= top
    assert not {".venv", ".git", "shared", "dist"} & top


def test_an_index_takes_the_description_and_every_link_of_it_leads_somewhere(built, tmp_path):
    [wheel] = built.glob("*.whl")
    [info] = (p for p in zipfile.Path(wheel).iterdir() if p.name.endswith(".dist-info"))
    text = tmp_path / "description"
    text.write_text(metadata.PathDistribution(info).metadata.get_payload(), encoding="utf-8")
    code = (
        "import sys; from pathlib import Path; from readme_renderer.markdown import render\n"
        "print(render(Path(sys.argv[1]).read_text(encoding='utf-8')))"
    )
    with DefaultIsolatedEnv() as index:  # apart: its libraries are newer than our lowest
        index.install(["readme-renderer[md]", "twine>=6.1"])
        checked = run(
            index.python_executable, "-m", "twine", "check", "--strict", *built.glob("uec_rag*")
        )
        shown = run(index.python_executable, "-c", code, text)
    assert checked.count("PASSED") == 2
    assert "<table>" in shown
    places = re.findall(r'(?:href|src)="([^"#][^"]*)', shown)
    assert all(place.startswith("https://") for place in places)
    ours = re.compile(r"https://\S+/uec-rag/uec-rag/(?:blob/)?v([^/]+)/([^#]+)")
    found = {match[2]: match[1] for match in map(ours.match, places) if match}
    assert {*found.values()} == {__version__}
    assert {"docs/images/explore-ask-light.png", "CHANGELOG.md"} <= found.keys()
    assert all((ROOT / path).is_file() for path in found)


def test_it_takes_460_megabytes_with_langchain_and_no_torch(environment):
    (packages,) = environment.glob("lib/python3*/site-packages")
    installed = {distribution.name for distribution in metadata.distributions(path=[packages])}
    assert {"uec-rag", "langchain-core"} <= installed
    assert not {"torch", "torchvision", "transformers", "sentence-transformers"} & installed
    files = (path for path in packages.rglob("*") if path.is_file() and not path.is_symlink())
    assert sum(path.stat().st_size for path in files) < 470e6


def test_the_examples_of_the_readme_print_what_they_print(environment, tmp_path):
    script, python = tmp_path / "example.py", environment / "bin" / "python"
    for example in examples(README):
        for more in re.findall(r"# pip install (.+)", example.code):
            run(python, "-m", "pip", "install", "-q", *more.split(), cwd=environment)
        script.write_text(example.code, encoding="utf-8")
        assert_prints(run(python, script, cwd=environment), example.prints)
