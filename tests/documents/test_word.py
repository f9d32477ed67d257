"""Word's documents become sections under their headings."""

from tests.documents.files import paragraph, sections_of, write_docx
from uec_rag.documents import read_folder
from uec_rag.documents.document import Section


def test_a_word_document_keeps_its_headings(tmp_path):
    chapters = [paragraph("Bread", "Heading1"), paragraph("Dough rests.")]
    write_docx(
        tmp_path / "a.docx", *chapters, paragraph("Crust", "Heading2"), paragraph("It is brown.")
    )
    assert sections_of(tmp_path) == [
        Section((), "Dough rests."),
        Section(("Crust",), "It is brown."),
    ]
    assert [document.title for document in read_folder(tmp_path)] == ["Bread"]
