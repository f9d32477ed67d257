"""Constraints for pip: the lowest version that pyproject.toml allows of every library.

python tests/lowest_versions.py > lowest.txt
"""

import re
import tomllib
from itertools import chain
from pathlib import Path

FLOOR = re.compile(r"([\w.-]+)(?:\[[\w,-]+\])?>=([\d.]+)")


def constraints(requirements):
    """Pin what has a floor to it, to the highest where extras differ.

    >>> constraints(["torch>=2.6", "uec-rag[all]", "langchain-core>=1.4,<2", "torch>=2.13"])
    ['langchain-core==1.4', 'torch==2.13']
    """
    floors = [match.groups() for match in map(FLOOR.match, requirements) if match]
    floors.sort(key=lambda floor: [int(number) for number in floor[1].split(".")])
    return sorted(f"{name}=={floor}" for name, floor in dict(floors).items())


if __name__ == "__main__":
    pyproject = Path(__file__).parent.parent / "pyproject.toml"
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    print("\n".join(constraints(chain(project["dependencies"], *extras))))
