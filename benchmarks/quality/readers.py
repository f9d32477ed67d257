"""What readers of documents make of a folder, and how much navigation they take for content.

    python -m benchmarks.quality.readers FOLDER
    python -m benchmarks.quality.readers SITES --sites
    python -m benchmarks.quality.readers REPOSITORIES --repositories

Ours, and MarkItDown where it is installed (`pip install "markitdown[pdf,docx,pptx,xlsx]"`), whose
Markdown is cut at its headings as ours is. The first prints passages, headings, seconds, words run
together (those of more than 25 letters in the passages of PDF files, next to none of which there
are in English), and the questions that can be made of the passages without labels.

With --sites the folder holds a folder of HTML pages for each generator in `CONTENT`, and the table
says which share of the words of a page's content a reader keeps, and which share of all other
words; also of trafilatura and readability-lxml where they are installed.

With --repositories the folder holds a folder of documentation for each key of `REPOSITORIES`, as
copied from there, and the table says which share of the words of the pages that a site makes of
it (`benchmarks.quality.rendered`) are in passages, for each kind and where most are missing.
"""

from __future__ import annotations

import io
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from bs4 import BeautifulSoup

from benchmarks.quality.rendered import markdown_page, rst_page
from benchmarks.tables import print_table
from uec_rag.documents import passages_of
from uec_rag.documents.document import Document, Section, body_of, cut
from uec_rag.documents.folder import list_files
from uec_rag.documents.questions import make_questions
from uec_rag.documents.readers import READERS

Reader = Callable[[Path], list[Section]]


def sections_of(suffix: str, data: bytes) -> list[Section]:
    """What our reader of a format makes of a file."""
    return [*cut(READERS[suffix].read(data))[1]]


def markitdown() -> Reader | None:
    """MarkItDown's, or None where it is not installed."""
    try:
        from markitdown import MarkItDown
    except ImportError:
        return None
    converter = MarkItDown(enable_plugins=False)

    def read(path: Path) -> list[Section]:
        return sections_of(".md", converter.convert(path).text_content.encode())

    return read


CONTENT = {
    "asciidoc": ("#header h1, #content", "#toc"),
    "docbook": ("body", ".navheader, .navfooter, .toc"),
    "docusaurus": (".theme-doc-markdown", ""),
    "doxygen": ("div.headertitle, div.contents", ".dynheader"),
    "javadoc": ("main", ""),
    "man2html": ("body", ""),
    "mdbook": ("main", ""),
    "mkdocs": ("div[role=main]", ""),
    "mkdocs-material": ("article.md-content__inner", ""),
    "nodejs": ("#apicontent", "button"),
    "rustdoc": ("#main-content", ".out-of-band, .src, button"),
    "sphinx": ("div.body", ".contents"),
    "sphinx-rtd": ("div[role=main], div.body", ".contents"),
    "wikipedia": (
        "#firstHeading, #mw-content-text",
        "#toc, .navbox, .mw-editsection, .mw-jump, .printfooter, .vertical-navbox, .noprint",
    ),
}
"""Generator -> what holds the content of its pages, and what in there is none; read by hand."""


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


def content_words(kind: str, markup: str) -> tuple[Counter[str], Counter[str]]:
    """Words of a page's content, and all its others."""
    soup = BeautifulSoup(markup, "html.parser")
    aside = "script, style, noscript, template, svg, title, a.headerlink, a.hash-link, a.mark"
    for tag in soup.select(aside):
        tag.decompose()
    body = soup.body or soup
    everything = _words(body.get_text(" "))
    inside, outside = CONTENT[kind]
    if kind == "man2html":  # it has no marks but the table of contents at the end
        text = body.get_text(" ")
        content = _words(text[text.find("NAME") : text.rfind("Index")])
        return content, everything - content
    for tag in soup.select(outside) if outside else []:
        tag.decompose()
    content = Counter[str]()
    for tag in soup.select(inside):
        content += _words(tag.get_text(" "))
    return content, everything - content


def _ours(markup: str) -> str:
    title, sections = cut(READERS[".html"].read(markup.encode()))
    return "\n".join([title, *(f"{part.heading}\n{part.text}" for part in sections)])


def _trafilatura(markup: str) -> str:
    from trafilatura import extract

    return extract(markup, favor_recall=True, include_comments=False) or ""


def _readability(markup: str) -> str:
    from readability import Document as Readable

    return BeautifulSoup(Readable(markup).summary(), "html.parser").get_text(" ")


def _markitdown(markup: str) -> str:
    from markitdown import MarkItDown

    page = io.BytesIO(markup.encode())
    return (
        MarkItDown(enable_plugins=False).convert_stream(page, file_extension=".html").text_content
    )


PAGE_READERS = {
    "ours": ("bs4", _ours),
    "trafilatura": ("trafilatura", _trafilatura),
    "readability": ("readability", _readability),
    "MarkItDown": ("markitdown", _markitdown),
}
"""Name -> the module it needs, and what it takes for the text of a page."""


def compare_on_sites(sites: Path) -> None:
    """Print the table of content kept and of what else is kept."""
    readers = {name: read for name, (module, read) in PAGE_READERS.items() if find_spec(module)}
    rows = []
    for folder in sorted(path for path in sites.iterdir() if path.name in CONTENT):
        pages = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.html"))]
        found = [content_words(folder.name, markup) for markup in pages]
        cells = []
        for read in readers.values():
            texts = [_words(read(markup)) for markup in pages]
            pairs = list(zip(texts, found, strict=True))
            kept = sum((text & content).total() for text, (content, _) in pairs)
            more = sum(((text - content) & other).total() for text, (content, other) in pairs)
            cells.append(f"{kept / sum(content.total() for content, _ in found):.1%}")
            cells.append(f"{more / sum(other.total() for _, other in found):.1%}")
        rows.append([folder.name, str(len(pages)), *cells])
    columns = [f"{name}: {what}" for name in readers for what in ("content", "other")]
    print_table("Words kept", ["generator", "pages", *columns], rows, markdown=True)


REPOSITORIES = {
    "rst": {
        "celery": "celery/celery: docs",
        "devguide": "python/devguide",
        "flask": "pallets/flask: docs",
        "numpy": "numpy/numpy: doc/source",
        "packaging": "pypa/packaging.python.org: source",
        "pip": "pypa/pip: docs/html",
        "pytest": "pytest-dev/pytest: doc/en",
        "readthedocs": "readthedocs/readthedocs.org: docs",
        "requests": "psf/requests: docs",
        "scrapy": "scrapy/scrapy: docs",
        "sphinx": "sphinx-doc/sphinx: doc",
        "sqlalchemy": "sqlalchemy/sqlalchemy: doc/build",
    },
    "markdown": {
        "cargo": "rust-lang/cargo: doc/book/src",
        "handbook": "basecamp/handbook",
        "kit": "sveltejs/kit: documentation",
        "rust-book": "rust-lang/book: src",
        "vite": "vitejs/vite: docs",
    },
    "mkdocs": {
        "fastapi": "fastapi/fastapi: docs/en",
        "httpx": "encode/httpx: docs",
        "knative": "knative/docs: docs",
        "mkdocs": "mkdocs/mkdocs: docs",
        "mkdocs-material": "squidfunk/mkdocs-material: docs",
        "pydantic": "pydantic/pydantic: docs",
        "uv": "astral-sh/uv: docs",
    },
    "jekyll": {
        "basically-basic": "mmistakes/jekyll-theme-basically-basic: docs",
        "jekyll": "jekyll/jekyll: docs/_docs",
        "just-the-docs": "just-the-docs/just-the-docs: docs",
        "opensource-guide": "github/opensource.guide: _articles",
    },
    "hugo": {
        "docsy": "google/docsy: docsy.dev/content/en",
        "etcd": "etcd-io/website: content/en",
        "flux": "fluxcd/website: content/en",
        "hugo": "gohugoio/hugoDocs: content/en",
        "kind": "kubernetes-sigs/kind: site/content",
        "redis": "redis/redis-doc: docs",
        "kueue": "kubernetes-sigs/kueue: site/content/en",
    },
    "mdx": {
        "astro": "withastro/docs: src/content/docs/en",
        "helm": "helm/helm-www: docs",
        "jellyfin": "jellyfin/jellyfin.org: docs",
        "jest": "jestjs/jest: docs",
        "react": "reactjs/react.dev: src/content",
        "redux": "reduxjs/redux: docs",
        "starlight": "withastro/starlight: docs/src/content/docs",
        "swr": "vercel/swr-site: content",
    },
}
"""Kind -> folder -> the repository on GitHub, and what of it was copied."""

_MOST_FILES = 60  # of a repository, evenly spread over their paths


def compare_on_repositories(folder: Path) -> None:
    """Print the table of the words of pages that are in passages."""
    rows = []
    for kind, repositories in REPOSITORIES.items():
        shares, words, kept = dict[str, float](), 0, 0
        for name in repositories:
            pages = [*_pages(kind, folder / name)]
            shown = sum(page.total() for page, _ in pages)
            found = sum((page & passages).total() for page, passages in pages)
            shares[name] = found / shown
            words, kept = words + shown, kept + found
        least = min(shares, key=shares.__getitem__)
        cells = (f"{kept / words:.4f}", f"{shares[least]:.4f} ({least})")
        rows.append([kind, str(len(shares)), f"{words:,}", *cells])
    columns = ["kind", "repositories", "words", "in passages", "least"]
    print_table("Words of pages", columns, rows, markdown=True)


def _pages(kind: str, folder: Path) -> Iterator[tuple[Counter[str], Counter[str]]]:
    """Words of the page made of each file, and those of its passages, with each heading once."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in (".rst", ".md", ".mdx"))
    paths = paths[:: max(1, len(paths) // _MOST_FILES)][:_MOST_FILES]
    names = {path.relative_to(folder).as_posix(): path for path in paths}
    with warnings.catch_warnings(action="ignore"):  # some hold no text but their title
        documents = {one.source: one for one in list_files(folder).read(names).documents}
    for name, path in names.items():
        source = path.read_text(encoding="utf-8")
        page = rst_page(source) if path.suffix == ".rst" else markdown_page(kind, source)
        texts = []
        if name in documents:
            texts = [documents[name].title, *{*documents[name].headings.values()}]
            texts += [body_of(passage) for passage in passages_of([documents[name]])]
        yield _bare_words(page), _bare_words("\n".join(texts))


def _bare_words(text: str) -> Counter[str]:
    """Words without the underscores that mark emphasis in Markdown."""
    return _words(text.replace("_", " "))


def main(
    folder: Annotated[Path, typer.Argument(help="With documents, or folders of pages, in it.")],
    sites: Annotated[bool, typer.Option(help="Compare on the pages of generators.")] = False,
    repositories: Annotated[bool, typer.Option(help="Compare with pages of sources.")] = False,
) -> None:
    """Print the table."""
    if repositories:
        compare_on_repositories(folder)
        return
    if sites:
        compare_on_sites(folder)
        return
    found: dict[str, Reader | None] = {
        "ours": lambda path: sections_of(path.suffix.lower(), path.read_bytes()),
        "MarkItDown": markitdown(),
    }
    rows = []
    for path in sorted(p for p in folder.iterdir() if p.suffix.lower() in READERS):
        for name, reader in found.items():
            if reader is None:
                continue
            start = time.process_time()
            sections = tuple(reader(path))
            seconds = time.process_time() - start
            passages = passages_of([Document(path.name, sections)])
            words = [w for p in passages for w in re.findall(r"[^\W\d_]{26,}", p.text)]
            numbers = (len(passages), len({part.heading for part in sections} - {""}))
            made = len(make_questions(passages, len(passages)).questions)
            cells = [*map(str, numbers), f"{seconds:.2f}", str(len(words)), str(made)]
            rows.append([path.name, name, *cells])
    columns = [
        "file",
        "reader",
        "passages",
        "headings",
        "seconds of CPU",
        "run together",
        "questions",
    ]
    print_table("Readers", columns, rows, markdown=True)


if __name__ == "__main__":
    typer.run(main)
