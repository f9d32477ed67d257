"""The site of the documentation is built without a warning, and has every public name."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ["langchain", "llama_index", "retrieval", "confidence", "encoders", "stores", "documents"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    to = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        # not with -q, under which it counts no warning
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", to],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return to


@pytest.mark.slow
def test_every_public_name_is_in_the_api_and_llms_txt_names_every_page(site):
    shown = "".join(page.read_text() for page in (site / "api").rglob("*.html"))
    named = set(re.findall(r'id="uec_rag\.(?:\w+\.)*(\w+)"', shown))
    rooms = [import_module("uec_rag"), *(import_module(f"uec_rag.{room}") for room in ROOMS)]
    public = {name for room in rooms for name in room.__all__} - {"__version__"}
    assert public - named == set()
    pages = re.findall(r"\]\(([^)]+)/\)", (site / "llms.txt").read_text())
    assert len(pages) > 15
    assert [page for page in pages if not (site / page / "index.html").exists()] == []


@pytest.mark.slow
def test_pictures_are_described_and_nothing_is_loaded_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        images = re.findall(r"<img[^>]*>", text)
        assert [image for image in images if not re.search(r'alt="[^"]+', image)] == []
        loaded = re.findall(r'<(?:script|img)[^>]*src="([^"]+)"|<link[^>]*stylesheet[^>]*', text)
        assert [url for url in loaded if url.startswith(("http:", "https:", "//"))] == []
        assert 'data-md-component="source"' not in text  # its script asks GitHub for stars


@pytest.mark.ui
@pytest.mark.parametrize("width", [1280, 390])
def test_tables_are_whole_beside_the_lists_of_a_page_and_scroll_on_a_telephone(
    site, browser, width
):
    page = browser.new_page(viewport={"width": width, "height": 900})
    for name in ("index.html", "your-retriever/index.html", "reference/index.html"):
        page.goto(f"file://{site / name}")
        tables = page.locator(".md-typeset__scrollwrap")
        tables.first.wait_for()
        wide = "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).length"
        assert not (width == 1280 and tables.evaluate_all(wide)), name
        scrolls = "all => all.every((one) => getComputedStyle(one).overflowX === 'auto')"
        assert tables.evaluate_all(scrolls)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    page.close()
