"""The wheel and the sdist: complete, and enough beside what they ask for and nothing else."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.markdown import ROOT, assert_prints, examples

pytestmark = pytest.mark.slow

FIRST_EXAMPLE = examples((ROOT / "README.md").read_text(encoding="utf-8"))[0]


def run(*command, cwd):
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


class Environment:
    """A virtual environment with the wheel, and this one's libraries as far as it asks for them.

    So nothing is downloaded twice, and a library that the package uses without asking is missing.
    """

    def __init__(self, folder: Path, wheel: Path) -> None:
        venv.create(folder, with_pip=True)
        self.folder = folder
        self.bin = folder / ("Scripts" if os.name == "nt" else "bin")
        self.python("-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel)
        self.packages = Path(
            self.python("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        )

    def python(self, *arguments: str | Path) -> str:
        return run(self.bin / "python", *arguments, cwd=self.folder)

    def provide(self, requirement: Requirement) -> None:
        """Link what this environment has of a distribution, and of all that it requires."""
        waiting, seen = [(requirement.name, extra) for extra in {"", *requirement.extras}], set()
        while waiting:
            name, extra = waiting.pop()
            # Nothing here needs torchvision: the Makefile takes out one that does not load.
            if (name, extra) in seen or name == "torchvision":
                continue
            seen.add((name, extra))
            for needed in map(Requirement, self._link(name).requires or []):
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    waiting += [(needed.name, more) for more in {"", *needed.extras}]

    def _link(self, name: str) -> metadata.Distribution:
        found = next(iter(metadata.distributions(name=name, path=[str(self.packages)])), None)
        if found is None:
            found = metadata.distribution(name)
            for top in {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}:
                if not (self.packages / top).exists():
                    (self.packages / top).symlink_to(Path(str(found.locate_file(top))))
        return found


@pytest.fixture(scope="module")
def environment(built, tmp_path_factory):
    (wheel,) = built.glob("*.whl")
    environment = Environment(tmp_path_factory.mktemp("environment"), wheel)
    environment.provide(Requirement("uec-rag"))
    return environment


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
    assert {
        "uec_rag",
        "tests",
        "docs",
        "examples",
        "benchmarks",
        "pyproject.toml",
        "LICENSE",
    } <= top
    assert not {".venv", ".git", "shared", "dist"} & top


def test_the_package_is_the_one_of_the_wheel(environment):
    place = environment.python("-c", "import uec_rag; print(uec_rag.__file__)").strip()
    assert Path(place) == environment.packages / "uec_rag" / "__init__.py"


def test_doctor_finds_all_well_without_any_extra(environment):
    shown = run(environment.bin / "uec-rag", "doctor", cwd=environment.folder)
    assert "All is well" in shown
    assert any(
        line.split() == ["langchain-core", "not", "installed"] for line in shown.splitlines()
    )


def test_the_first_lines_of_the_readme_print_what_they_print(environment, tmp_path):
    environment.provide(Requirement("uec-rag[langchain]"))
    script = tmp_path / "ten_lines.py"
    script.write_text(FIRST_EXAMPLE.code, encoding="utf-8")
    assert_prints(environment.python(script), FIRST_EXAMPLE.prints)
