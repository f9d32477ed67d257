"""Formulas of Word, PowerPoint and MathML as a line of text: "a/b", "x^2", "√(a+b)"."""

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
}
_FORMS = {
    "mfrac": "{0}/{1}",
    "func": "{0} {1}",
    **dict.fromkeys(("msup", "mover"), "{0}^{1}"),
    **dict.fromkeys(("msub", "munder"), "{0}_{1}"),
    **dict.fromkeys(("msubsup", "munderover"), "{0}_{1}^{2}"),
}
_EMPTY = re.compile(r"[_^](?=[_^ ]|\Z)")  # a script that is not there
_BETWEEN = {"mtable": "; ", "m": "; ", "eqArr": "; ", "mtr": ", ", "mr": ", "}
_SILENT = re.compile(r"(?:annotation(?:-xml)?|.*Pr)$")
_ATOM = re.compile(r"[\w.,\u2032%]*+|\([^()]*+\)|\[[^\[\]]*+\]")
_STYLED = re.compile("[\U0001d400-\U0001d7ff]")  # letters in italics and the like
_APPLIED = re.compile("[\u2061-\u2064\\s]+")  # signs without width


def linear(element: Element) -> str:
    """Write a formula, an element of lxml, as a line of text; as TeX if it says how."""
    for note in element.iter("{*}annotation", "annotation"):
        if "tex" in note.get("encoding", "").lower():
            return " ".join("".join(note.itertext()).split())
    text = _STYLED.sub(lambda letter: unicodedata.normalize("NFKC", letter[0]), _written(element))
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
    elements = [element.find(f"{{*}}{role}") for role in roles.split()] if roles else [*element]
    parts = ["" if part is None else _written(part) for part in elements]
    base, script = (*parts, "", "")[:2]
    has_sign = not any(map(str.isalnum, script if kind == "mover" else base))
    if kind in _BETWEEN:
        return _BETWEEN[kind].join(filter(None, parts))
    if kind == "mfenced":
        return f"{element.get('open', '(')}{', '.join(parts)}{element.get('close', ')')}"
    if kind == "d":
        inner = _said(element, "sepChr", "|").join(parts)
        return f"{_said(element, 'begChr', '(')}{inner}{_said(element, 'endChr', ')')}"
    if kind == "msqrt":
        return f"√({''.join(parts)})"
    if kind == "mroot":
        return f"√{f'[{script}]' * bool(script)}({base})"
    if kind == "nary":
        form, parts = "{0}_{1}^{2}", [_said(element, "chr", "∫"), *parts[1:]]
        return f"{_EMPTY.sub('', form.format(*map(_grouped, parts)))} {base}"
    if kind not in _FORMS or (kind == "mover" and has_sign):  # an accent
        return base if kind == "mover" else "".join(parts)
    text_line = _EMPTY.sub("", _FORMS[kind].format(*map(_grouped, parts), "", "", ""))
    return text_line + " " * (has_sign and "_" in _FORMS[kind])


def _said(element: Element, name: str, usual: str) -> str:
    """Return a sign that the properties of an element of Word name."""
    sign = element.find(f"{{*}}{element.tag.rpartition('}')[2]}Pr/{{*}}{name}")
    return usual if sign is None else str(next(iter(sign.attrib.values()), ""))


def _grouped(text: str) -> str:
    text = text.strip()
    return text if _ATOM.fullmatch(text) or len(text) == 1 else f"({text})"
