"""What MDX and MyST add to Markdown, written as plain Markdown."""

from __future__ import annotations

import re
from itertools import groupby
from typing import NamedTuple

_FENCE = re.compile(r"[ \t>]*+(`{3,}|~{3,})")
_MODULE = re.compile(
    r"import\s*(?:['\"{*]|[\w$][^'\"\n]*\bfrom\s+['\"])"
    r"|export\s+(?:default|const|let|var|function|class|async|type|interface|[{*])"
)
_LONGEST_MODULE = 200  # lines
_COMMENT = re.compile(r"\{/\*(?:[^*]++|\*(?!/))*+\*/\}|\{\s*['\"]\s*['\"]\s*\}")
_CODE_OR_TAG = re.compile(
    r"((?<!`)`++[^`\n]++`++)"
    r"|</?(?:[A-Z][\w.]*+(?:[^<>\"'{}]++|\"[^\"<]*+\"|'[^'<]*+'|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)?>"
)
_SHOWN = re.compile(r"(?<![\w-])(?:title|label|caption|summary)=(?:\"([^\"]*+)\"|'([^']*+)')")
_MYST = re.compile(
    r"^(?:\([\w:.-]+\)=[ \t]*$|[ \t]*(?:`{3,}|~{3,}|:{3,})\{[A-Za-z][\w:+-]*\}|[ \t]*:{3,}[ \t]*$)"
    r"|\{[a-z:]+\}`",
    re.MULTILINE,
)
_LABEL = re.compile(r"(?:\([\w:.-]+\)=|%(?: .*)?)[ \t]*")
_CODE_OR_ROLE = re.compile(r"((?<![`}])`++[^`\n]++`++)|\{[A-Za-z][\w:+.-]*\}(`++)([^`]++)\2(?!`)")
_OPENING = re.compile(
    r"[ \t>]*(?:(`{3,}|~{3,}|:{3,})\{([A-Za-z][\w:+-]*)\}(.*)"
    r"|(:{3,})[ \t]*(?:\{[^{}]*\}|([A-Za-z][\w-]*(?![\w.-])))(.*)"
    r"|(`{3,})[^`]*|(~{3,}).*)"
)
_OPTION = re.compile(r"[ \t]*:[\w-]+:(?:[ \t].*)?")
_CODE = "code code-block code-cell sourcecode doctest testcode prompt math mermaid graphviz"
_NOTHING = "toctree include literalinclude image raw index highlight bibliography"
_UNTITLED = "figure grid grid-item tab-set table csv-table list-table div container"


def without_mdx(text: str) -> str:
    r"""Return MDX without modules, comments and the tags of components, but with their titles.

    Examples
    --------
    >>> without_mdx('import X from "x"\n\n<X title="Fees">Five {/* six */}euros.</X>').strip()
    'Fees Five euros.'
    """
    numbered = _with_code(text)
    parts = [(is_code, [line for _, line in lines]) for is_code, lines in numbered]
    return "\n".join("\n".join(lines) if is_code else _plain(lines) for is_code, lines in parts)


def _with_code(text: str) -> list[tuple[bool, list[tuple[bool, str]]]]:
    """Return the lines of a text in groups: whether they are code, and the lines themselves."""
    fence, marked = "", list[tuple[bool, str]]()
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        is_code = bool(fence or mark)
        if mark and (not fence or (mark[1].startswith(fence) and line.strip(" \t>") == mark[1])):
            fence = "" if fence else mark[1]
        marked.append((is_code, line))
    return [(is_code, [*lines]) for is_code, lines in groupby(marked, lambda one: one[0])]


def _plain(lines: list[str]) -> str:
    kept, position = list[str](), 0
    while position < len(lines):
        if _MODULE.match(lines[position]):
            position = _end_of_module(lines, position)
        else:
            kept.append(lines[position])
            position += 1
    return _tidied(_CODE_OR_TAG.sub(_shown, _COMMENT.sub("", "\n".join(kept))))


def _tidied(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"(?m)[ \t]++$", "", text))


def _end_of_module(lines: list[str], start: int) -> int:
    """Return where a statement ends: at a blank line that is in no braces."""
    depth, first = 0, start + 1
    for position in range(start, min(start + _LONGEST_MODULE, len(lines))):
        line = lines[position]
        depth += sum(map(line.count, "{[(")) - sum(map(line.count, ")]}"))
        following = lines[position + 1] if position + 1 < len(lines) else ""
        if depth <= 0 and (not following.strip() or _MODULE.match(following)):
            return position + 1
    return first


def _shown(found: re.Match[str]) -> str:
    titles = (" ".join(filter(None, pair)) for pair in _SHOWN.findall(found[0]))
    return found[1] or "".join(f"{title} " for title in titles)


class _Directive(NamedTuple):
    """A directive that is open: its fence, the line that ends it if it is code, else None.

    An empty line stands for the line that is there.
    """

    fence: str
    end: str | None = None
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
    kept, opened, is_head = list[str](), list[_Directive](), False
    has_containers = re.search(r"(?m)^[ \t]*:{3,}[ \t]*$", text) is not None
    for line in text.split("\n"):
        last, was_head, is_head = (opened[-1] if opened else None), is_head, False
        mark = line.strip(" \t>")
        if last and mark.startswith(last.fence) and not mark.strip(mark[0]):
            _add(kept, "" if last.end is None else last.end or line)
            opened.pop()
        elif was_head and _OPTION.fullmatch(line):
            is_head = True
        elif last and last.is_left_out:
            continue
        elif last and last.end is not None:
            kept.append(line)
        elif (opening := _OPENING.fullmatch(line)) and (has_containers or mark[0] != ":"):
            directive, shown = _opened(line, *opening.groups())
            opened.append(directive)
            _add(kept, *shown)
            is_head = opening[2] is not None
        elif not _LABEL.fullmatch(line):
            _add(kept, _CODE_OR_ROLE.sub(_role, line))
    return "\n".join(kept)


def _add(kept: list[str], *lines: str) -> None:
    """Add lines, but no second blank one."""
    for line in lines:
        if line.strip() or kept[-1:] != [""]:
            kept.append(line)


def _opened(line: str, *found: str | None) -> tuple[_Directive, list[str]]:
    """Return a directive that a line opens, and what is shown of the line."""
    fence, name, rest, colons, word, more, *code = found
    if alone := code[0] or code[1]:
        return _Directive(alone, end=""), [line]
    kind, rest = (name or word or "").lower(), (rest or more or "").strip().strip("[]")
    opening = fence or colons or ""
    if kind in _CODE.split():
        return _Directive(opening, end="```"), [f"```{rest if kind != 'math' else ''}"]
    if kind in _NOTHING.split():
        return _Directive(opening, is_left_out=True), []
    title = "" if kind in _UNTITLED.split() else rest or kind.capitalize()
    return _Directive(opening), ["", title, ""] if title else [""]


def _role(found: re.Match[str]) -> str:
    """Return what is shown of a role: "run" of "~Task.run", "here" of "here <target>"."""
    if found[1]:
        return found[1]
    text = found[3].strip()
    text = (text.rpartition(" <")[0] if text.endswith(">") else "") or text
    return text.rpartition(".")[2] if text.startswith("~") else text.lstrip("!")
