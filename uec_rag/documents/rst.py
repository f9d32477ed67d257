"""Reading of reStructuredText, with the roles and directives that only Sphinx has."""

import io
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, ClassVar

from docutils import nodes
from docutils.core import publish_doctree, publish_from_doctree
from docutils.parsers.rst import Directive, directives, roles
from docutils.parsers.rst.languages import en

from uec_rag.documents.document import Content, Page
from uec_rag.documents.html import html_blocks
from uec_rag.documents.plain_text import shown_of_role

_ROLE = re.compile(r":([a-zA-Z][\w:+.-]*):`")
_DIRECTIVE = re.compile(r"^\s*\.\.[ \t]+(?:\|[^|\n]*\|[ \t]+)?([\w:.+-]+)[ \t]?::", re.MULTILINE)
_INCLUDED = re.compile(r"^[ \t]*\.\.[ \t]+(?:literal)?include[ \t]*::", re.MULTILINE)
_PIECE = re.compile(r"\S.{0,1500}(?!\S)|\S{1,1500}")
_LONG_LINE = re.compile(r"^.{5001,}$", re.MULTILINE)
_CODE = "code code-block sourcecode doctest testcode prompt graphviz mermaid"
# Directives of which only the content is shown, and those of which nothing is.
_UNNAMED = f"cssclass ifconfig only rst-class glossary tabularcolumns {_CODE}"
_OTHER_IN_SPHINX = ("class", "code", "code-block", "sourcecode", "include", "raw")
_EMPTY = """
    currentmodule py:currentmodule default-domain highlight include index literalinclude module
    py:module program tabularcolumns raw image toctree setting signal event control testsetup
    testcleanup highlightlang todo todolist comment
"""
_SHOWN_BY = {"html", "builder_html", "not", "singlehtml", "dirhtml"}  # tags of ".. only::"
_VERSIONS = {
    "versionadded": "Added in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "versionremoved": "Removed in version",
}
_SETTINGS = {
    "docinfo_xform": False,  # it would take the names of fields away
    "file_insertion_enabled": False,  # a document must not include other files
    "raw_enabled": False,
    "embed_stylesheet": False,
    "syntax_highlight": "none",
    "report_level": 5,
    "halt_level": 5,
    "warning_stream": io.StringIO(),
    "output_encoding": "unicode",
    "_disable_config": True,
}


class _Shown(Directive):
    """A directive of Sphinx: its argument and its content."""

    optional_arguments, final_argument_whitespace, has_content = 1, True, True
    option_spec: ClassVar[dict[str, Callable[[str], Any]] | None] = defaultdict(
        lambda: directives.unchanged, {"class": directives.unchanged}
    )

    def run(self) -> list[nodes.Node]:
        name = self.name.casefold()
        if name in _EMPTY.split():
            return []
        tags = {*re.findall(r"\w+", " ".join(self.arguments))}
        if name == "only" and tags and tags.isdisjoint(_SHOWN_BY):
            return []
        argument = "" if name in _UNNAMED.split() else " ".join(" ".join(self.arguments).split())
        argument = f"{_VERSIONS.get(name, '')} {argument}".strip()
        parts, _ = self.state.inline_text(argument, self.lineno)
        # The arguments of a function, "*more" and "**how", are no emphasis.
        if "(" in argument and "`" not in argument:
            parts = [nodes.Text(argument)]
        parts_shown: list[nodes.Node] = [nodes.paragraph(argument, "", *parts)] if argument else []
        content = "\n".join(self.content)
        if name in _CODE.split():
            return [*parts_shown, nodes.literal_block(content, content)]
        within = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, within, match_titles=True)
        return [*parts_shown, *within.children]


def _role(name: str, rawtext: str, text: str, *_: object, **__: object) -> Any:  # noqa: ANN401
    text_shown = shown_of_role(" ".join(text.replace("\0", "").split()))
    return [nodes.inline(rawtext, text_shown)], []


def read_rst(text: str) -> Content:
    """Read reStructuredText."""
    # docutils takes the square of the length of a line, and refuses 10,000 characters.
    text = _LONG_LINE.sub(lambda line: "\n\n".join(_PIECE.findall(line[0])), text)
    for name in {name.lower() for name in _ROLE.findall(text)} - en.roles.keys():
        roles.register_local_role(name, _role)
    names = {name.lower() for name in _DIRECTIVE.findall(text)} - en.directives.keys()
    for name in names | {*_OTHER_IN_SPHINX}:
        directives.register_directive(name, _Shown)
    left_out = Counter({"included file": len(_INCLUDED.findall(text))})
    tree = publish_doctree(text, settings_overrides=_SETTINGS)
    for message in [*tree.findall(nodes.system_message)]:  # of what docutils refuses, the content
        sources = "\n".join(block.astext() for block in message.findall(nodes.literal_block))
        text = re.sub(r"(?m)^[ \t]*(?:\.\. .*|:[\w-]+:.*)$", "", sources).strip()
        left_out["directive that docutils refuses"] += bool(sources and not text)
        message.parent.replace(message, [nodes.paragraph(text, text)] if text else [])
    for node in [*tree.findall(lambda node: isinstance(node, nodes.field | nodes.topic))]:
        is_contents = isinstance(node, nodes.topic) and "contents" in node["classes"]
        if is_contents or (isinstance(node, nodes.field) and not node[1].children):  # ":orphan:"
            node.parent.remove(node)
    page = publish_from_doctree(tree, writer="html5", settings_overrides=_SETTINGS)
    return Content([Page(html_blocks(str(page)))], left_out=left_out)
