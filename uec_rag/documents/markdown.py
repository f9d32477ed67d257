"""Reading of Markdown and Jupyter notebooks, with what site generators add to Markdown.

MDX, MyST, Docusaurus, Quarto and footnotes are written plainly.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, time
from functools import cache
from html import unescape
from importlib.util import find_spec
from itertools import takewhile
from textwrap import dedent
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from uec_rag.base.text import ATTRIBUTES, first_value
from uec_rag.documents.document import Block, Content, Heading, Page, Table, table_of
from uec_rag.documents.plain_text import fenced, raised, shown_of_role, tidy_lines

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
_MARKED = re.compile(r"[<{&:\]`]")  # with one of these, all that is not shown as it is
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
_ARGUMENT = re.compile(
    r"(?<![\w-])(?:caption|content|description|message|summary|text|title)=([\"'`])(.*?)\1",
    re.DOTALL,
)
_COMMENT = re.compile("<!--.*?-->", re.DOTALL)
_HEADING = re.compile(r"<h([1-6])(?:\s[^<>]*)?>(.*?)</h\1\s*>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_RULE = re.compile(r"\+(?::?[-=]{2,}:?\+)+")  # of a table that is drawn
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
    values, text = _split_front_matter(text)
    text = _NOTED.sub(
        lambda part: part["code"] or (_show(part).strip() if part["tag"] else ""), text
    )
    text = with_notes_below(with_definitions(without_myst(text)))
    lines = _without_block_markers(text.split("\n"))
    env: dict[str, Any] = {}  # the links that are defined
    tokens = _parser(is_inline=False).parse("\n".join(lines), env)
    texts = [*lines]
    for token in tokens:
        if token.map is not None and token.type in ("html_block", "inline"):
            block = "\n".join(lines[slice(*token.map)])
            block = _without_comments(block) if token.type == "html_block" else block
            texts[slice(*token.map)] = map(_shown_line, block.split("\n"))
    blocks = [str(values.get("description") or ""), *_blocks(tokens, lines, texts, env)]
    title = " ".join(first_value({"title": values.pop("title", None)}, ["title"]).split())
    return Content([Page(blocks)], title, values)


def read_quarto(text: str) -> Content:
    """Read Markdown of Quarto or R, whose code has options."""
    return read_markdown(_CHUNK.sub(r"\1\2", text))


@cache
def _parser(*, is_inline: bool) -> MarkdownIt:
    """Return a parser of blocks; what is in lines, half of the work, matters in headings alone."""
    parser = MarkdownIt().enable(["strikethrough", "table"])
    return parser if is_inline else parser.disable("inline")


def _blocks(
    tokens: Sequence[Token], lines: Sequence[str], texts: Sequence[str], env: dict[str, Any]
) -> Iterator[Block]:
    """Yield headings, tables and the lines between them."""
    start = 0
    for position, token in enumerate(tokens):
        if token.map is None or token.level or token.map[0] < start:
            continue
        line, end = token.map
        blocks: Sequence[Block]
        if token.type == "heading_open":
            blocks = [
                Heading(_plain_heading(tokens[position + 1].content, env), int(token.tag[1:]))
            ]
        elif token.type == "table_open":
            table = table_of(_grid(tokens[position:]), header=1)
            blocks = [table] if table else []
        elif token.type == "html_block" and (closing := _last_of_table(lines, line)) is not None:
            from uec_rag.documents.html import html_blocks

            end = closing + 1
            blocks = html_blocks("\n".join(lines[line:end]))
        elif token.type == "html_block" and _HEADING.search(block := "\n".join(texts[line:end])):
            blocks = [*_with_headings(block)]
        elif token.type == "paragraph_open" and (grid := _grid_table(lines[line:end])):
            blocks = grid
        else:
            continue
        yield "\n".join(texts[start:line]).strip()
        yield from blocks
        start = end
    yield "\n".join(texts[start:]).strip()


def _with_headings(block: str) -> Iterator[Block]:
    end = 0
    for heading in _HEADING.finditer(block):
        yield block[end : heading.start()].strip()
        if text := " ".join(unescape(_TAG.sub(" ", heading[2])).split()):
            yield Heading(text, int(heading[1]))
        end = heading.end()
    yield block[end:].strip()


def _grid_table(lines: Sequence[str]) -> Sequence[Block]:
    """Return the table that lines draw, as pandoc writes it; none if they draw none."""
    if not _RULE.fullmatch(lines[0].strip()) or find_spec("docutils") is None:
        return []
    from uec_rag.documents.rst import read_rst

    rows = map(str.strip, lines)  # in whose rules colons say how a column is aligned
    drawn = (row.replace(":", row[2]) if _RULE.fullmatch(row) else row for row in rows)
    blocks = read_rst("\n".join(drawn)).pages[0].blocks
    return blocks if any(isinstance(block, Table) for block in blocks) else []


def _grid(tokens: Sequence[Token]) -> list[list[str]]:
    """Return the cells of a table of Markdown, with which the tokens begin."""
    grid = list[list[str]]()
    for token in takewhile(lambda token: token.type != "table_close", tokens):
        if token.type == "tr_open":
            grid.append([])
        elif token.type == "inline":
            grid[-1].append(_shown_line(token.content))
    return grid


def _last_of_table(lines: Sequence[str], start: int) -> int | None:
    """Return the line that closes a table of HTML, None if there is none, or it holds Markdown."""
    if not re.match(r"\s*<table\b", lines[start], re.IGNORECASE):
        return None
    for number in range(start, len(lines)):
        if re.match(r"\s*(?:#|```|~~~|[-*] )", lines[number]):
            return None
        if re.search("</table", lines[number], re.IGNORECASE):
            return number
    return None


def _shown_line(line: str) -> str:
    """Return what of a line of Markdown is shown: code as it is, the rest without markup."""
    if not _MARKED.search(line):
        return line
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
    result = list[str]()
    indents, fence = list[int](), ""  # of the texts of the blocks that a line is in
    for position, line in enumerate(lines):
        indent = len(line) - len(line.lstrip(" "))
        while indents and line.strip() and indent < indents[-1]:
            indents.pop()
            fence = ""
        content = line[4 * len(indents) :]
        if mark := _FENCE.match(content):
            closes = mark[1].startswith(fence) and content.strip() == mark[1]
            fence = mark[1] if not fence else "" if closes else fence
        block = None if fence else _BLOCK.match(content)
        after = next(filter(str.strip, lines[position + 1 : position + 9]), "") if block else ""
        has_text = len(after) - len(after.lstrip(" ")) >= indent + 4
        if block is None or not (block[3] or (has_text and block[2])):
            result.append(content)
            continue
        if title := block[2].capitalize() if block[3] is None else block[3]:
            result += [""] * bool(result and result[-1].strip()) + [f"{block[1]}{title}"]
        indents.append(indent + 4)
    return result


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
    metadata = {str(key): _value(value) for key, value in values.items()}
    return {key: value for key, value in metadata.items() if value is not None}, text[front.end() :]


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
        values = [None if isinstance(element, list) else _value(element) for element in value]
        return [element for element in values if element is not None]
    if isinstance(value, date | time):
        return value.isoformat()
    is_kept = isinstance(value, str) or (isinstance(value, int | float) and abs(value) < _LARGEST)
    return value if is_kept else None


def _show(tag: re.Match[str]) -> str:
    return "".join(f"{' '.join(value.split())} " for _, value in _ARGUMENT.findall(tag[0]))


def _without_comments(block: str) -> str:
    """Remove comments of HTML, but keep the lines; what is never closed is no comment."""
    closed, end, tail = block.rpartition("-->")
    return _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), closed + end) + tail


def _plain_heading(line: str, env: dict[str, Any]) -> str:
    """Return the text of a heading, without markup and attributes such as "{#id .class}"."""
    parts = list[str]()
    [inline] = _parser(is_inline=True).parseInline(line, env)
    for part in inline.children or ():
        if part.type == "text":
            parts.append(_TEMPLATE_TAG.sub(_show, part.content))
        elif part.type != "html_inline":
            parts.append(" " if part.type.endswith("break") else part.content)
    return ATTRIBUTES.sub("", "".join(parts)).strip()


_BLOCK_OF_CODE = r"^[ \t>]*+(?P<fence>`{3,}|~{3,})(?s:.*?)(?:^[ \t>]*+(?P=fence)[`~]*+[ \t]*+$|\Z)"
# Code, which stays, and beside it: statements, to the line that closes their bracket or to a blank
# one; comments; and tags of components, of which the titles stay.
_OF_MDX = re.compile(
    rf"(?P<code>{_BLOCK_OF_CODE}"
    r"""
    | (?<!`)`++[^`\n]++`++)
    | ^(?=import\s*(?:['"{*]|[\w$][^'"\n]*\bfrom\s+['"])
      |export\s+(?:default|const|let|var|function|class|async|type|interface|[{*]))
      (?:.*[{\[(]\n(?:.*\n){0,50}?[}\])].*|.*(?:\n(?!import\b|export\b).+)*+)
    | \{/\*(?:[^*{]++|\*(?!/)|\{(?!/\*))*+\*/\} | \{\s*['"]\s*['"]\s*\}
    | </?(?:[A-Z][\w.]*+(?:[^<>"'{}]++|"[^"<]*+"|'[^'<]*+'|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)?>
    """,
    re.MULTILINE | re.VERBOSE,
)
# Comments of programs for notes, "%%...%%", and those that are links to nowhere.
_NOTED = re.compile(
    rf"(?P<code>{_BLOCK_OF_CODE}|`++[^`\n]++`++)|(?<![\w%])%%(?s:.{{0,5000}}?)%%(?!%)"
    r"|(?P<tag>\{(?:%-? *include\b|\{[<%])(?=[^{}]*\s(?:caption|content|description|message|summary"
    r"|text|title)=[\"'`])[^{}]*[>%]\}{1,2})"
    r"|^ {0,3}\[[^\[\]\n]++\]:[ \t]*+(?:<>|#(?=[ \t]))[ \t]*+(?:\([^()]*+\)[ \t]*$|.*)\n?",
    re.MULTILINE,
)
_NOTE = re.compile(
    rf"(?P<code>{_BLOCK_OF_CODE})"
    r"|^\[\^(?P<name>[^\[\]\s]++)\]:.*(?:\n++[ \t]++\S.*|\n(?!\[\^|\s|```|~~~|#).+)*+",
    re.MULTILINE,
)
_PARAGRAPH = re.compile(rf"{_BLOCK_OF_CODE}|(?:^(?![ \t>]*+(?:```|~~~)).*\S.*\n?)+", re.MULTILINE)
_REFERENCE = re.compile(r"\[\^([^\[\]\s]++)\]")
_TITLE = re.compile(  # and the name of a parameter, as Mintlify writes it
    r"(?:(?<![\w-])(?:title|label|caption|summary|heading|header|description)"
    r"|(?<=<ParamField )\s*(?:path|query|body)|(?<=<ResponseField )\s*name)="
    r"(?:\{\s*+)?(?P<mark>[\"'`])(?P<text>(?:\\.|(?!(?P=mark))[^\\])*+)(?P=mark)"
)
_MYST = re.compile(
    r"^(?:\([\w:.-]+\)=[ \t]*$|[ \t]*(?:`{3,}|~{3,}|:{3,})\{[A-Za-z][\w:+-]*\}|[ \t]*:{3,}[ \t]*$)"
    r"|\{[a-z:]+\}`",
    re.MULTILINE,
)
_LABEL = re.compile(r"(?:\([\w:.-]+\)=|%(?: .*)?|\+\+\+(?: .*)?)[ \t]*")
_CODE_OR_ROLE = re.compile(r"((?<![`}])`++[^`\n]++`++)|\{[A-Za-z][\w:+.-]*\}(`++)([^`]++)\2(?!`)")
# A fence, the name of a directive, in braces or alone behind colons, and its title.
_OPENING = re.compile(
    r"[ \t>]*+(`{3,}|~{3,}|:{3,})[ \t]*"
    r"(?:\{([A-Za-z][\w:+-]*)\}|\{[^{}]*\}|([A-Za-z][\w-]*)(?![\w.]))?(.*)"
)
_OPTION = re.compile(r"[ \t]*:[\w-]+:(?:[ \t].*)?")
_CODE = "code code-block code-cell sourcecode doctest testcode prompt math mermaid graphviz"
_NOTHING = "toctree include literalinclude image raw index highlight bibliography"
_UNTITLED = "figure grid grid-item tab-set div container eval-rst"
_CAPTIONED = "table csv-table list-table"


def without_mdx(text: str) -> str:
    r"""Return MDX without modules, comments and the tags of components, but with their titles.

    Examples
    --------
    >>> without_mdx('import X from "x"\n\n<X title="Fees">Five {/* six */}euros.</X>').strip()
    'Fees Five euros.'
    """

    def shown(match: re.Match[str]) -> str:
        titles = _TITLE.finditer(match[0]) if match[0].startswith("<") else ()
        texts = (re.sub(r"\\(.)|\$\{[^{}]*\}", r"\1", title["text"]) for title in titles)
        return match["code"] or "".join(f"{text} " for text in texts)

    return tidy_lines(_OF_MDX.sub(shown, text))


def with_notes_below(text: str) -> str:
    r"""Return Markdown with each note below the first paragraph that refers to it.

    Examples
    --------
    >>> with_notes_below("Five[^1].\n\n# Hours\n\nNine.\n\n[^1]: Per year.")
    'Five[^1].\n\n[^1]: Per year.\n\n# Hours\n\nNine.\n\n'
    """
    notes = {note["name"]: note[0] for note in _NOTE.finditer(text) if note["name"]}
    if not notes:
        return text

    def below(paragraph: re.Match[str]) -> str:
        notes_here = [notes.pop(name) for name in _REFERENCE.findall(paragraph[0]) if name in notes]
        return "\n".join([paragraph[0], *(f"{note}\n" for note in notes_here)])

    text = _PARAGRAPH.sub(below, _NOTE.sub(lambda note: note["code"] or "", text))
    return "\n\n".join([text, *notes.values()])


_DEFINED = re.compile(
    rf"(?P<code>{_BLOCK_OF_CODE})"
    r"|^ {0,3}(?P<star>\*)?\[(?P<name>(?!\^)[^\[\]\n]++)\]:[ \t]*+(?P<said>\S.*)\n?",
    re.MULTILINE,
)
_ADDRESS = re.compile(r"<?([^\s<>]+)>?(?:\s+(?:\".*\"|'.*'|\(.*\)))?\s*")
_HEAD = r"(?P<head>^#{1,6}[ \t].*)"
_USED = re.compile(
    rf"(?P<code>{_BLOCK_OF_CODE}|`++[^`\n]++`++)|{_HEAD}"
    r"|\[(?P<text>[^\[\]\n]++)\](?:\[(?P<name>[^\[\]\n]*+)\])?(?![\[(:])"
    r"|(?<![\w/.-])(?P<word>\w[\w.&-]*+)(?! \()",
    re.MULTILINE,
)


def with_definitions(text: str) -> str:
    r"""Return Markdown with addresses and abbreviations where they are used, and not defined.

    An abbreviation is explained once below each heading.

    Examples
    --------
    >>> with_definitions("Your PTO: see [form][a].\n\n*[PTO]: paid time off\n[a]: https://x.org\n")
    'Your PTO (paid time off): see [form](https://x.org).\n\n'
    """
    addresses, meanings, explained = dict[str, str](), dict[str, str](), set[str]()

    def define(definition: re.Match[str]) -> str:
        name, meaning = definition["name"], definition["said"]
        if definition["star"]:
            meanings[name] = meaning.strip()
        elif name and (address := _ADDRESS.fullmatch(meaning)):
            addresses.setdefault(name.casefold(), address[1])
        else:
            return definition[0]
        return ""

    def use(match: re.Match[str]) -> str:
        if match["head"]:
            explained.clear()
        word, text = match["word"], match["text"]
        if word in meanings and word not in explained:
            explained.add(word)
            return f"{word} ({meanings[word]})"
        address = addresses.get((match["name"] or text or "").casefold())
        return match[0] if address is None else f"[{text}]({address})"

    body = _DEFINED.sub(define, text)
    return _USED.sub(use, body) if addresses or meanings else text


class _Directive(NamedTuple):
    """A directive or a block of code that is open: its fence, and how its lines are read."""

    fence: str
    is_code: bool = False
    is_left_out: bool = False


def without_myst(text: str) -> str:
    r"""Return Markdown without the labels, roles and directives of MyST, but with what they show.

    Examples
    --------
    >>> without_myst("(fees)=\nSee {ref}`the fees <fees>`.\n:::{note}\nFive.\n:::").strip()
    'See the fees.\n\nNote\n\nFive.'
    """
    if not _MYST.search(text):
        return text
    result, stack, is_head = list[str](), [_Directive("\n")], False
    has_containers = re.search(r"(?m)^[ \t]*:{3,}[ \t]*$", text) is not None
    for line in text.split("\n"):
        directive, was_head, is_head = stack[-1], is_head, False
        mark = line.strip(" \t>")
        if mark.startswith(directive.fence) and not mark.strip(mark[0]):
            result.append(line if directive.is_code else "")
            stack.pop()
        elif was_head and _OPTION.fullmatch(line):
            is_head = True
        elif directive.is_code or directive.is_left_out:
            result += [line] * directive.is_code
        elif (match := _OPENING.fullmatch(line)) and (mark[0] != ":" or has_containers):
            directive, texts = _opened(line, *match.groups())
            stack.append(directive)
            result += texts
            is_head = match[2] is not None
        elif not _LABEL.fullmatch(line):
            result.append(_CODE_OR_ROLE.sub(lambda part: part[1] or shown_of_role(part[3]), line))
    return tidy_lines("\n".join(result))


def _opened(
    line: str, fence: str, name: str | None, word: str | None, argument: str
) -> tuple[_Directive, list[str]]:
    """Return a directive that a line opens, and what is shown of the line."""
    kind, argument = (name or word or "").lower(), argument.strip().strip("[]")
    if fence[0] != ":" and name is None:
        return _Directive(fence, is_code=True), [line]
    if kind in _CODE.split() and fence[0] != ":":
        return _Directive(fence, is_code=True), [fence + argument * (kind != "math")]
    if kind in _NOTHING.split():
        return _Directive(fence, is_left_out=True), []
    name = "" if kind in _CAPTIONED.split() else kind.capitalize()
    title = "" if kind in _UNTITLED.split() else argument or name
    return _Directive(fence), ["", title, ""]


_LONGEST_OUTPUT = 4_000  # characters of an output in plain text
_LARGEST_OUTPUT = 200_000  # characters of one in HTML
_DRAWN = ("application/vnd", "audio/", "image/", "video/")
_COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_OBJECT = re.compile(r"[\[(]*<[^<>]* at 0x[0-9a-f]+>")  # what Python shows of what has no text


def read_notebook(text: str) -> Content:
    """Read the texts, the code and its outputs, without images and errors."""
    head, blocks, left_out = Content([]), list[Block](), Counter[str]()
    for number, cell in enumerate(json.loads(text)["cells"]):
        source = _joined(cell["source"])
        left_out["image"] += len(cell.get("attachments", ()))
        if cell["cell_type"] == "code":
            blocks.append(fenced(source))
        elif number:
            blocks += _markdown(source)
        else:
            head = read_markdown(source)
            blocks += head.pages[0].blocks
        for output in cell.get("outputs", ()):
            blocks += _output(output, left_out)
    return replace(head, pages=[Page(blocks)], left_out=left_out)


def _joined(lines: object) -> str:
    return "".join(lines) if isinstance(lines, list) else str(lines)


def _markdown(text: str) -> Sequence[Block]:
    # Only the first text has a front matter.
    return read_markdown(f"<!-- -->\n\n{text}").pages[0].blocks


def _output(output: Mapping[str, Any], left_out: Counter[str]) -> Sequence[Block]:
    """Return what an output shows, the richest of its forms that is text."""
    if output.get("output_type") == "error" or output.get("name") == "stderr":
        left_out["error output"] += 1
        return []
    forms = {form: _joined(lines) for form, lines in output.get("data", {}).items()}
    html = forms.get("text/html", "")
    if "text/markdown" in forms:
        return _markdown(forms["text/markdown"])
    if "<table" not in html and any(form.startswith(_DRAWN) for form in forms):
        left_out["image or widget"] += 1
        return []
    if html and len(html) <= _LARGEST_OUTPUT and find_spec("bs4"):
        from uec_rag.documents.html import html_blocks

        return html_blocks(html)
    plain = forms.get("text/plain", _joined(output.get("text", "")))
    return [forms.get("text/latex", "") or _plain(plain, left_out)]


def _plain(text: str, left_out: Counter[str]) -> str:
    """Return a text as a terminal leaves it, cut to a limit."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in _COLOUR.sub("", text).split("\n")]
    output = "\n".join(lines).strip("\n")
    if _OBJECT.match(output):
        return ""
    if len(output) > _LONGEST_OUTPUT:
        left_out["part of a long output"] += 1
        output = f"{output[:_LONGEST_OUTPUT].rstrip()} …"
    return fenced(output)
