"""A book is read in the order of its spine."""

import zipfile
from pathlib import Path

from tests.documents.files import sections_of
from tests.helpers import DATA
from uec_rag.documents import read_folder
from uec_rag.documents.document import Section


def test_a_book_is_read_in_its_order(tmp_path):
    parts = DATA / "epub"
    with zipfile.ZipFile(tmp_path / "a.epub", "w") as book:
        for part in filter(Path.is_file, parts.rglob("*")):
            book.write(part, part.relative_to(parts))
    assert sections_of(tmp_path) == [Section(("One",), "Dough."), Section(("Two",), "Crust.")]
    assert [document.title for document in read_folder(tmp_path)] == ["Bread"]
