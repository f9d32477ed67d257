"""Reading of Markdown and MDX, with what site generators add to them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from html import unescape
from itertools import pairwise
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from uec_rag.base.text import ATTRIBUTES
from uec_rag.documents.document import Block, Content, Heading, Page
from uec_rag.documents.encodings import decode
from uec_rag.documents.tables import table_of

if TYPE_CHECKING:
    from markdown_it.token import Token

# Those of other elements in Python-Markdown, "[Start](a.md){ .md-button }", unlike "x_{i=1}"; and
# icons.
_NAMED = r"""[\w:-]+=(?:"[^"{}]*"|'[^'{}]*'|[^\s{}"']+)"""
_LIST = rf"\{{:?(?: ?[.#][A-Za-z][\w:-]*| {_NAMED})(?: +(?:[.#][\w:-]+|{_NAMED}))* ?\}}"
_INLINE_ATTRIBUTES = re.compile(
    rf"(?<=[)\]*_~^]){_LIST}|(?<===){_LIST}|\A\s*{_LIST}\s*\Z"
    rf"|:(?:fontawesome|material|octicons|simple)-[\w-]+:(?:{_LIST})?"
)
_AFTER_CODE = re.compile(rf"\A{_LIST}")
# The first line of an admonition, a collapsible block or a tab of Python-Markdown.
_BLOCK = re.compile(
    r"""( *)(?:(?:!!!|\?\?\?\+?) +([\w-]+)(?: +[\w-]+)*|===[!+]?)(?: +"(.*)")? *\Z"""
)
# Tags of Liquid and Hugo, which a site generator replaces, and targets of links that have them or
# that hold data, and of images.
_TEMPLATE_TAG = re.compile(r"\{%[^{}]*%\}|\{\{[<%][^{}]*[>%]\}\}")
_TARGET = re.compile(rf"(?<=\])\((?:(?:{_TEMPLATE_TAG.pattern})[^()\s]*|[^()\s]{{200,}})\)")
_IMAGE = re.compile(r"!\[([^\[\]]*)\]\([^()\s]*(?:[ \t]+\"[^\"]*\")?\)")
# The attributes of a tag. Other words make it text: "if a <p, x, and b> 3". Those without a value
# are the Boolean ones of HTML, old ones, and those of frameworks.
_VALUELESS = (
    *("allowfullscreen", "async", "autofocus", "autoplay", "border", "checked", "compact"),
    *("controls", "default", "defer", "disabled", "formnovalidate", "hidden", "inert", "ismap"),
    *("itemscope", "loop", "markdown", "multiple", "muted", "nomodule", "noshade", "novalidate"),
    *("nowrap", "open", "playsinline", "readonly", "required", "reversed", "selected"),
)
_TEMPLATE = r"\{[^<>]*\}"
_TAG_ATTRIBUTES = (
    rf"""(?:\s+(?:[^\s"'<>/={{}}]+\s*=\s*(?:"[^"]*"|'[^']*'|{_TEMPLATE}|[^\s"'<>{{}}]+)|{_TEMPLATE}"""
    rf"|(?:{'|'.join(_VALUELESS)}|(?:aria|data|v|x)-[\w-]+)(?![^\s/>])))*\s*/?"
)
_ANCHOR = re.compile(rf"<a{_TAG_ATTRIBUTES}></a>")
_LAYOUT_TAG = re.compile(
    r"</?(?:center|col|colgroup|details|div|figure|iframe|li|ol|p|section|span|summary|table|tbody"
    rf"|td|th|thead|tr|ul){_TAG_ATTRIBUTES}>"
)
_TAG = re.compile(rf"</?[a-z]\w*{_TAG_ATTRIBUTES}>")
# In MDX: imports, comments, and tags of components.
_MDX_IMPORT = re.compile(
    r"^import\s(?:[\w$*,{}\s]{1,500}\sfrom\s+(['\"])[^'\"\n]+\1|(['\"])[./][^'\"\n]+\2);?[ \t]*$",
    re.MULTILINE,
)
_MDX = re.compile(
    rf"`[^`]*`|\{{/\*(?s:.*?)(?:\*/\}}|\Z)|</?(?:[A-Z][\w.]*(?:\s[^<>]*)?)?/?>|{_MDX_IMPORT.pattern}",
    re.MULTILINE,
)
# Arguments of components and template tags, and the names of those that are shown, also if they are
# a single word, or are not, also if they look like prose.
_ARGUMENT = re.compile(r"(?:(?<![\w-])([\w-]+)(?:=\{?|:)\s?|[ \t])([\"'`])(.*?)\2", re.DOTALL)
_SHOWN = (
    *("caption", "content", "description", "header", "heading", "label", "name", "summary"),
    *("text", "title"),
)
_NOT_SHOWN = re.compile(r"(?i).*(?:class|classes|classname|style|src|href|url|link|id|path|icon)")
_CODE_SPAN = re.compile(r"(`[^`]*`)")
_ENTITY = re.compile(r"&#?\w{1,31};")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_TABLE_TAG = re.compile(r"<(/?)table\b", re.IGNORECASE)
_LONGEST_FRONT = 100_000  # characters
_PAIR = re.compile(r"^([\w-]+):[ \t]+[\"']?(.*?)[\"']?[ \t]*$", re.MULTILINE)
_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n(.*?\n|)\1[ \t]*(?:\n|\Z)", re.DOTALL)


def read_markdown(data: bytes) -> Content:
    """Read Markdown."""
    text, notes = decode(data)
    return markdown_content(text, notes)


def read_mdx(data: bytes) -> Content:
    """Read Markdown with components of JavaScript."""
    text, notes = decode(data)
    return markdown_content(text, notes, is_mdx=True)


def markdown_content(text: str, notes: Sequence[str] = (), *, is_mdx: bool = False) -> Content:
    """Read Markdown that is decoded; `notes`: what there is to say about that."""
    from markdown_it import MarkdownIt

    values, text = _split_front_matter(text)
    text = _with_fences_apart(text) if is_mdx else text
    lines = [*_without_block_markers(text.split("\n"))]
    parser = MarkdownIt().enable(["strikethrough", "table"])
    parser = parser.disable(["code", "html_block"]) if is_mdx else parser
    tokens = parser.parse("\n".join(lines))
    # Docusaurus also reads ".md" as MDX.
    is_mdx |= any(
        _MDX_IMPORT.match(token.content)
        for token in tokens
        if token.type == "inline" and token.level == 1
    )
    shown = [*lines]
    for token in tokens:
        if token.map is not None and token.type in ("html_block", "inline"):
            block = "\n".join(lines[slice(*token.map)])
            block = _without_comments(block) if token.type == "html_block" else block
            block = _MDX.sub(_show, block) if is_mdx else block
            shown[slice(*token.map)] = map(_shown_line, block.split("\n"))
    tables = {**_pipe_tables(tokens), **_html_tables(tokens, lines)}
    blocks = [str(values.get("description") or ""), *_blocks(tokens, shown, tables)]
    title = " ".join(str(values.pop("title", None) or "").split())
    return Content([Page(blocks)], title, values, notes)


def _blocks(
    tokens: Sequence[Token], lines: Sequence[str], tables: Mapping[int, tuple[int, Sequence[Block]]]
) -> Iterator[Block]:
    """Yield headings, tables and the lines between them."""
    start = 0
    for token, inline in pairwise(tokens):
        if token.map is None or token.level or token.map[0] < start:
            continue
        first, end = token.map
        if token.type == "heading_open":
            found: Sequence[Block] = [Heading(_plain_heading(inline), int(token.tag[1:]))]
        elif first in tables:
            end, found = tables[first]
        else:
            continue
        yield "\n".join(lines[start:first]).strip()
        yield from found
        start = end
    yield "\n".join(lines[start:]).strip()


def _pipe_tables(tokens: Sequence[Token]) -> dict[int, tuple[int, Sequence[Block]]]:
    """Return the end and the table by the first line of each table that is in nothing else."""
    tables: dict[int, tuple[int, Sequence[Block]]] = {}
    grid, place = list[list[str]](), (0, 0)
    for token in tokens:
        if token.type == "table_open" and token.level == 0 and token.map:
            grid, place = [], (token.map[0], token.map[1])
        elif token.type == "tr_open":
            grid.append([])
        elif token.type == "inline" and token.level > 3 and grid:
            grid[-1].append(_shown_line(token.content))
        elif token.type == "table_close" and token.level == 0:
            table, grid = table_of(grid, header=1), []
            tables[place[0]] = (place[1], [table] if table else [])
    return tables


def _html_tables(
    tokens: Sequence[Token], lines: Sequence[str]
) -> dict[int, tuple[int, Sequence[Block]]]:
    """Return the same of tables in HTML, which end at the tag that closes them."""
    tables: dict[int, tuple[int, Sequence[Block]]] = {}
    end = 0
    for token in tokens:
        if token.type != "html_block" or not token.map or token.map[0] < end or token.level:
            continue
        first, opened = token.map[0], 0
        if not _TABLE_TAG.match(lines[first].lstrip()):
            continue
        for number in range(first, len(lines)):
            tags = _TABLE_TAG.findall(lines[number])
            opened += sum(-1 if closes else 1 for closes in tags)
            if opened <= 0:
                break
        end = number + 1
        markup = "\n".join(lines[first:end])
        # What is written in Markdown between the tags is not for a parser of HTML.
        if opened <= 0 and not re.search(r"^\s*(?:#|```|~~~|[-*] )", markup, re.MULTILINE):
            from uec_rag.documents.html import html_blocks

            tables[first] = (end, html_blocks(markup))
    return tables


def _shown_line(line: str) -> str:
    """Return what of a line of Markdown is shown: code as it is, the rest without markup."""
    if alone := _TEMPLATE_TAG.fullmatch(line.strip()):
        return _show(alone).strip()
    first, *rest = _CODE_SPAN.split(line)
    texts = [_AFTER_CODE.sub("", text, count=1) for text in rest[1::2]]
    codes = [*rest[::2], ""]
    return "".join(map("".join, zip(map(_without_markup, [first, *texts]), codes, strict=True)))


def _without_markup(text: str) -> str:
    """Remove tags and targets from a part of a line that has no code."""
    text = _LAYOUT_TAG.sub(" ", _ANCHOR.sub("", _INLINE_ATTRIBUTES.sub("", text)))
    text = _TARGET.sub("", _IMAGE.sub(r"\1", text))
    return _ENTITY.sub(lambda entity: unescape(entity[0]), text)


def _without_block_markers(lines: Sequence[str]) -> Iterator[str]:
    """Yield the titles and the texts of admonitions and tabs, without markers and indentation."""
    blank = True  # the line before
    indents, fence = list[int](), ""  # of the texts of the blocks that a line is in
    below = [""] * (len(lines) + 1)  # the next line that is not blank
    for position in reversed(range(len(lines))):
        below[position] = lines[position] if lines[position].strip() else below[position + 1]
    for position, line in enumerate(lines):
        indent = len(line) - len(line.lstrip(" "))
        while indents and line.strip() and indent < indents[-1]:
            indents.pop()
            fence = ""
        shown = line[4 * len(indents) :]
        if mark := _FENCE.match(shown):
            closes = mark[1].startswith(fence) and shown.strip() == mark[1]
            fence = mark[1] if not fence else "" if closes else fence
        block = None if fence else _BLOCK.match(shown)
        after = below[position + 1]
        has_text = len(after) - len(after.lstrip(" ")) >= indent + 4
        if block is None or not (has_text or block[3]) or not (block[2] or block[3]):
            yield shown
            blank = not shown.strip()
            continue
        title = block[2].capitalize() if block[3] is None else block[3]
        if title:
            yield from [""] * (not blank) + [f"{block[1]}{title}"]
        blank = not title
        if has_text and after == lines[position + 1]:  # directly below
            yield ""
            blank = True
        indents.append(indent + 4)


def _with_fences_apart(text: str) -> str:
    """Insert a blank line before indented fences right behind text, which would be part of it."""
    lines, fence = list[str](), ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and fence:
            closes = mark[1].startswith(fence) and line.strip() == mark[1]
            fence = "" if closes else fence
        elif mark:
            fence = mark[1]
            lines += [""] if lines and lines[-1].strip() and line[:4].isspace() else []
        lines.append(line)
    return "\n".join(lines)


def _split_front_matter(text: str) -> tuple[dict[str, object], str]:
    """Return what the front matter of a page says, and the text below it."""
    front = _FRONT_MATTER.match(text[:_LONGEST_FRONT])  # of site generators
    values = None if front is None else _front_matter(*front.groups())
    if front is None or values is None:
        return {}, text
    kept = {str(key): _value(value) for key, value in values.items()}
    return {key: value for key, value in kept.items() if value is not None}, text[front.end() :]


def _front_matter(fence: str, matter: str) -> Mapping[Any, object] | None:
    """Return the values of YAML or, between "+++", TOML; None if it is neither, but text."""
    try:
        values = tomllib.loads(matter) if fence == "+++" else _load_yaml(dedent(matter))
    except (ImportError, RecursionError, ValueError):  # such as "title: Rye: a bread"
        values = dict(_PAIR.findall(matter)) if re.match(r"[\w-]+:\s", matter) else None
    return values if isinstance(values, dict) else None if matter.strip() else {}


def _load_yaml(text: str) -> object:
    """Parse YAML; ValueError if it is none, or has aliases, a few of which stand for millions."""
    import yaml

    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise ValueError("aliases")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _value(value: object) -> object:
    """Return a scalar, or a flat list of scalars, as JSON has it; None for anything else."""
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, list):
        values = [None if isinstance(one, list) else _value(one) for one in value]
        return [one for one in values if one is not None]
    return None


def _show(match: re.Match[str]) -> str:
    """Return what of a tag of MDX or of a template is shown, on as many lines; code as it is."""
    tag = match[0]
    if tag.startswith("`"):
        return tag
    if tag.startswith(("{/*", "import")):
        return "\n" * tag.count("\n")
    rest = _ARGUMENT.sub("", tag)
    if any(rest.count(mark) % 2 for mark in "\"'`"):
        return tag  # it ends elsewhere, behind a text
    said = [
        " ".join(value.split())
        for name, _, value in _ARGUMENT.findall(tag)
        if name in _SHOWN
        or (" " in value.strip() and not (_NOT_SHOWN.fullmatch(name) if name else tag[1] == "%"))
    ]
    return "".join(f"{value} " for value in said) + "\n" * tag.count("\n")


def _without_comments(block: str) -> str:
    """Remove comments of HTML, but keep the lines; what is never closed is no comment."""
    *parts, last = block.split("-->")
    kept = []
    for part in parts:
        before, begins, comment = part.partition("<!--")
        kept.append(before + "\n" * comment.count("\n") if begins else f"{part}-->")
    return "".join([*kept, last])


def _plain_heading(inline: Token) -> str:
    """Return the text of a heading, without markup and attributes such as "{#id .class}"."""
    parts = [
        " "
        if part.type in ("softbreak", "hardbreak")
        else _TEMPLATE_TAG.sub(_show, part.content)
        if part.type == "text"
        else part.content
        for part in inline.children or ()
        if part.type != "html_inline" or _is_text(part.content)
    ]
    return ATTRIBUTES.sub("", "".join(parts)).strip()


def _is_text(tag: str) -> bool:
    """Return whether what looks like a tag of HTML has words that are no attributes."""
    return bool(re.match(r"</?[a-z]\w*\s", tag)) and not _TAG.fullmatch(tag)
