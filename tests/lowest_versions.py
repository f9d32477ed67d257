"""Constraints for pip: the lowest version that pyproject.toml allows of every library.

python tests/lowest_versions.py > lowest.txt
"""

import re
import tomllib
from itertools import chain
from pathlib import Path

FLOOR = re.compile(r"([\w.-]+)(?:\[[\w,-]+\])?>=([\w.]+)")


def constraints(requirements):
    """Pin what has a floor to it.

    >>> constraints(["numpy>=2", "langchain-core>=1.4,<2", "uec-rag[all,mteb]", "types-docutils"])
    ['langchain-core==1.4', 'numpy==2']
    """
    floors = {match.groups() for match in map(FLOOR.match, requirements) if match}
    return sorted(f"{name}=={floor}" for name, floor in floors)


if __name__ == "__main__":
    pyproject = Path(__file__).parent.parent / "pyproject.toml"
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    print("\n".join(constraints(chain(project["dependencies"], *extras))))
