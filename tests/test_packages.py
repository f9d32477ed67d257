"""Every import points back along the order of the packages, and none goes round in a circle.

Read from the source, so that imports for annotations alone and inside functions count too.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "uec_rag"

# A package may import those left of it. Rooms that share a place do not import each other.
ORDER = [
    ["base"],
    ["encoders", "stores", "confidence"],
    ["laplace", "corpora"],
    ["ensemble"],
    ["retrieval"],
    ["evaluation"],
    ["langchain", "llama_index", "distributed", "server"],
    ["cli"],
]
PLACE = {package: place for place, packages in enumerate(ORDER) for package in packages}
FRAMEWORKS = {"llama_index": "llama_index"}
FRAMEWORKS |= dict.fromkeys(["langchain", "langchain_core", "langgraph"], "langchain")
FRAMEWORKS |= dict.fromkeys(["fastapi", "starlette", "uvicorn", "mcp", "jinja2"], "server")


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def imports(module: str) -> frozenset[str]:
    """Modules, of ours and of others, that a module names in an import."""
    return frozenset(_imports(ast.parse(MODULES[module].read_text(encoding="utf-8"))))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "an import names the whole path"
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                yield below if below in MODULES else node.module


def package(module: str) -> str:
    """The folder below `uec_rag`; the front doors have none."""
    return module.partition(".")[2].partition(".")[0].removeprefix("__main__")


def runs(module: str) -> set[str]:
    """Modules that run when this one is imported.

    A module's packages run before it; its own are running already, and a package that lists what
    its modules hold is a circle only if one of these asks the listing.
    """
    ours = {name for name in imports(module) if name in MODULES}
    above = {name.rsplit(".", up)[0] for name in ours for up in range(1, name.count("."))}
    return ours | {package for package in above if not f"{module}.".startswith(f"{package}.")}


def circle(graph: dict[str, set[str]]) -> list[str]:
    """One circle in a graph, its first member again at the end; nothing where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_about_ten_entries_lie_at_the_top_and_each_is_a_room():
    folders = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    assert folders == {*PLACE, "__init__.py", "__main__.py", "py.typed"}


@pytest.mark.parametrize("name", [name for name in MODULES if package(name)])
def test_a_module_imports_only_rooms_before_its_own(name):
    foreign = {
        other for other in imports(name) if other in MODULES and package(other) != package(name)
    }
    assert {
        o for o in foreign if not package(o) or PLACE[package(o)] >= PLACE[package(name)]
    } == set()


def test_no_module_imports_itself_by_way_of_others():
    assert circle({name: runs(name) for name in MODULES if package(name)}) == []


def test_frameworks_are_imported_in_their_own_rooms_only():
    for name in MODULES:
        for other in imports(name):
            top = other.partition(".")[0]
            assert FRAMEWORKS.get(top, package(name)) == package(name), f"{name} imports {other}"


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


@pytest.mark.parametrize("name", ["server", "langchain"])
def test_a_front_room_takes_only_public_names_from_other_rooms(name):
    names = {module: _private(ast.parse(path.read_text())) for module, path in MODULES.items()}
    inside = {module for module in MODULES if package(module) == name}
    own = set().union(*(names[module][0] for module in inside))
    others = set().union(*(names[module][0] for module in {*MODULES} - inside)) - own
    taken = {module: names[module][1] & others for module in inside}
    assert {module: private for module, private in taken.items() if private} == {}


def test_no_module_has_a_property_with_a_lock_that_all_its_objects_share():
    """In Python 3.11, `functools.cached_property` has; ours is in `base.properties`."""
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "functools":
                assert "cached_property" not in [alias.name for alias in node.names], name
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) != ("functools", "cached_property"), name


def test_a_circle_is_found_and_a_chain_is_none():
    assert circle({"a": {"b"}, "b": {"c"}}) == []
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"b"}})) == {"b", "c"}


def test_an_import_runs_the_packages_above_it_but_not_its_own():
    assert "uec_rag.base" in runs("uec_rag.stores.local.store")
    assert "uec_rag.stores" not in runs("uec_rag.stores.local.store")


def test_imports_for_annotations_and_inside_functions_are_read():
    tree = ast.parse(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from uec_rag.base import gaussian\n"
        "def f():\n    import uec_rag.cli.ask\n"
    )
    assert set(_imports(tree)) == {"typing", "uec_rag.base.gaussian", "uec_rag.cli.ask"}
