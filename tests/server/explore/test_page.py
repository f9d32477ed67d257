"""The explorer's page in a real browser: by mouse and keyboard, wide and narrow, light and dark."""

import shutil
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import expect, sync_playwright

from tests.server.conftest import until
from tests.server.explore.conftest import table
from uec_rag import Gate, Retriever
from uec_rag.corpora.folder import LARGEST
from uec_rag.retrieval.live import LiveIndex, Place
from uec_rag.server.access import Access, Limits
from uec_rag.server.explore import explorer

pytestmark = pytest.mark.ui
expect.set_options(timeout=60_000)  # a busy machine is no defect

AXE = Path(sys.prefix, "axe.min.js")
NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
VIEWS = ("ask", "tune", "inspect", "index")


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None or not AXE.is_file():
        pytest.fail("These tests need Chromium and axe-core: `make test-ui` installs both.")
    with sync_playwright() as playwright:
        # Containers give no rights for a sandbox and little shared memory.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        yield playwright.chromium.launch(executable_path=found, args=arguments)


@contextmanager
def served(index, **access):
    """The address of an explorer."""
    app = explorer(
        LiveIndex(Place(index)), Access(limits=Limits(body=LARGEST), cookie=True, **access)
    )
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def opened(browser, address, *, width=1100, theme="light"):
    """A page that may not say anything on its console."""
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=theme)
    page.set_default_timeout(60_000)
    said = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: said.append(request.url))
    page.goto(address)
    page.wait_for_selector("#facts dd", state="attached")
    yield page
    page.close()
    # A refusal is said in words, and all that is loaded is the explorer's.
    expected = ("Failed to load resource", address)
    assert [text for text in said if not text.startswith(expected)] == []


@pytest.fixture
def page(browser, index):
    with served(index) as address, opened(browser, address) as page:
        yield page


def go(page, view):
    page.click(f"nav a[href='#{view}']")


def ask(page, question):
    go(page, "ask")
    page.fill("#ask input[name=question]", question)
    page.click("#ask form button")
    expect(page.locator("#ask .message")).to_contain_text("found")


def upload(page, name="questions.csv", content=None):
    go(page, "tune")
    content = table() if content is None else content
    page.set_input_files(
        "#tune input[type=file]", {"name": name, "mimeType": "text/csv", "buffer": content}
    )
    page.click("text=Search these questions")


def tune(page):
    upload(page)
    page.wait_for_selector("#tuned:not([hidden])")


def slide(page, percent):
    page.locator("#risk").evaluate(
        "(slider, at) => { slider.value = at; slider.dispatchEvent(new Event('input')) }",
        percent - 1,
    )


def violations(page):
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run()")["violations"]
    return [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found]


def test_what_is_shown_of_a_question_is_what_a_search_finds(page, index):
    ask(page, "keep the honey dry")
    result = Retriever.load(index).search(["keep the honey dry"], 4)
    decision = result.decisions[0]
    assert decision.reason in page.inner_text("#answer .decision")
    assert page.inner_text("#confidence") == f"{decision.confidence:.3f}"
    scores, relevance = page.locator("b.score").all_inner_texts(), page.locator("b.relevance")
    assert scores == [f"{score:.3f}" for score in result.scores[0]]
    assert relevance.all_inner_texts() == [f"{100 * one:.0f} %" for one in result.relevance[0]]
    label = page.locator(".hits svg").first.get_attribute("aria-label")
    assert label.startswith(f"Mean {result.mu[0, 0]:.3f}, from ")
    member = result[0].metadata(0, details=True)["uec_members"]["bm25"]
    row = page.locator(".hits table").first.locator("tr", has_text="bm25").inner_text().split("\t")
    assert row[1:] == [
        f"{member['similarity']:.3f}",
        str(member["rank"]),
        f"{100 * member['share']:.0f} %",
    ]
    assert "honey" in page.locator("mark").all_inner_texts()
    names = page.locator(".columns h4").all_inner_texts()
    assert names[0::2] + names[3:] == ["This index", "Reciprocal rank fusion", "Plain cosine"]


def test_a_script_in_a_passage_is_text(page):
    dialogs = []
    page.on("dialog", lambda dialog: dialogs.append(dialog) or dialog.dismiss())
    ask(page, "alert zebra script")
    assert "<script>alert('zebra')</script>" in page.locator(".hits .text").first.inner_text()
    assert (dialogs, page.locator("main script").count()) == ([], 0)


def test_the_slider_shows_a_gate_flips_are_listed_and_a_saved_gate_is_there_after_a_reload(
    page, index
):
    tune(page)
    assert page.locator("#tuned svg").count() == 2
    promises = [("wrongs", "wrong", 10), ("risks", "risk", 20), ("risks", "risk", 40)]
    for promise, name, percent in promises:
        page.select_option("#promise", promise)
        slide(page, percent)
        rows = table().decode().splitlines()[1:]
        queries, ids = zip(*(row.split(",") for row in rows), strict=True)
        relevant = [{id_} - {""} for id_ in ids]
        told = {name: percent / 100}
        gate = Gate.calibrate(Retriever.load(index), queries, relevant, **told, k=4)
        assert page.inner_text("#risk-report") == gate.threshold.report
        found = gate.threshold
        shown = f"{found.answered} of {found.queries} questions answered, {found.wrong} wrongly"
        assert shown in page.inner_text("#rows")
    slide(page, 20)
    page.click("#save")
    expect(page.locator("#saved")).to_contain_text("Saved as gate.json")
    assert page.inner_text("#flips h3") == "0 questions flip"
    slide(page, 1)
    assert page.locator("#flips tbody tr").count() > 0
    assert page.is_disabled("#save")
    page.reload()
    page.wait_for_selector("#tuned:not([hidden])")
    assert page.inner_text("#risk-shown") == "20 %"
    threshold = Gate.load(index / "gate.json").threshold.threshold
    ask(page, "keep the honey dry")
    assert f"threshold {threshold:.3f}" in page.inner_text("#answer .decision")


def test_a_bad_table_and_one_of_200_megabytes_are_refused_in_words(page, tmp_path):
    upload(page, content=b"question,answer\nwhy?,x")
    page.wait_for_selector("#tune .message.bad")
    assert "expected the columns query and relevant_ids" in page.inner_text("#tune .message")
    large = tmp_path / "large.csv"
    with large.open("wb") as file:
        file.truncate(200 * 2**20)
    page.set_input_files("#tune input[type=file]", large)
    page.click("text=Search these questions")
    expect(page.locator("#tune .message")).to_contain_text("large.csv has 200 MB")
    tune(page)  # nothing is lost


def test_dropped_files_are_added_and_what_cannot_be_read_is_named(page, index, tmp_path):
    go(page, "index")
    large = tmp_path / "large.txt"
    with large.open("wb") as file:
        file.truncate(200 * 2**20)
    page.set_input_files("#drop input", large)
    expect(page.locator("#staged li")).to_have_count(1)
    dropped = page.evaluate_handle(
        """() => {
            const data = new DataTransfer();
            data.items.add(new File(["# Okapis\\n\\nThey hide."], "news.md"));
            data.items.add(new File(["x"], "run.exe"));
            return data;
        }"""
    )
    page.dispatch_event("#drop", "drop", {"dataTransfer": dropped})
    page.wait_for_selector("#index .message.bad")
    assert "run.exe: expected a file that ends in .txt" in page.inner_text("#index .message")
    assert page.locator("#staged li").all_inner_texts() == ["large.txt, 200 MB", "news.md, 0.00 MB"]
    page.click("#add")
    expect(page.locator("#index .message")).to_contain_text("is saved")
    said = page.inner_text("#index .message")
    assert "1 passage of 1 file added, 0 replaced" in said
    assert "large.txt cannot be read: it is not a text file" in said
    expect(page.locator("#staged li")).to_have_count(0)
    assert "news.md#0" in {passage.id for passage in Retriever.load(index).passages()}


def test_all_views_work_by_keyboard_alone(page):
    def focused():
        return page.evaluate(
            "(({ name, id, textContent }) => name || id || textContent)(document.activeElement)"
        )

    def tab_to(wanted, most=60):
        for _ in range(most):
            page.keyboard.press("Tab")
            if focused() == wanted:
                return
        raise AssertionError(f"no way to {wanted}, at {focused()}")

    page.keyboard.press("Tab")
    assert focused() == "Skip to the content"
    page.keyboard.press("Enter")
    tab_to("question")
    page.keyboard.type("keep the honey dry")
    page.keyboard.press("Enter")
    page.wait_for_selector(".hits li")
    tab_to("Neighbours")
    page.keyboard.press("Enter")
    page.wait_for_selector("#near h4")
    assert page.is_visible("#inspect")
    page.reload()
    tab_to("Tune")
    page.keyboard.press("Enter")
    tab_to("made")
    page.keyboard.press("Enter")
    page.wait_for_selector("#tuned:not([hidden])")
    tab_to("risk")
    before = page.inner_text("#risk-shown")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#risk-shown") != before
    page.reload()
    tab_to("theme")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("Enter")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_a_token_in_the_address_opens_the_page_and_leaves_the_address(browser, index):
    token = "a-token-of-more-than-16-letters"
    with served(index, token=token) as address:
        page = browser.new_page()
        assert page.goto(address).status == 401
        page.goto(f"{address}?token={token}")
        page.wait_for_selector("#facts dd", state="attached")
        assert page.url == address
        page.close()


def test_an_explorer_that_is_gone_is_said_to_be(browser, index):
    with served(index) as address:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("#facts dd", state="attached")
    page.fill("#ask input[name=question]", "honey")
    page.click("#ask form button")
    page.wait_for_selector("#ask .message.bad")
    assert "Does it still run in the terminal?" in page.inner_text("#ask .message")
    page.close()


@pytest.mark.parametrize(("width", "theme"), [(1100, "light"), (400, "dark")])
def test_views_fit_and_break_no_rule_of_accessibility_in_both_themes(browser, index, width, theme):
    with served(index) as address, opened(browser, address, width=width, theme=theme) as page:
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        ask(page, "keep the honey dry")
        tune(page)
        slide(page, 30)
        go(page, "inspect")
        page.click("#look")
        page.wait_for_selector("#seen h3")
        page.fill("#neighbours input", "bees-0")
        page.click("#neighbours button")
        page.wait_for_selector("#near h4")
        for other in (theme, {"light": "dark", "dark": "light"}[theme]):
            if other != theme:
                page.click("#theme")
            assert page.evaluate("document.documentElement.dataset.theme") == other
            for view in VIEWS:
                go(page, view)
                assert violations(page) == []
                assert page.evaluate("document.documentElement.scrollWidth") <= width
