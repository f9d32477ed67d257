"""How large the house may be, and how things are named."""

import ast

import pytest

from tests import house

UNNAMED = 0.004  # the share of names that are no nouns
NO_NOUNS = (
    "one ones own other others each every both either none some several many most few fewest more "
    "less least rest all any another same such this that these those it its them they their theirs "
    "who whose what which where when found said told asked seen known given kept made left taken "
    "called named wanted meant read written shown sent got gone done held chosen counted matched "
    "added applied tried used needed allowed joined opened passed refused lacking beside near far "
    "new old first second third last next only"
)
SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


@pytest.mark.parametrize(("excess", "code"), [(0, 0), (-1, 0), (1, 1)])
def test_the_house_may_shrink_and_does_not_grow(excess, code, capsys):
    counts = {name: count + excess for name, count in house.REACHED.items()}
    assert house.report(counts.items()) == code
    assert ("simplify something" in capsys.readouterr().out) == (excess > 0)


def test_lines_are_those_of_code():
    text = (
        '"""A module."""\n\nX = """\ntwo"""  # why\n\n\ndef f():\n    """Docs."""\n    return X\n'
    )
    assert house.lines_of(text) == 4


def names_in(node, scope=()):
    """The names bound under a node, each with the scope that it is bound in."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.arg(name) | ast.Name(name, ast.Store()) | ast.Attribute(_, name, ast.Store()):
                yield scope, name
        yield from names_in(child, (*scope, child.lineno) if isinstance(child, SCOPES) else scope)


def test_values_are_named_by_nouns():
    names = []
    for path in house.HOME.rglob("*.py"):
        names += [name for _, name in {*names_in(ast.parse(path.read_text(encoding="utf-8")))}]
    names = [name.strip("_") for name in names if name not in ("self", "cls", "_", "__all__")]
    assert sum(name in {*NO_NOUNS.split()} for name in names) <= UNNAMED * len(names)
