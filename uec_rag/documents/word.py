"""Reading of Word documents: what mammoth would drop is written as plain text before it reads."""

import io
import posixpath
import re
import zipfile
from collections import Counter
from contextlib import suppress

import mammoth
from lxml import etree

from uec_rag.documents.archive import (
    Element,
    W,
    choose_alternatives,
    parse_xml,
    replaced,
    unwrap,
    unzip,
)
from uec_rag.documents.document import Content, Page
from uec_rag.documents.drawings import drawn_text
from uec_rag.documents.formulas import linear
from uec_rag.documents.html import html_blocks
from uec_rag.documents.numbering import Numbering, value_of
from uec_rag.documents.plain_text import has_text
from uec_rag.documents.shown import OWN_NUMBER

_BODIES = {f"{W}{name}" for name in ("document", "footnotes", "endnotes", "hdr", "ftr")}
_AROUND = (f"{W}hdr", f"{W}ftr")
_DROPPED = [f"{W}{name}" for name in ("del", "moveFrom", "rt", "rubyPr")]
# Elements whose children mammoth reads, or that hold text itself; the rest is taken off its text.
_READ = re.compile(
    r"(?:document|body|p|r|t|tbl|tr|tc|sdt|sdtContent|hyperlink|ins|moveTo|smartTag|customXml|hdr"
    r"|ftr|footnotes?|endnotes?)"
)
_ALIKE = {f"{W}cr": f"{W}br", f"{W}ptab": f"{W}tab", f"{W}dstrike": f"{W}strike"}
# What stands between runs, and which of their properties show.
_MARKS = [f"{W}{name}" for name in ("proofErr", "bookmarkEnd", "lastRenderedPageBreak")]
_LOOKS = {f"{W}{name}" for name in ("b", "i", "strike", "vertAlign", "rStyle", "caps", "smallCaps")}
# What mammoth says of elements that hold nothing to read.
_NOTHING = re.compile(
    r"w:(?:perm(?:Start|End)|(?:continuationS|s)eparator|tblPrEx|ffData|pgNum|sdtPr|sdtEndPr"
    r"|customXml\w+|moveFrom\w*|fldData|annotationRef|cellIns|cellDel|cellMerge|divId)"
)
_DEEPEST = 10  # styles that are based on each other
_NAMES = {
    "w:altChunk": "embedded document",
    "w:contentPart": "drawing by hand",
    "w:object": "embedded object",
    "w:subDoc": "linked document",
}
_STYLES = """
p[style-name='Title'] => h1:fresh
p.Heading6 => h6:fresh
p[style-name='Subtitle'] => p:fresh
p[style-name^='toc '] => !
"""


def read_docx(data: bytes) -> Content:
    """Read the headings of a Word document, the texts below them, and its headers and footers."""
    left_out = Counter[str]()
    rewritten, around = _rewrite(unzip(data), left_out)
    # By default, images are embedded as base64.
    no_image = mammoth.images.img_element(lambda image: {"src": ""})
    result = mammoth.convert_to_html(rewritten, convert_image=no_image, style_map=_STYLES)
    for message in result.messages:
        left_out["symbol of an unknown font"] += "w:sym" in message.message
        ignored = re.match(r"An unrecognised element was ignored: ([\w:]+)$", message.message)
        if ignored and not _NOTHING.fullmatch(ignored[1]):
            left_out[_NAMES.get(ignored[1], f"element {ignored[1]}")] += 1
    repeated = "\n\n".join(filter(has_text, dict.fromkeys(around)))
    return Content([Page([repeated, *html_blocks(result.value, pairs=True)])], left_out=left_out)


def _rewrite(archive: zipfile.ZipFile, left_out: Counter[str]) -> tuple[io.BytesIO, list[str]]:
    """Return a document for mammoth, and the paragraphs around its pages."""
    roots = dict[str, Element]()
    for name in archive.namelist():
        if name.endswith((".xml", ".rels")):
            with suppress(etree.XMLSyntaxError):  # of which mammoth needs few
                roots[name] = parse_xml(archive.read(name))
    # Word also keeps "stylesWithEffects.xml", and those of building blocks in a folder below.
    names = sorted(roots, key=lambda name: (name.count("/"), name), reverse=True)
    parts = {roots[name].tag: roots[name] for name in names}
    numbering = Numbering(parts.get(f"{W}numbering"), parts.get(f"{W}styles"))
    rewritten, around = dict[str, bytes](), list[str]()
    for name, root in roots.items():
        if root.tag in _BODIES:
            _simplify(root, _drawn(roots, name), left_out)
            if root.tag in _AROUND:
                around += [" ".join(_text(paragraph).split()) for paragraph in root.iter(f"{W}p")]
            _mark_paragraphs(root, numbering)
            rewritten[name] = etree.tostring(root, encoding="utf-8")
    return replaced(archive, rewritten), around


def _simplify(root: Element, drawn: dict[str, str], left_out: Counter[str]) -> None:
    """Leave of a part what mammoth reads: paragraphs, runs, text and tables."""
    choose_alternatives(root)
    _replace(root)
    _fill(root)
    for element in [*root.iter(*_DROPPED), *filter(_is_hidden, root.iter(f"{W}r"))]:
        parent = element.getparent()
        if parent is not None and not parent.tag.endswith("Pr"):  # of a whole paragraph, a mark
            parent.remove(element)
    left_out["comment"] += sum(1 for _ in root.iter(f"{W}commentReference"))
    for drawing in root.iter("{*}docPr"):
        is_picture = drawing.getparent().find(".//{*}blip") is not None
        if is_picture and not drawing.get("descr") and drawing.find(".//{*}decorative") is None:
            left_out["image without alternative text"] += 1
    _hoist(root, drawn)
    for element in [*root.iter()]:
        if element.getparent() is None or not isinstance(element.tag, str):
            continue
        name = element.tag.rpartition("}")[2]
        if not _READ.fullmatch(name) and next(element.iter(f"{W}t"), None) is not None:
            unwrap(element)
    _join_runs(root)


def _replace(root: Element) -> None:
    """Replace what mammoth does not read by what it reads."""
    for ruby in root.iter(f"{W}ruby"):
        reading = "".join(t.text or "" for t in ruby.iterfind(f"{W}rt//{W}t"))
        ruby.append(_run(f"({reading})"))
    for element in [*root.iter("{*}oMath")]:
        element.getparent().replace(element, _run(linear(element)))
    for element in [*root.iter(*_ALIKE)]:
        element.tag = _ALIKE[element.tag]
    for position in [*root.iter(f"{W}position")]:  # in half points above or below the line
        if not position.get(f"{W}val", "-").startswith(("-", "0")):
            position.tag = f"{W}vertAlign"
            position.set(f"{W}val", "superscript")
    for listed in [*root.iter(f"{W}ddList")]:  # of which a field shows one
        entries = [*listed.iterfind(f"{W}listEntry")]
        at = listed.find(f"{W}result")
        choice = entries[int(at.get(f"{W}val", 0)) if at is not None else 0 :][:1]
        field = listed.getparent().getparent().getparent()
        field.addprevious(_run("".join(entry.get(f"{W}val") for entry in choice)))


def _fill(root: Element) -> None:
    """Empty the controls that show what to enter, and put drop caps before their words."""
    for mark in root.iter(f"{W}showingPlcHdr"):
        control = mark.getparent().getparent()
        for run in [*control.iter(f"{W}r")] if mark.get(f"{W}val") not in ("0", "false") else ():
            if next(run.iterancestors(f"{W}sdt")) is control:
                run.getparent().remove(run)
    for frame in [*root.iter(f"{W}framePr")]:
        cap = frame.getparent().getparent()
        runs, text = cap.findall(f"{W}r"), _text(cap).strip()
        below = next(cap.itersiblings(f"{W}p"), None)
        is_cap = frame.get(f"{W}dropCap", "none") != "none" or (len(text) < 3 and text.isalpha())
        if is_cap and text and below is not None and has_text(_text(below)):
            runs[-1][-1].text = (runs[-1][-1].text or "").rstrip()
            properties = below.find(f"{W}pPr")
            at = 0 if properties is None else 1
            below[at:at] = runs
            cap.getparent().remove(cap)


def _join_runs(root: Element) -> None:
    """Make one run of those of a paragraph that look alike to a reader of words.

    Word begins another at each edit and each word that it does not know, and mammoth is slow.
    """
    for mark in [*root.iter(*_MARKS)]:
        mark.getparent().remove(mark)
    before, known_looks = None, ""
    for run in [*root.iter(f"{W}r")]:
        if run.find(f"{W}fldChar") is not None:  # a link begins or ends there
            before = None
            continue
        looks, own_looks = run.find(f"{W}rPr"), ""
        for look in [] if looks is None else looks.findall("*"):
            if look.tag in _LOOKS:
                own_looks += str(etree.tostring(look))
            else:
                looks.remove(look)
        if before is not None and run.getprevious() is before and own_looks == known_looks:
            before.extend([part for part in run if part is not looks])
            run.getparent().remove(run)
        else:
            before, known_looks = run, own_looks


def _hoist(root: Element, drawn: dict[str, str]) -> None:
    """Put text boxes, charts and diagrams below the paragraphs that they are in."""
    for element in reversed([*root.iter(f"{W}txbxContent", "{*}chart", "{*}relIds")]):
        below = next(element.iterancestors(f"{W}p"), None)
        if below is None:
            continue
        inner = [*element]
        if not element.tag.startswith(W):
            inner = [_paragraph(drawn[name]) for name in element.attrib.values() if name in drawn]
        for child in reversed(inner):
            below.addnext(child)


def _mark_paragraphs(root: Element, numbering: Numbering) -> None:
    """Write numbers into paragraphs, and give headings the style by which mammoth knows them.

    A heading has an outline level. What a tracked change removes has no number.
    """
    for properties in root.iterfind(f".//{W}p/{W}pPr"):
        owner, level, paragraph = properties.getparent(), "", properties.getparent()
        is_removed = properties.find(f"{W}rPr/{W}del") is not None
        label = None if is_removed else numbering.label(paragraph)
        if label is not None and _text(paragraph):
            properties.addnext(_run(f"{OWN_NUMBER}{label} "))
        for path in (f"{W}pPr/{W}pStyle", *[f"{W}basedOn"] * _DEEPEST):
            level = level or value_of(owner, f"{W}pPr/{W}outlineLvl")
            owner = numbering.styles.get(value_of(owner, path))
        style = properties.find(f"{W}pStyle")
        if level in "012345" and level and _text(paragraph).strip():
            style = etree.SubElement(properties, f"{W}pStyle") if style is None else style
            style.set(f"{W}val", f"Heading{int(level) + 1}")


def _drawn(roots: dict[str, Element], name: str) -> dict[str, str]:
    """Return the texts of the charts and diagrams that a part refers to, by their ids."""
    folder, file = posixpath.split(name)
    texts = dict[str, str]()
    for relation in roots.get(f"{folder}/_rels/{file}.rels", ()):
        target = posixpath.normpath(posixpath.join("/", folder, relation.get("Target", "")))[1:]
        if target in roots and relation.get("Type", "").endswith(("/chart", "/diagramData")):
            texts[relation.get("Id")] = drawn_text(roots[target])
    return texts


def _is_hidden(run: Element) -> bool:
    hidden = run.find(f"{W}rPr/{W}vanish")
    return hidden is not None and hidden.get(f"{W}val") not in ("0", "false")


def _text(paragraph: Element) -> str:
    marks = (f"{W}tab", f"{W}br")
    parts = paragraph.iter(f"{W}t", *marks)
    return "".join(" " if part.tag in marks else part.text or "" for part in parts)


def _run(text: str) -> Element:
    run = etree.Element(f"{W}r")
    etree.SubElement(run, f"{W}t").text = text
    return run


def _paragraph(text: str) -> Element:
    paragraph = etree.Element(f"{W}p")
    for line in text.split("\n"):
        paragraph.extend([_run(line), etree.Element(f"{W}br")])
    return paragraph
