"""Archives of XML, of which Word, PowerPoint, Excel and EPUB files consist."""

import io
import zipfile
from collections.abc import Mapping
from typing import Any, TypeAlias

from lxml import etree

Element: TypeAlias = Any
"""An element of lxml, which has no types."""

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
"""The namespaces of Word, of drawings and of relations, as they begin the names of elements."""

_LARGEST = 2**29  # bytes that a file may unpack to
_STRICT = b"http://purl.oclc.org/ooxml/"  # of which few programs write the namespaces
_NAMES = {
    b"wordprocessingml/main": W,
    b"drawingml/main": A,
    b"officeDocument/math": "{http://schemas.openxmlformats.org/officeDocument/2006/math}",
    b"officeDocument/relationships": R,
}


def unzip(data: bytes) -> zipfile.ZipFile:
    """Open an archive; ValueError if it declares a larger size than can be unpacked."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    if (size := sum(entry.file_size for entry in archive.infolist())) > _LARGEST:
        raise ValueError(f"it unpacks to {size:,} bytes, more than {_LARGEST:,}")
    return archive


def replaced(archive: zipfile.ZipFile, parts: Mapping[str, bytes]) -> io.BytesIO:
    """Return an archive with some parts in place of its own, of XML alone."""
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w") as target:
        for name in archive.namelist():
            if name.endswith((".xml", ".rels")):
                target.writestr(name, parts[name] if name in parts else archive.read(name))
    return copy


def parse_xml(data: bytes) -> Element:
    """Parse XML, whose entities are not expanded; strict names of Office become the usual ones."""
    for name, usual in _NAMES.items():
        data = data.replace(_STRICT + name, usual.strip("{}").encode())
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True)
    return etree.fromstring(data, parser)


def unwrap(element: Element) -> None:
    """Put the children of an element in its place."""
    for child in list(element):
        element.addprevious(child)
    element.getparent().remove(element)


def choose_alternatives(root: Element) -> None:
    """Replace what programs of several ages read differently by what the newest ones show."""
    for wrapper in list(root.iter("{*}AlternateContent")):
        choices = [child for child in wrapper if child.tag.endswith(("}Choice", "}Fallback"))]
        choice = next(filter(len, choices), None)
        wrapper[:] = [] if choice is None else list(choice)
        unwrap(wrapper)
