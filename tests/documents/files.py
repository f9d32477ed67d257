"""Files of formats that need a library to be written."""

import io
import zipfile
from pathlib import Path

from openpyxl import Workbook
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from tests.helpers import DATA
from uec_rag.documents.document import cut
from uec_rag.documents.readers import read_content


def write_pdf(path, pages, password=None, outline=()):
    """Write a PDF; a page is a list of lines, each a text or its size and a text."""
    writer = PdfWriter()
    for lines in pages:
        page = writer.add_blank_page(width=612, height=792)
        names = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
        font = DictionaryObject({NameObject(k): NameObject(v) for k, v in names.items()})
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        shown = [line if isinstance(line, list) else (12, line) for line in lines]
        content = DecodedStreamObject()
        content.set_data(
            "\n".join(
                f"BT /F1 {size} Tf 72 {720 - 24 * n} Td ({text}) Tj ET"
                for n, (size, text) in enumerate(shown)
            ).encode("latin-1")
        )
        page[NameObject("/Contents")] = writer._add_object(content)  # as PDF wants it
    for title, number in outline:
        writer.add_outline_item(title=title, page_number=number)
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    writer.write(path)


def paragraph(text, style=""):
    """A paragraph of Word."""
    return f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'


def word_table(*rows):
    """A table of Word."""
    cells = ("".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) for row in rows)
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


def unzipped(data):
    """The files of an archive, by their names."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(files):
    """An archive of files, by their names."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def docx(*blocks, header="", numbering="", **parts):
    """The least that is a Word document, of paragraphs and tables.

    `parts`: drawings that the document refers to by "chart" or "diagramData".
    """
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    texts = {
        str(part.relative_to(DATA / "docx")): part.read_text()
        for part in filter(Path.is_file, (DATA / "docx").rglob("*"))
    }
    texts["word/document.xml"] = texts["word/document.xml"].replace("PARAGRAPHS", "".join(blocks))
    if header:
        text = f'<w:hdr xmlns:w="{space}">{paragraph(header)}</w:hdr>'
        texts["word/header1.xml"] = text
    if numbering:
        text = f'<w:numbering xmlns:w="{space}">{numbering}</w:numbering>'
        texts["word/numbering.xml"] = text
    base = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    for name, part in parts.items():
        relation = f'<Relationship Id="{name}" Type="{base}/{name}" Target="parts/{name}.xml"/>'
        ends = f"{relation}</Relationships>"
        relations = texts["word/_rels/document.xml.rels"]
        texts["word/_rels/document.xml.rels"] = relations.replace("</Relationships>", ends)
        texts[f"word/parts/{name}.xml"] = part
    return zipped(texts)


def write_xlsx(path, rows, merged=(), formats=()):
    """A workbook of a sheet; `formats`: the number format of some of its cells, by their names."""
    book = Workbook()
    book.active.title = "Stock"
    for row in rows:
        book.active.append(row)
    for cells in merged:
        book.active.merge_cells(cells)
    for name, shape in dict(formats).items():
        book.active[name].number_format = shape
    book.save(path)


_ODF = "urn:oasis:names:tc:opendocument:xmlns"
_ODF_NAMES = ("office", "text", "style", "table", "presentation")
_ODF_SPACES = " ".join(f'xmlns:{name}="{_ODF}:{name}:1.0"' for name in _ODF_NAMES)
_ODF_SPACES += f' xmlns:draw="{_ODF}:drawing:1.0"'


def odf(kind, body, styles="", common=""):
    """The least that is a file of OpenDocument, of kind "text", "spreadsheet" or "presentation".

    `styles`: those of its own; `common`: what is in the part for styles.
    """
    whole = f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
    styles = f"<office:automatic-styles>{styles}</office:automatic-styles>"
    content = f"<office:document-content {_ODF_SPACES}>{styles}{whole}</office:document-content>"
    common = f"<office:document-styles {_ODF_SPACES}>{common}</office:document-styles>"
    mimetype = f"application/vnd.oasis.opendocument.{kind}"
    spaces = f'xmlns:manifest="{_ODF}:manifest:1.0"'
    entry = f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{mimetype}"/>'
    return zipped(
        {
            "mimetype": mimetype,
            "content.xml": content,
            "styles.xml": common,
            "META-INF/manifest.xml": f"<manifest:manifest {spaces}>{entry}</manifest:manifest>",
        }
    )


def written(write, *given, **options):
    """The bytes that a function writes."""
    file = io.BytesIO()
    write(file, *given, **options)
    return file.getvalue()


def read(name, data):
    """The title and the sections that a reader and the cutting make of a file."""
    return cut(read_content(name, data if isinstance(data, bytes) else data.encode()))
