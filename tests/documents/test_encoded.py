"""What nobody reads in a text is left out and told, and nothing else."""

import base64
import json
import random

import pytest

from tests.documents.files import read
from uec_rag.documents import passages_of, read_folder
from uec_rag.documents.readers import read_content

RANDOM = random.Random(7)
BASE64 = base64.b64encode(RANDOM.randbytes(40_000)).decode()
IMAGE = f"data:image/jpeg;base64,{BASE64}"
ROWS = "\n".join(BASE64[at : at + 64] for at in range(0, 2_560, 64))
KEY = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{ROWS}\n-----END OPENSSH PRIVATE KEY-----"
PATHS = "".join(f"<path d='M{at} {2 * at} L{at} 7'/>\n" for at in range(300))
DRAWING = f"<svg viewBox='0 0 9 9'><title>Plan of the mill</title>\n{PATHS}</svg>"
VECTOR = [RANDOM.random() for _ in range(384)]


@pytest.mark.parametrize(
    ("name", "text", "texts"),
    [
        ("a.md", f'The gate.\n\n<img alt="gate" src="{IMAGE}">\n\nIt is red.', ["gate", "red"]),
        ("a.md", f"```css\ndiv {{ background: url({IMAGE}) }}\n```\n\nPlain.", ["div", "Plain."]),
        ("a.md", f"The mill.\n\n{DRAWING}\n\nIt grinds.", ["Plan of the mill", "It grinds."]),
        ("a.mdx", f"The mill.\n\n{DRAWING}\n\nIt grinds.", ["The mill.", "It grinds."]),
        ("a.txt", f"For the door.\n\n{KEY}\n\nAsk Ida.", ["For the door.", "Ask Ida."]),
        ("a.txt", f"Attached:\n\n{ROWS}\n\nGreetings", ["Attached:", "Greetings"]),
        ("a.rst", f"Key\n===\n\nAs follows::\n\n    {KEY[:40]}\n\nFine.", ["As follows", "Fine."]),
        ("a.csv", f"Item,Photo\nKiln,{IMAGE}\nVase,\n", ["Item: Kiln", "Item: Vase"]),
        ("a.csv", f"Item,Photo\nKiln,{BASE64}\nVase,\n", ["Item: Kiln", "Item: Vase"]),
        ("a.jsonl", json.dumps({"item": "Kiln", "photo": IMAGE}), ["item: Kiln"]),
        ("a.jsonl", json.dumps({"item": "Kiln", "photo": IMAGE}).replace("/", "\\/"), ["Kiln"]),
        ("a.jsonl", json.dumps({"item": "Kiln", "vector": VECTOR}), ["item: Kiln"]),
        ("a.html", f"<p>For the door.</p><pre>{KEY}</pre><p>Ask Ida.</p>", ["door", "Ask Ida."]),
    ],
)
@pytest.mark.filterwarnings("ignore:left out of")
def test_encoded_data_is_left_out_before_anything_is_embedded(tmp_path, name, text, texts):
    (tmp_path / name).write_text(text, encoding="utf-8")
    documents = read_folder(tmp_path)
    whole = "\n".join(passage.text for passage in passages_of(documents))
    assert len(whole) < 150
    assert [part for part in texts if part not in whole] == []
    if "PRIVATE" not in text or "END" in text:
        assert "piece of encoded data" in documents[0].left_out


def test_what_is_left_out_is_told(tmp_path):
    (tmp_path / "door.txt").write_text(f"For the door.\n\n{KEY}\n\n{IMAGE}", encoding="utf-8")
    with pytest.warns(UserWarning, match=r"left out of door\.txt: 2 pieces of encoded data"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "The digest is 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08.",
        f"Pi is 3.{'14159265358979323846' * 20}.",
        f"The gene is {'ACGTTGCA' * 60}.",
        f"See https://example.org/{'mill/' * 60}index.html.",
        "```html\n<svg width='9'><path d='M1 1 L3 3'/></svg>\n```",
        "Write `<svg><path d='M1 1'/></svg>` for a line.",
        "Begin it with data:text/plain,hello to try.",
        f"{'这台iPhone15可以借两个星期' * 30}。",
        "0.125, 0.25, 0.375, 0.5 are eighths.",
        "-----BEGIN CERTIFICATE----- is how it begins.",
    ],
)
def test_what_only_looks_encoded_stays(text):
    content = read_content("a.md", text.encode())
    assert content.pages[0].blocks == [text] or text in "".join(content.pages[0].blocks)
    assert content.left_out == {}


def test_what_is_behind_encoded_data_keeps_its_place_in_the_file():
    text = f"# Doors\n\nThe gate.\n\n<img src='{IMAGE}'>\n\nAsk Ida at the mill."
    [section] = read("a.md", text)[1]
    start = section.text.index("Ask Ida")
    assert section.place(start, start + 7) == text.index("Ask Ida")
