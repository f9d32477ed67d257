"""The front packages take public names alone; `make lint` checks the order of imports."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "uec_rag"
MODULES = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}


def package(module: str) -> str:
    """The folder below `uec_rag`; the front doors have none."""
    return module.rpartition("/")[0].partition("/")[0]


def _private(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Private names that a module defines, and those that it takes from other things."""
    own, taken = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            taken |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute):
            of_itself = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            (own if of_itself else taken).add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
    return tuple({name for name in names if re.match("_(?!_)", name)} for names in (own, taken))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["server", "langchain"])
def test_a_front_room_takes_only_public_names_from_other_rooms(name):
    names = {module: _private(ast.parse(path.read_text())) for module, path in MODULES.items()}
    inside = {module for module in MODULES if package(module) == name}
    own = set().union(*(names[module][0] for module in inside))
    others = set().union(*(names[module][0] for module in {*MODULES} - inside)) - own
    taken = {module: names[module][1] & others for module in inside}
    assert {module: private for module, private in taken.items() if private} == {}


ROOMS = [name for name in MODULES if name.endswith("/__init__.py")]


@pytest.mark.parametrize("module", [name for name in ROOMS if package(name) != "cli"])  # commands
def test_a_room_names_only_files_that_are_in_it(module):
    path = MODULES[module]
    words = re.findall(r"`(\w+)`", ast.get_docstring(ast.parse(path.read_text())) or "")
    there = {each.stem for each in path.parent.iterdir()}
    assert [word for word in words if word not in there] == []
