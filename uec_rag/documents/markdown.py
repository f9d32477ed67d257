"""Reading of Markdown, with what site generators add to it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from datetime import date, time
from html import unescape
from itertools import takewhile
from textwrap import dedent
from typing import TYPE_CHECKING

from uec_rag.base.text import ATTRIBUTES
from uec_rag.documents.dialects import with_notes_below, without_mdx, without_myst
from uec_rag.documents.document import Block, Content, Heading, Page, table_of
from uec_rag.documents.plain_text import raised

if TYPE_CHECKING:
    from markdown_it.token import Token

# Attributes of elements in Python-Markdown, "[Start](a.md){ .md-button }", unlike "x_{i=1}"; and
# icons.
_NAMED = r"""[\w:-]+=(?:"[^"{}]*"|'[^'{}]*'|[^\s{}"']+)"""
_LIST = rf"\{{:?(?: ?[.#][A-Za-z][\w:-]*| {_NAMED})(?: +(?:[.#][\w:-]+|{_NAMED}))* ?\}}"
_INLINE_ATTRIBUTES = re.compile(
    rf"(?<=[)\]*_~^]){_LIST}|(?<===){_LIST}|\A\s*{_LIST}\s*\Z"
    rf"|:(?:fontawesome|material|octicons|simple)-[\w-]+:(?:{_LIST})?"
)
_CODE_SPAN = re.compile(rf"(`[^`]*`)(?:{_LIST})?")
_ENTITY = re.compile(r"&#?\w{1,31};")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
# The first line of an admonition, a collapsible block or a tab of Python-Markdown.
_BLOCK = re.compile(
    r"""( *)(?:(?:!!!|\?\?\?\+?) +([\w-]+)(?: +[\w-]+)*|===[!+]?)(?: +"(.*)")? *\Z"""
)
# Tags of Liquid and Hugo, which a site generator replaces, and targets of links that have them or
# that hold data, and of images.
_TEMPLATE_TAG = re.compile(r"\{%[^{}]*%\}|\{\{[<%][^{}]*[>%]\}\}")
# The first line of code that is run, "```{r, echo=FALSE}".
_CHUNK = re.compile(r"^([ \t]*+(?:`{3,}+|~{3,}+))\{(\w+)[^{}\n]*\}", re.MULTILINE)
_TARGET = re.compile(rf"(?<=\])\((?:(?:{_TEMPLATE_TAG.pattern})[^()\s]*|[^()\s]{{200,}})\)")
_IMAGE = re.compile(r"!\[([^\[\]]*)\]\([^()\s]*(?:[ \t]+\"[^\"]*\")?\)")
_SUPERSCRIPT = re.compile(r"(?<=(.))<sup>([^<>]{1,40})</sup>")
# Attributes as HTML, components and templates have them, unlike "x <li {S}> y".
_OF_TAG = (
    r"""(?:\s+(?:[A-Za-z_:@][\w:.@-]*+(?:\s*=\s*(?:"[^"]*"|'[^']*'|\{[^<>]*\}|[^\s"'<>=`{}]+))?"""
    r"""|\{(?:\.\.\.|[{%])[^<>]*?\}))*+\s*/?>"""
)
_LAYOUT_TAG = re.compile(
    rf"<a{_OF_TAG}</a>|</?(?:center|col|colgroup|details|div|figure|iframe|li|ol|p|section|span"
    rf"|summary|table|tbody|td|th|thead|tr|ul){_OF_TAG}"
)
# Arguments of template tags that are shown.
_ARGUMENT = re.compile(r"(?<![\w-])(?:caption|content|title)=([\"'`])(.*?)\1", re.DOTALL)
_COMMENT = re.compile("<!--.*?-->", re.DOTALL)
_HEADING = re.compile(r"<h([1-6])(?:\s[^<>]*)?>(.*?)</h\1\s*>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_LONGEST_FRONT, _DEEPEST = 20_000, 100  # characters of YAML, and what nests in it
_LARGEST = 2**53  # of an integer that every store can keep
_PAIR = re.compile(r"^([\w-]+):[ \t]+[\"']?(.*?)[\"']?[ \t]*$", re.MULTILINE)
_FRONT_MATTER = re.compile(
    r"\A(?:[\s\ufeff]*\n)?\ufeff*(---|\+\+\+)[ \t]*\n(.*?\n|)\1[ \t]*(?:\n|\Z)", re.DOTALL
)


def read_mdx(text: str) -> Content:
    """Read Markdown with components."""
    front = _FRONT_MATTER.match(text[:_LONGEST_FRONT])
    end = front.end() if front else 0
    return read_markdown(text[:end] + without_mdx(text[end:]))


def read_markdown(text: str) -> Content:
    """Read Markdown."""
    from markdown_it import MarkdownIt

    values, text = _split_front_matter(text)
    lines = _without_block_markers(with_notes_below(without_myst(text)).split("\n"))
    tokens = MarkdownIt().enable(["strikethrough", "table"]).parse("\n".join(lines))
    shown = [*lines]
    for token in tokens:
        if token.map is not None and token.type in ("html_block", "inline"):
            block = "\n".join(lines[slice(*token.map)])
            block = _without_comments(block) if token.type == "html_block" else block
            shown[slice(*token.map)] = map(_shown_line, block.split("\n"))
    blocks = [str(values.get("description") or ""), *_blocks(tokens, lines, shown)]
    title = " ".join(str(values.pop("title", None) or "").split())
    return Content([Page(blocks)], title, values)


def read_quarto(text: str) -> Content:
    """Read Markdown of Quarto or R, whose code has options."""
    return read_markdown(_CHUNK.sub(r"\1\2", text))


def _blocks(tokens: Sequence[Token], lines: Sequence[str], shown: Sequence[str]) -> Iterator[Block]:
    """Yield headings, tables and the lines between them."""
    start = 0
    for position, token in enumerate(tokens):
        if token.map is None or token.level or token.map[0] < start:
            continue
        first, end = token.map
        found: Sequence[Block]
        if token.type == "heading_open":
            found = [Heading(_plain_heading(tokens[position + 1]), int(token.tag[1:]))]
        elif token.type == "table_open":
            table = table_of(_grid(tokens[position:]), header=1)
            found = [table] if table else []
        elif token.type == "html_block" and (last := _last_of_table(lines, first)) is not None:
            from uec_rag.documents.html import html_blocks

            end = last + 1
            found = html_blocks("\n".join(lines[first:end]))
        elif token.type == "html_block" and _HEADING.search(block := "\n".join(shown[first:end])):
            found = [*_with_headings(block)]
        else:
            continue
        yield "\n".join(shown[start:first]).strip()
        yield from found
        start = end
    yield "\n".join(shown[start:]).strip()


def _with_headings(block: str) -> Iterator[Block]:
    """Yield what a block of HTML shows, with its headings."""
    last = 0
    for heading in _HEADING.finditer(block):
        yield block[last : heading.start()].strip()
        if text := " ".join(unescape(_TAG.sub(" ", heading[2])).split()):
            yield Heading(text, int(heading[1]))
        last = heading.end()
    yield block[last:].strip()


def _grid(tokens: Sequence[Token]) -> list[list[str]]:
    """Return the cells of a table of Markdown, with which the tokens begin."""
    grid = list[list[str]]()
    for token in takewhile(lambda token: token.type != "table_close", tokens):
        if token.type == "tr_open":
            grid.append([])
        elif token.type == "inline":
            grid[-1].append(_shown_line(token.content))
    return grid


def _last_of_table(lines: Sequence[str], first: int) -> int | None:
    """Return the line that closes a table of HTML, None if there is none, or it holds Markdown."""
    if not re.match(r"\s*<table\b", lines[first], re.IGNORECASE):
        return None
    for number in range(first, len(lines)):
        if re.match(r"\s*(?:#|```|~~~|[-*] )", lines[number]):
            return None
        if re.search("</table", lines[number], re.IGNORECASE):
            return number
    return None


def _shown_line(line: str) -> str:
    """Return what of a line of Markdown is shown: code as it is, the rest without markup."""
    if alone := _TEMPLATE_TAG.fullmatch(line.strip()):
        return _show(alone).strip()
    parts = _CODE_SPAN.split(line)
    parts[::2] = map(_without_markup, parts[::2])
    return "".join(parts)


def _without_markup(text: str) -> str:
    """Remove tags and targets from a part of a line that has no code."""
    text = _LAYOUT_TAG.sub(" ", _INLINE_ATTRIBUTES.sub("", text))
    text = _TARGET.sub("", _IMAGE.sub(r"\1", text))
    text = _SUPERSCRIPT.sub(lambda sup: raised(sup[1], sup[2]), text)
    return _ENTITY.sub(lambda entity: unescape(entity[0]), text)


def _without_block_markers(lines: Sequence[str]) -> list[str]:
    """Return the titles and the texts of admonitions and tabs, without markers and indentation."""
    kept = list[str]()
    indents, fence = list[int](), ""  # of the texts of the blocks that a line is in
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
        after = next(filter(str.strip, lines[position + 1 : position + 9]), "") if block else ""
        has_text = len(after) - len(after.lstrip(" ")) >= indent + 4
        if block is None or not (block[3] or (has_text and block[2])):
            kept.append(shown)
            continue
        if title := block[2].capitalize() if block[3] is None else block[3]:
            kept += [""] * bool(kept and kept[-1].strip()) + [f"{block[1]}{title}"]
        indents.append(indent + 4)
    return kept


def _split_front_matter(text: str) -> tuple[dict[str, object], str]:
    """Return what the front matter of a page says, in YAML or TOML, and the text below it."""
    front = _FRONT_MATTER.match(text[:_LONGEST_FRONT])
    if front is None:
        return {}, text
    fence, matter = front.groups()
    try:
        values = tomllib.loads(matter) if fence == "+++" else load_yaml(dedent(matter))
    except (ImportError, RecursionError, ValueError):  # such as "title: Rye: a bread"
        values = dict(_PAIR.findall(matter))
    if not isinstance(values, dict) or (matter.strip() and not values):  # a text between rules
        return {}, text
    kept = {str(key): _value(value) for key, value in values.items()}
    return {key: value for key, value in kept.items() if value is not None}, text[front.end() :]


def load_yaml(text: str) -> object:
    """Parse YAML; ValueError if it is none, or has aliases, a few of which stand for millions."""
    import yaml

    loader, depth = getattr(yaml, "CSafeLoader", yaml.SafeLoader), 0
    try:
        for event in yaml.parse(text, loader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise ValueError("it nests too deep")
            if isinstance(event, yaml.AliasEvent):
                raise ValueError("it has aliases, a few of which may stand for millions")
        return yaml.load(text, loader) or {}
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _value(value: object) -> object:
    """Return a scalar, or a flat list of scalars, as JSON has it; None for anything else."""
    if isinstance(value, list):
        values = [None if isinstance(one, list) else _value(one) for one in value]
        return [one for one in values if one is not None]
    if isinstance(value, date | time):
        return value.isoformat()
    is_kept = isinstance(value, str) or (isinstance(value, int | float) and abs(value) < _LARGEST)
    return value if is_kept else None


def _show(tag: re.Match[str]) -> str:
    """Return what of a template's tag is shown."""
    return "".join(f"{' '.join(value.split())} " for _, value in _ARGUMENT.findall(tag[0]))


def _without_comments(block: str) -> str:
    """Remove comments of HTML, but keep the lines; what is never closed is no comment."""
    closed, end, last = block.rpartition("-->")
    return _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), closed + end) + last


def _plain_heading(inline: Token) -> str:
    """Return the text of a heading, without markup and attributes such as "{#id .class}"."""
    parts = list[str]()
    for part in inline.children or ():
        if part.type == "text":
            parts.append(_TEMPLATE_TAG.sub(_show, part.content))
        elif part.type != "html_inline":
            parts.append(" " if part.type.endswith("break") else part.content)
    return ATTRIBUTES.sub("", "".join(parts)).strip()
