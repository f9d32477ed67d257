"""A passage's text as a tree of elements: no markup of its own ever reaches a page as such.

A node is a text, or a list of the name of an element and its nodes. The names are those of
`_ELEMENTS`, whatever the text holds, and no element has attributes: nothing can load or run.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TypeAlias

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from uec_rag.encoders.lexical import marked

Node: TypeAlias = "str | list[Node]"

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_ELEMENTS = {
    **{"paragraph": "p", "bullet_list": "ul", "ordered_list": "ol", "list_item": "li"},
    **{name: name for name in ("blockquote", "table", "thead", "tbody", "tr", "th", "td")},
    **{"strong": "strong", "em": "em", "s": "s", "hardbreak": "br", "code_inline": "code"},
    **{"fence": "pre", "code_block": "pre"},
}
_FENCE = re.compile(r"^ {0,3}```(.*)$", re.MULTILINE)
_RULE = re.compile(r"\|?(\s*:?-+:?\s*\|)+\s*(:?-+:?)?\s*")  # below the header of a table
_BLANK = re.compile(r"\n\s*\n")


def markup(text: str, words: Collection[str] = (), *, is_markdown: bool) -> list[Node]:
    """Parse a text into nodes, some words of it marked.

    `is_markdown`: else it is plain, in paragraphs.

    Examples
    --------
    >>> markup("Rest **well** <script>", ["rest"], is_markdown=True)
    [['p', ['mark', 'Rest'], ' ', ['strong', 'well'], ' <script>']]
    """
    if not is_markdown:
        return [["p", *_marked(part, words)] for part in _BLANK.split(text) if part.strip()]
    return _nodes(SyntaxTreeNode(_MARKDOWN.parse(_mended(text))), words)


def _mended(text: str) -> str:
    """Close the table or code in which Markdown was cut."""
    first, _, rest = text.partition("\n")
    if first.startswith("|") and not _RULE.fullmatch(rest.partition("\n")[0]):
        width = first.strip().strip("|").count("|") + 1
        return f"{'|' * (width + 1)}\n{'|---' * width}|\n{text}"
    fences = _FENCE.findall(text)
    # One that names no language ends what began before the cut.
    return f"```\n{text}" if len(fences) % 2 and not fences[0].strip() else text


def _nodes(tree: SyntaxTreeNode, words: Collection[str]) -> list[Node]:
    nodes: list[Node] = []
    for child in tree.children:
        inner = _nodes(child, words) if child.children else _marked(_text(child), words)
        name = _ELEMENTS.get(child.type)
        if child.type == "heading":
            nodes.append(["p", ["strong", *inner]])
        elif name == "thead" and all(cell == ["td"] for row in inner for cell in row[1:]):
            continue  # of `_mended`
        elif name is not None:
            nodes.append(["td" if name == "th" and not inner else name, *inner])
        else:
            nodes += inner
    return nodes


def _text(leaf: SyntaxTreeNode) -> str:
    return " " if leaf.type == "softbreak" else "" if leaf.type == "hr" else leaf.content


def _marked(text: str, words: Collection[str]) -> list[Node]:
    return [["mark", piece] if is_word else piece for piece, is_word in marked(text, words)]
