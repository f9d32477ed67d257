"""Additions to Markdown by MDX, MyST, Docusaurus and Quarto, and footnotes, written plainly."""

from __future__ import annotations

import re
from typing import NamedTuple

from uec_rag.documents.plain_text import shown_of_role, tidy_lines

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
_NOTE = re.compile(
    rf"(?P<code>{_BLOCK_OF_CODE})"
    r"|^\[\^(?P<name>[^\[\]\s]++)\]:.*(?:\n++[ \t]++\S.*|\n(?!\[\^|\s|```|~~~|#).+)*+",
    re.MULTILINE,
)
_PARAGRAPH = re.compile(rf"{_BLOCK_OF_CODE}|(?:^(?![ \t>]*+(?:```|~~~)).*\S.*\n?)+", re.MULTILINE)
_REFERENCE = re.compile(r"\[\^([^\[\]\s]++)\]")
_TITLE = re.compile(
    r"(?<![\w-])(?:title|label|caption|summary|heading|header)="
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

    def shown(found: re.Match[str]) -> str:
        titles = _TITLE.finditer(found[0]) if found[0].startswith("<") else ()
        texts = (re.sub(r"\\(.)|\$\{[^{}]*\}", r"\1", title["text"]) for title in titles)
        return found["code"] or "".join(f"{text} " for text in texts)

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

    def below(found: re.Match[str]) -> str:
        own = [notes.pop(name) for name in _REFERENCE.findall(found[0]) if name in notes]
        return "\n".join([found[0], *(f"{note}\n" for note in own)])

    text = _PARAGRAPH.sub(below, _NOTE.sub(lambda note: note["code"] or "", text))
    return "\n\n".join([text, *notes.values()])


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
    kept, opened, is_head = list[str](), [_Directive("\n")], False
    has_containers = re.search(r"(?m)^[ \t]*:{3,}[ \t]*$", text) is not None
    for line in text.split("\n"):
        last, was_head, is_head = opened[-1], is_head, False
        mark = line.strip(" \t>")
        if mark.startswith(last.fence) and not mark.strip(mark[0]):
            kept.append(line if last.is_code else "")
            opened.pop()
        elif was_head and _OPTION.fullmatch(line):
            is_head = True
        elif last.is_code or last.is_left_out:
            kept += [line] * last.is_code
        elif (found := _OPENING.fullmatch(line)) and (mark[0] != ":" or has_containers):
            directive, shown = _opened(line, *found.groups())
            opened.append(directive)
            kept += shown
            is_head = found[2] is not None
        elif not _LABEL.fullmatch(line):
            kept.append(
                _CODE_OR_ROLE.sub(lambda found: found[1] or shown_of_role(found[3].strip()), line)
            )
    return tidy_lines("\n".join(kept))


def _opened(
    line: str, fence: str, name: str | None, word: str | None, rest: str
) -> tuple[_Directive, list[str]]:
    """Return a directive that a line opens, and what is shown of the line."""
    kind, rest = (name or word or "").lower(), rest.strip().strip("[]")
    if fence[0] != ":" and name is None:
        return _Directive(fence, is_code=True), [line]
    if kind in _CODE.split() and fence[0] != ":":
        return _Directive(fence, is_code=True), [fence + rest * (kind != "math")]
    if kind in _NOTHING.split():
        return _Directive(fence, is_left_out=True), []
    name = "" if kind in _CAPTIONED.split() else kind.capitalize()
    title = "" if kind in _UNTITLED.split() else rest or name
    return _Directive(fence), ["", title, ""]
