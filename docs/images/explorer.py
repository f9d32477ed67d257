"""Pictures of the explorer over this documentation, in both themes: `make screenshots`.

The questions of the Tune view are the headings, which the text under them answers, and those about
Debian and git of benchmarks/quality/questions, which nothing here does.
"""

import csv
import re
import shutil
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from uec_rag import Retriever

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
UEC_RAG = [sys.executable, "-c", "from uec_rag.cli import main; main()"]
QUESTION = "How do I filter by metadata?"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def label_questions(folder: Path) -> None:
    """Label questions about the documentation."""
    index, labels = Retriever.load(folder), dict[str, list[str]]()
    for passage in index.passages():
        if " " in (title := str(passage.metadata["title"])):
            labels.setdefault(title, []).append(passage.id)
    for name in ("debian.csv", "git.csv"):
        with (ROOT / "benchmarks/quality/questions" / name).open(encoding="utf-8") as table:
            labels |= {row["question"]: [] for row in csv.DictReader(table)}
    for question, ids in labels.items():
        index.label(question, ids)


def show(page: Page) -> None:
    """Go through the views of an opened page, and picture each in both themes."""
    page.fill("#ask input[name=question]", QUESTION)
    page.click("#ask form button")
    page.wait_for_selector(".hits li")
    picture(page, "ask")
    page.click("nav a[data-view='tune']")
    page.click("text=Search the labelled questions")
    page.wait_for_selector("#tuned:not([hidden])", timeout=300_000)
    page.locator("#risk").press("PageUp")
    page.locator("#risk").blur()
    picture(page, "tune")


def picture(page: Page, view: str) -> None:
    """Write what is shown of a view, in few colours."""
    for theme in ("light", "dark"):
        if page.evaluate("document.documentElement.dataset.theme") != theme:
            page.evaluate("document.querySelector('#theme').click()")
        image = Image.open(BytesIO(page.screenshot()))
        image.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
            HERE / f"explore-{view}-{theme}.png", optimize=True
        )


def main() -> None:
    """Make the index, serve it, and picture it."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        index = Path(folder, "docs")
        subprocess.run([*UEC_RAG, "index", ROOT / "docs", "--out", index], check=True)
        label_questions(index)
        server = subprocess.Popen(
            [*UEC_RAG, "explore", index, "--port", "0"], stderr=subprocess.PIPE, text=True
        )
        assert server.stderr is not None
        try:
            said = next(
                filter(None, (re.search(r"running on (http\S+)", line) for line in server.stderr))
            )
            found = next(filter(None, map(shutil.which, BROWSERS)))
            browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 900, "height": 1000})
            page.goto(said[1])
            page.wait_for_selector("#facts dd", state="attached")
            show(page)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
