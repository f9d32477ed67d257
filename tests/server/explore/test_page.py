"""The explorer's page in a real browser: by mouse and keyboard, wide and narrow, light and dark."""

from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tests.cli.conftest import make_model
from tests.helpers import AXE, DATA, VAGUE, index_of, namesakes
from tests.server.conftest import running
from tests.server.explore.conftest import LABELS, QUESTIONS, give_labels
from uec_rag import UEC, Gate, Retriever
from uec_rag.server import create_app

pytestmark = pytest.mark.ui
expect.set_options(timeout=60_000)  # a busy machine is no defect

VIEWS = ("ask", "tune", "index")


def served(index, token=None, *, write=True):
    """The address of an explorer."""
    return running(create_app(Retriever.load(index), write, token))


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
    """Open a view, which empties its field when the page is told of the new address."""
    link = f"nav a[data-view='{view}']"
    page.evaluate(
        """(link) => {
          const there = document.querySelector(link).hash === location.hash;
          window.shown = there || new Promise((done) =>
            addEventListener("hashchange", () => done(true), { once: true }));
        }""",
        link,
    )
    page.click(link)
    assert page.evaluate("window.shown")


def ask(page, question):
    go(page, "ask")
    page.fill("#ask input[name=question]", question)
    page.click("#ask form button")
    expect(page.locator("#answer .decision h3")).to_have_text(question)


def tune(page):
    go(page, "tune")
    page.click("text=Search the labelled questions")
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
    assert page.inner_text("#confidence") == f"{100 * decision.confidence:.0f} %"
    scores, relevance = page.locator("b.score").all_inner_texts(), page.locator("b.relevance")
    assert scores == [f"{score:.3f}" for score in result.scores[0]]
    assert relevance.all_inner_texts() == [f"{100 * one:.0f} %" for one in result.relevance[0]]
    page.locator(".hits summary").first.click()
    label = page.locator(".hits svg").first.get_attribute("aria-label")
    assert label.startswith(f"Mean {result.mu[0, 0]:.3f}, from ")
    member = result[0].metadata(0, details=True)["uec_encoders"]["bm25"]
    rows = page.locator(".hits table.listed").first.locator("tr", has_text="bm25")
    rounded = f"{member['similarity']:.3f}\t{member['rank']}\t{100 * member['share']:.0f} %"
    assert rows.inner_text().partition("\t")[2] == rounded
    assert "honey" in page.locator("mark").all_inner_texts()


def test_a_script_in_a_passage_is_text(page):
    dialogs = []
    page.on("dialog", lambda dialog: dialogs.append(dialog) or dialog.dismiss())
    ask(page, "alert zebra script")
    assert "<script>alert('zebra')</script>" in page.locator(".hits .text").first.inner_text()
    assert (dialogs, page.locator("main script").count()) == ([], 0)


MARKDOWN = """The **weighbridge** of the `file_path` needs [a clerk](javascript:alert) or
[a key](https://example.com/key), as *the miller* says in [`keys`](keys.md). * alone * and
snake_case_names, 2*3*4, `*.md` and *args, **kwargs stay.

## Weights

- weighing is <b onclick="alert(2)">free</b>

| load | fee |
|---|---|
| `corn` | two |

```sh
weigh **this** <script>alert(3)</script>
```
"""


def test_markdown_is_shown_as_nodes_and_what_is_hostile_in_it_as_text(browser, index):
    long = MARKDOWN + "```\n" + "grinding corn " * 200 + "\n```\nThe end"
    Retriever.load(index).add([MARKDOWN, long.replace("The ", "Second ", 1)])
    dialogs = []
    with served(index) as address, opened(browser, address) as page:
        page.on("dialog", lambda dialog: dialogs.append(dialog) or dialog.dismiss())
        ask(page, "the weighbridge of the file_path weighing")
        text = page.locator(".hits .text", has_text="weighbridge").first
        assert text.locator("b").all_inner_texts() == ["weighbridge", "Weights"]
        assert text.locator("i").all_inner_texts() == ["the miller"]
        assert text.locator("th, td").all_inner_texts() == ["load", "fee", "corn", "two"]
        code = ["file_path", "keys", "*.md", "corn"]
        assert text.locator("code").all_inner_texts() == code
        assert text.locator("pre").first.inner_text() == "weigh **this** <script>alert(3)</script>"
        shown = text.inner_text()
        for part in (
            "needs a clerk or",
            "* alone * and snake_case_names, 2*3*4",
            "*args, **kwargs",
            '<b onclick="alert(2)">',
        ):
            assert part in shown
        assert text.locator("a, script, [onclick]").count() == 0
        ask(page, "second weighbridge for grinding corn")
        rest = page.locator(".hits .text details").first
        rest.locator("summary").click()
        assert set(rest.locator("pre").inner_text().split()) == {"grinding", "corn"}
        assert "The end" in rest.locator("p").inner_text()
    assert dialogs == []


def test_whole_words_of_content_are_marked_and_no_parts_of_others(browser, index):
    Retriever.load(index).add(["Reports on the port of the ports: is it an important harbour?"])
    with served(index) as address, opened(browser, address) as page:
        ask(page, "what is the port of it")
        text = page.locator(".hits .text", has_text="harbour")
        assert text.locator("mark").all_inner_texts() == ["port", "ports"]


def test_passages_of_an_index_without_words_are_shown(browser, tmp_path):
    (tmp_path / "model").mkdir()
    texts, model = ["The harbour is deep.", "Corn is ground."], tmp_path / "model"
    index = index_of(UEC([str(make_model(model, seed=0, width=48))]), texts)
    index.save(tmp_path / "idx")
    with served(tmp_path / "idx") as address, opened(browser, address) as page:
        ask(page, "how deep is the harbour")
        assert page.locator(".hits .text", has_text="harbour").count() == 1


def test_an_abstention_says_whether_what_was_found_is_near(page, index):
    for question in ("keep the honey dry", "who wrote hamlet?", "thanks!"):
        ask(page, question)
        [decision] = Retriever.load(index).search([question], 4).decisions
        said = {"uncertain": "Not certain", "underspecified": "Ask back", "answered": "Answer"}
        wanted = said.get(decision.code, "Nothing near")
        expect(page.locator("#answer .decision strong")).to_have_text(wanted)


def test_the_slider_shows_a_gate_and_a_saved_gate_is_there_after_a_reload(page, index):
    give_labels(index)
    tune(page)
    assert page.locator("#tuned svg").count() == 2
    promises = [("wrongs", "max_wrong", 10), ("risks", "max_risk", 20), ("risks", "max_risk", 40)]
    for promise, name, percent in promises:
        page.select_option("#promise", promise)
        slide(page, percent)
        told = {name: percent / 100}
        gate = Gate.from_labels(Retriever.load(index), [*LABELS], [*LABELS.values()], **told, k=4)
        found = gate.guarantee
        assert page.inner_text("#risk-report") == found.report
        shown = f"{found.answered} of {found.queries} questions answered, {found.wrong} wrongly"
        assert shown in page.inner_text("#rows")
    slide(page, 20)
    page.click("#save")
    expect(page.locator("#saved")).to_contain_text("Saved: from now on")
    slide(page, 1)
    assert page.is_disabled("#save")
    page.reload()
    page.wait_for_selector("#facts dd", state="attached")
    tune(page)
    assert page.inner_text("#risk-shown") == "20 %"
    threshold = Gate.load(index / "gate.json").threshold
    ask(page, "keep the honey dry")
    assert f"threshold {100 * threshold:.0f} %" in page.inner_text("#answer .decision")


def test_labels_given_on_the_page_make_a_gate(page, index):
    for question, id_ in QUESTIONS[:40:2]:
        ask(page, question)
        hit = page.locator("ol.hits > li", has_text=f"id {id_}")
        hit.locator("button:text-is('Answers')").click()
        expect(hit.locator("button:text-is('Answers')")).to_have_attribute("aria-pressed", "true")
    ask(page, "who wrote hamlet?")
    page.click("text=Nothing answers")
    expect(page.locator("#labels")).to_contain_text("21 questions, 1 without an answer")
    wanted = {question: {id_} for question, id_ in QUESTIONS[:40:2]} | {"who wrote hamlet?": set()}
    assert Retriever.load(index).labels == wanted
    page.reload()
    page.wait_for_selector("#answer .decision")
    nothing = page.locator("#answer .decision button")
    expect(nothing).to_have_attribute("aria-pressed", "true")
    nothing.click()
    expect(page.locator("#labels")).to_contain_text("20 questions, 0 without an answer")
    page.click("text=Find what teaches most")
    expect(page.locator("#labels")).to_contain_text("These teach most:")
    # What was asked, and is not labelled.
    page.click("#labels li a:text-is('who wrote hamlet?')")
    expect(page.locator("#answer .decision h3")).to_have_text("who wrote hamlet?")
    tune(page)
    assert page.inner_text("#tuned-of").startswith("20 labelled questions")
    page.click("#save")
    expect(page.locator("#saved")).to_contain_text("Saved: from now on")


@pytest.fixture
def with_headings(index):
    """The index with passages below headings."""
    titles = [f"How to keep matter {n} dry" for n in range(7)]
    below = "It begins with the hive, and whoever looks after it does so all day."
    texts = [f"{title}\n\n{n} {below}" for n, title in enumerate(titles)]
    Retriever.load(index).add(texts, metadatas=[{"title": title} for title in titles])


def test_the_first_view_has_questions_to_begin_with(with_headings, page):
    expect(page.locator("#ask input[name=question]")).to_be_focused()
    expect(page.locator("#answer .choices a")).to_have_count(6)
    expect(page.locator("#labels button")).to_be_visible()
    expect(page.locator("#labels li")).to_have_count(0)  # not the same six again
    question = page.locator("#answer .choices a").first.inner_text()
    page.locator("#answer .choices a").first.click()
    expect(page.locator("#answer .decision h3")).to_have_text(question)
    expect(page.locator("#labels li")).to_have_count(5)
    expect(page.locator("#history li")).to_have_count(1)
    page.click("#answer .decision h3")
    page.keyboard.press("/")
    expect(page.locator("#ask input[name=question]")).to_be_focused()
    page.keyboard.type("honey")
    expect(page.locator("#ask input[name=question]")).to_have_value("honey")


def test_several_hits_of_one_section_are_told_to_be(browser, index):
    about = {"title": "Lending a scale", "source": "scales.md"}
    texts = [f"Lending a scale\n\nLending takes {n} days." for n in range(3)]
    Retriever.load(index).add(texts, metadatas=[about, about, about | {"title": "Another"}])
    with served(index) as address, opened(browser, address) as page:
        ask(page, "lending a scale")
        heads = page.locator(".hits h3", has_text="Lending a scale").all_inner_texts()
        [first] = [head for head in heads if "more of" not in head]
        assert ["more of " + first[0] in head for head in heads] == [False, True]


def test_the_tune_view_says_what_it_needs_until_there_are_a_hundred_labels(page, index):
    go(page, "tune")
    expect(page.locator("#needs")).to_contain_text("There are none yet.")
    expect(page.locator("#needs")).to_contain_text("uec-rag gate INDEX questions.csv")
    expect(page.locator("#tune form")).to_be_hidden()
    for given, is_needed in ((3, True), (len(LABELS), False)):
        give_labels(index, {one: LABELS[one] for one in [*LABELS][:given]})
        page.reload()
        expect(page.locator("#tune form")).to_be_visible()
        expect(page.locator("#given")).to_contain_text(f"{given} questions labelled")
        expect(page.locator("#needs")).to_be_visible(visible=is_needed)


def test_a_question_is_in_the_address_and_those_before_lead_back(browser, page):
    ask(page, "keep the honey dry")
    ask(page, "where is the anchor?")
    page.go_back()
    expect(page.locator("#answer .decision h3")).to_have_text("keep the honey dry")
    page.reload()
    expect(page.locator("#answer .decision h3")).to_have_text("keep the honey dry")
    page.click("#history a:text-is('where is the anchor?')")
    expect(page.locator("#answer .decision h3")).to_have_text("where is the anchor?")


def test_why_a_question_is_decided_so_is_told_in_words(page):
    ask(page, "where is the anchor?")
    page.click("#why summary")
    expect(page.locator("#why li").first).to_contain_text("usual question: ")


def test_a_reading_is_asked_among(page, index):
    question, texts, about = VAGUE, *namesakes()
    changed = Retriever.load(index)
    changed.add(texts, metadatas=about)
    changed.save(index)
    result = changed.search([question], 4)
    readings = result.decisions[0].readings
    assert result.decisions[0].action == "clarify"
    ask(page, question)
    expect(page.locator("#answer .choices a")).to_have_count(len(readings))
    page.locator("#answer .choices a").first.click()
    expect(page.locator("#answer .decision")).to_contain_text("Asked among the passages of")
    expect(page.locator("ol.hits > li")).to_have_count(min(4, len(readings[0].ids)))


def test_long_readings_are_a_list_below_a_short_question(browser, index):
    texts, about = namesakes()
    for one in about:
        one["title"] = f"How those who keep the {one['title']} repay their loans"
    Retriever.load(index).add(texts, metadatas=about)
    [decision] = Retriever.load(index).search([VAGUE], 4).decisions
    assert decision.action == "clarify"
    with served(index) as address, opened(browser, address) as page:
        ask(page, VAGUE)
        said = page.locator("#answer .decision p").first
        expect(said).to_have_text("Ask back What exactly do you mean?")
        expect(page.get_by_text("two standard deviations to either side")).to_have_count(1)
        rows = page.locator(".choices.rows a").all_inner_texts()
        assert len(rows) == len(decision.readings)
        assert all(map(str.startswith, rows, [one.title for one in decision.readings]))


def test_all_views_work_by_keyboard_alone(page, index):
    give_labels(index)

    def focused():
        return page.evaluate(
            "(({ name, id, tagName, textContent }) => name || id || "
            "(tagName === 'SUMMARY' ? tagName : textContent))(document.activeElement)"
        )

    def tab_to(wanted, most=60):
        for _ in range(most):
            page.keyboard.press("Tab")
            if focused() == wanted:
                return
        raise AssertionError(f"no way to {wanted}, at {focused()}")

    page.wait_for_selector("[name=question]:focus")
    page.keyboard.type("keep the honey dry")
    page.keyboard.press("Enter")
    page.wait_for_selector(".hits li")
    tab_to("SUMMARY")
    page.keyboard.press("Enter")
    page.reload()
    page.wait_for_selector(".hits li")
    page.keyboard.press("Tab")
    assert focused() == "Skip to the content"
    tab_to("Tune")
    page.keyboard.press("Enter")
    tab_to("labelled")
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


def test_a_tab_is_asked_for_the_token_once(browser, index):
    token, asked = "a-token-of-more-than-16-letters", []
    with served(index, token=token) as address:
        page = browser.new_page()
        page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.accept(token)))
        for _ in range(2):
            page.goto(address)
            page.wait_for_selector("#facts dd", state="attached")
        assert asked == ["The server's token"]
        page.close()


def test_a_page_of_an_index_that_is_only_read_asks_and_changes_nothing(browser, index):
    with served(index, write=False) as address, opened(browser, address) as page:
        ask(page, "keep the honey dry")
        expect(page.locator(".hits li").first).to_be_visible()
        expect(page.locator("#answer button")).to_have_count(0)
        expect(page.locator("nav a[data-view='tune']")).to_be_hidden()


_CLIPPED = (DATA / "clipped.js").read_text()

LONG = "which of the many matters of the hive and of the anchor begins the longest question here?"


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_views_fit_and_break_no_rule_of_accessibility_in_both_themes(
    browser, index, width, theme, tmp_path
):
    wide = Retriever.load(index)
    cells = " | ".join(f"heading{n}" for n in range(9))
    text = f"| {cells} |\n{'|---' * 9}|\n| {cells} |\n\nSee `a/very/long/path/{'x' * 60}`."
    wide.add([f"The honey table\n\n{text}"], ["table"], [{"source": "table.md"}])
    wide.save(index)
    own = {"honey in the hive?": ["bees-0"], LONG: [], f"{LONG[:-1]} of all?": ["bees-1"]}
    give_labels(index, own | LABELS)
    with served(index) as address, opened(browser, address, width=width, theme=theme) as page:
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        views = {"first": "ask"} | {view: view for view in VIEWS}
        for other in (theme, {"light": "dark", "dark": "light"}[theme]):
            if other != theme:
                page.click("#theme")
            assert page.evaluate("document.documentElement.dataset.theme") == other
            for name, view in views.items():
                if other == theme:
                    _fill(page, name)
                go(page, view)
                page.screenshot(path=tmp_path / f"{name}-{width}-{other}.png", full_page=True)
                assert violations(page) == []
                assert page.evaluate(_CLIPPED) == [], (name, width)
                assert page.evaluate("document.documentElement.scrollWidth") <= width


def _fill(page, name):
    """Have a view show all that it can."""
    if name == "first":
        page.wait_for_selector(".choices")
    elif name == "ask":
        ask(page, LONG)
        ask(page, "and the honey table?")
        for summary in page.locator(".hits summary").all():
            summary.click()
    elif name == "tune":
        tune(page)
        slide(page, 50)
        for summary in page.locator("#tuned summary").all():
            summary.click()
    else:
        go(page, "index")
        expect(page.locator("#facts dd").first).to_be_visible()


@pytest.mark.parametrize("width", [1280, 390])
def test_paths_of_the_service_are_tried_on_its_page(browser, index, width):
    token = "a-token-of-more-than-16-letters"
    with served(index, token) as address:
        page = browser.new_page(viewport={"width": width, "height": 800})
        said = []
        page.on("request", lambda request: said.append(request.url))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"{address}docs")
        expect(page.locator(".message")).to_contain_text("Give the server's token")
        page.fill("[name=token]", token)
        page.click("text=Use")
        ask = page.locator("section", has=page.locator("h2:text-is('POST /ask')"))
        ask.locator("textarea").fill('{"question": "keep the honey dry"}')
        ask.locator("button").click()
        expect(ask.locator(".result")).to_contain_text('"decision"')
        assert ask.locator(".result").inner_text().startswith("200")
        assert violations(page) == []
        assert page.evaluate(_CLIPPED) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.close()
    assert [text for text in said if not text.startswith((address, "data:"))] == []
