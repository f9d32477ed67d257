"""Formulas of Word, PowerPoint and MathML as a line of text: "a/b", "x^2", "√(a+b)"."""

from __future__ import annotations

import re
import unicodedata

from uec_rag.documents.archive import Element

# What Word's elements are called in MathML, and the names of their parts in the order of MathML.
_OFFICE = {
    "f": ("mfrac", "num den"),
    "sSup": ("msup", "e sup"),
    "sSub": ("msub", "e sub"),
    "sSubSup": ("msubsup", "e sub sup"),
    "sPre": ("msubsup", "e sub sup"),
    "limLow": ("munder", "e lim"),
    "limUpp": ("mover", "e lim"),
    "rad": ("mroot", "e deg"),
    "nary": ("nary", "e sub sup"),
    "func": ("func", "fName e"),
    "d": ("d", ""),
    "m": ("mtable", ""),
    "eqArr": ("mtable", ""),
    "mr": ("mtr", ""),
}
_SILENT = re.compile(r"(?:annotation(?:-xml)?|.*Pr)$")
_ATOM = re.compile(r"[\w.,\u2032%]*+|\([^()]*+\)|\[[^\[\]]*+\]")
_STYLED = re.compile("[\U0001d400-\U0001d7ff]")  # letters in italics and the like
_APPLIED = re.compile("[\u2061-\u2064\\s]+")  # signs without width


def linear(element: Element) -> str:
    """Write a formula, an element of lxml, as a line of text; as TeX if it says how."""
    for note in element.iter("{*}annotation", "annotation"):
        if "tex" in note.get("encoding", "").lower():
            return " ".join("".join(note.itertext()).split())
    text = _STYLED.sub(lambda one: unicodedata.normalize("NFKC", one[0]), _written(element))
    return _APPLIED.sub(" ", text).strip()


def _written(element: Element) -> str:
    if not isinstance(element.tag, str):  # an instruction
        return ""
    name = re.split("[}:]", element.tag)[-1]
    if _SILENT.match(name):
        return ""
    if name in ("t", "mi", "mn", "mo", "mtext", "ms"):
        text = element.text or ""
        return f" {text.strip()} " if name == "mtext" else text if name == "t" else text.strip()
    kind, roles = _OFFICE.get(name, (name, ""))
    if roles:
        found = [element.find(f"{{*}}{role}") for role in roles.split()]
        parts = ["" if one is None else _written(one) for one in found]
    else:
        parts = [*map(_written, element)]
    if kind in ("mtable", "mtr", "d", "mfenced"):
        return _joined(kind, element, [*filter(None, parts)])
    if kind == "nary":
        return f"{_said(element, 'chr', '∫')}{_scripts(*parts[1:])} {parts[0]}"
    if kind == "msqrt" or (kind == "mroot" and len(parts) == 2):
        degree, inner = ("", "".join(parts)) if kind == "msqrt" else (parts[1], parts[0])
        return f"√{f'[{degree}]' * bool(degree)}({inner})"
    if len(parts) == 2 and kind in ("mfrac", "func"):
        return ("/" if kind == "mfrac" else " ").join(map(_grouped, parts))
    if kind in ("msup", "mover") and len(parts) == 2:
        is_accent = kind == "mover" and not any(map(str.isalnum, parts[1]))
        return parts[0] if is_accent else _grouped(parts[0]) + _scripts("", parts[1])
    if kind in ("msub", "munder", "msubsup", "munderover") and 1 < len(parts) < 4:
        is_sign = not any(map(str.isalnum, parts[0]))
        return _grouped(parts[0]) + _scripts(*parts[1:]) + " " * is_sign
    return "".join(parts)


def _joined(kind: str, element: Element, parts: list[str]) -> str:
    if kind in ("mtable", "mtr"):
        return ("; " if kind == "mtable" else ", ").join(parts)
    if kind == "mfenced":
        return f"{element.get('open', '(')}{', '.join(parts)}{element.get('close', ')')}"
    inner = _said(element, "sepChr", "|").join(parts)
    return f"{_said(element, 'begChr', '(')}{inner}{_said(element, 'endChr', ')')}"


def _said(element: Element, name: str, usual: str) -> str:
    """Return a sign that the properties of an element of Word name."""
    found = element.find(f"{{*}}{element.tag.rpartition('}')[2]}Pr/{{*}}{name}")
    return usual if found is None else str(next(iter(found.attrib.values()), ""))


def _scripts(below: str, above: str = "") -> str:
    low = f"_{_grouped(below)}" if below.strip() else ""
    return low + (f"^{_grouped(above)}" if above.strip() else "")


def _grouped(text: str) -> str:
    text = text.strip()
    return text if _ATOM.fullmatch(text) or len(text) == 1 else f"({text})"
