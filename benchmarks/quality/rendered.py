"""What a site shows of its sources: a plain reading of each generator's rules, apart from ours.

What comes from other files (includes, data, titles of pages linked to) or from a component's own
code is left out, and so is what is no text: addresses, identifiers, classes.
"""

from __future__ import annotations

import re
from html import escape

import markdown
import yaml
from bs4 import BeautifulSoup
from markdown_it import MarkdownIt

_DIRECTIVE = re.compile(r"\.\. +(?:\|[^|]+\| +)?([\w:.+-]+):: *(.*)$")
_CODE = ("code", "code-block", "sourcecode", "prompt", "graphviz", "mermaid", "parsed-literal")
_NO_ARGUMENT = ("only", "ifconfig", "figure", "rst-class", "cssclass", "role", "glossary")
# Directives of which nothing is shown there, or something that is in other files.
_ASIDE = (
    *("default-domain", "highlight", "image", "include", "index", "literalinclude", "meta", "raw"),
    *("tabularcolumns", "testsetup", "testcleanup", "toctree", "program", "currentmodule"),
    *("module", "py:module", "py:currentmodule", "automodule", "plot", "highlightlang"),
    *("control", "event", "setting", "sig", "signal", "state", "reqmeta", "contents"),
)


def rst_page(source: str) -> str:
    """Read reStructuredText line by line, without comments, targets, options and names."""
    shown: list[str] = []
    skipped = verbatim = -1  # indentation of what begins such a block
    options = False
    for line in source.expandtabs().splitlines():
        text = line.strip()
        if not text:
            options = False
            continue
        indent = len(line) - len(line.lstrip())
        skipped = -1 if indent <= skipped else skipped
        verbatim = -1 if indent <= verbatim else verbatim
        if skipped >= 0:
            continue
        option = re.match(r":([\w-]+):(?: +(.*))?$", text)
        if options and option:
            shown += [option[2] or ""] if option[1] in ("caption", "title") else []
        elif verbatim >= 0:
            shown.append(text)
        elif directive := _DIRECTIVE.match(text):
            name, argument = directive.groups()
            options = True
            if name in _ASIDE:
                skipped = indent
            elif name in _CODE:
                verbatim = indent
            else:
                shown += [] if name in _NO_ARGUMENT else [argument]
        elif text.startswith(".. ["):
            shown.append(text[3:])
        elif text.startswith((".. ", "__ ")) or text == "..":
            skipped = indent
        else:
            verbatim = indent if text.endswith("::") else verbatim
            shown.append(text)
    page = re.sub(r"(?<![\w:+.-]):[a-zA-Z][\w:+.-]*:(?=`)", "", "\n".join(shown))
    page = re.sub(r"\[#[\w-]*\]_?", "", page)
    page = re.sub(r"(?<!`)`([^`<]+\s)<[^<>`]*>`", r"\1", page)  # a text with a target
    page = re.sub(r"(?<!`)`~[^`]*?([^`.]+)`", r"\1", page)
    return re.sub(r"(?<![|\w])\|[\w .-]+\|", " ", page)


def markdown_page(kind: str, source: str) -> str:
    """Render Markdown after what a kind of generator does before it."""
    source = source.replace("\r\n", "\n").lstrip("\ufeff")
    title = ""
    if front := re.match(r"---[ \t]*\n(.*?\n|)---[ \t]*(?:\n|\Z)", source, re.DOTALL):
        try:
            matter = yaml.safe_load(front[1]) or {}
        except yaml.YAMLError:
            matter = dict[str, object]()
        if isinstance(matter, dict):
            title, source = str(matter.get("title") or ""), source[front.end() :]
    source = re.sub(r"(?m)^(#+ .*?)\{ ?#[^{}\n]*\}[ \t]*$", r"\1", source)
    soup = BeautifulSoup(f"<p>{escape(title)}</p>{_RENDERED[kind](source)}", "html.parser")
    for tag in soup.select("script, style, svg, template, noscript, iframe, video, object"):
        tag.decompose()
    return soup.get_text(" ")


def _arguments(tag: str, names: str) -> str:
    values = re.findall(rf"\b(?:{names})\s*=\s*\{{?\s*([\"'`])(.*?)\1", tag, re.DOTALL)
    return " ".join(value for _, value in values)


def _commonmark(source: str) -> str:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(source)


def _jekyll(source: str) -> str:
    names = "caption|content|text|title"
    parts = re.split(r"(\{% *raw *%\}.*?\{% *endraw *%\})", source, flags=re.DOTALL)
    for place in range(0, len(parts), 2):
        text = re.sub(r"(?s)\{%-? *comment *-?%\}.*?\{%-? *endcomment *-?%\}", "", parts[place])
        text = re.sub(
            r"(?m)^[ \t]*\{%-? *(?:end)?(?:for|if|unless|assign|capture|raw)\b.*?%\}[ \t]*\n",
            "",
            text,
        )
        text = re.sub(r"(?s)\{%.*?%\}", lambda tag: _arguments(tag[0], names), text)
        text = re.sub(r"(?s)\{\{.*?\}\}", "", text)
        parts[place] = re.sub(r"\{:[^{}\n]*\}", "", text)
    for place in range(1, len(parts), 2):
        parts[place] = re.sub(r"\{% *(?:end)?raw *%\}", "", parts[place])
    return _commonmark("".join(parts))


def _hugo(source: str) -> str:
    names = "caption|content|description|header|heading|name|summary|text|title"

    def shown(tag: re.Match[str]) -> str:
        return "" if tag[0].startswith(("{{</*", "{{%/*")) else _arguments(tag[0], names)

    text = re.sub(r"(?s)\{\{([<%])/\*(.*?)\*/([%>])\}\}", r"{{​\1\2\3}}", source)
    return _commonmark(re.sub(r"(?s)\{\{[<%](?!\u200b).*?[%>]\}\}", shown, text))


def _material(source: str) -> str:
    extensions = (
        *("abbr", "admonition", "attr_list", "def_list", "footnotes", "md_in_html", "tables"),
        *("pymdownx.blocks.admonition", "pymdownx.blocks.details", "pymdownx.blocks.tab"),
        *("pymdownx.caret", "pymdownx.critic", "pymdownx.details", "pymdownx.highlight"),
        *("pymdownx.inlinehilite", "pymdownx.keys", "pymdownx.mark", "pymdownx.smartsymbols"),
        *("pymdownx.superfences", "pymdownx.tabbed", "pymdownx.tasklist", "pymdownx.tilde"),
    )
    return markdown.markdown(
        source,
        extensions=extensions,
        extension_configs={"pymdownx.tabbed": {"alternate_style": True}},
    )


_RENDERED = {
    "hugo": _hugo,
    "jekyll": _jekyll,
    "markdown": _commonmark,
    "mkdocs": _material,
    "rst": _commonmark,
}
