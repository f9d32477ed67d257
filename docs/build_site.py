"""What the site has beside the guides: README, CONTRIBUTING, the API, and llms.txt.

Called by mkdocs; see mkdocs.yml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
TOP = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md"}  # pages that lie above docs/
ROOMS = {
    "uec_rag": "The main names",
    "uec_rag.langchain": "LangChain",
    "uec_rag.llama_index": "LlamaIndex",
    "uec_rag.retrieval": "Retrieval",
    "uec_rag.confidence": "Confidence",
    "uec_rag.encoders": "Encoders",
    "uec_rag.stores": "Stores",
    "uec_rag.documents": "Documents",
}
# What the guides import from a module of its own.
IMPORTED = re.compile(r"^from (uec_rag\.[\w.]+) import (.+)$", re.MULTILINE)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are made, and list measurements and API in the navigation."""
    measured = sorted(
        f.src_uri for f in files if re.fullmatch(r"measurements/\w[^/]*\.md", f.src_uri)
    )
    first = "measurements/README.md"
    top = {page: (ROOT / name).read_text(encoding="utf-8") for page, name in TOP.items()}
    pages = top | dict(api())
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    for entry in config.nav or []:
        for part in entry.get("Reference", []):
            if "Python" in part:
                part["Python"] = [path for path in pages if path.startswith("api/")]
            if "Measurements" in part:
                part["Measurements"] = [first, *(page for page in measured if page != first)]
    return files


def api() -> Iterator[tuple[str, str]]:
    """A page for each room: its public names, and those that guides import from its modules."""
    guides = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    named = {
        (module, name.strip().partition(" as ")[0])
        for guide in guides
        for module, names in IMPORTED.findall(guide.read_text(encoding="utf-8"))
        for name in names.strip("()").split(",")
        if name.strip()
    }
    shown = set[str]()
    for room, title in ROOMS.items():
        public = [name for name in import_module(room).__all__ if not name.startswith("__")]
        lines = [f"# {title}", "", import_module(room).__doc__ or "", ""]
        own = {(room, name) for name in public}
        if room != "uec_rag":
            own |= {(m, name) for m, name in named if m == room or m.startswith(f"{room}.")}
        for module, name in sorted(own, key=lambda pair: pair[1].lower()):
            path = _path(module, name)
            if path not in shown:
                shown.add(path)
                lines += [f"::: {path}", ""]
        yield f"api/{room.rpartition('.')[2]}.md", "\n".join(lines)


def _path(module: str, name: str) -> str:
    """Where a name is defined: from there alone its docstring is read."""
    value: Any = getattr(import_module(module), name)
    home = getattr(value, "__module__", None)
    return f"{home if home and home.startswith('uec_rag') else module}.{name}"


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links that hold in the repository into those of the site."""
    home = f"{config.repo_url}/blob/main/"
    up = "../" * page.file.src_uri.count("/")
    if page.file.src_uri in TOP:
        markdown = re.sub(r"\]\((?!https?:|#|docs/)", rf"]({home}", markdown)
        markdown = markdown.replace("](docs/", "](")
    for ours, name in TOP.items():
        for link in (f"]({up}../{name}", f"]({home}{name}"):
            markdown = markdown.replace(link, f"]({up}{ours}")
    return markdown.replace(f"]({up}../", f"]({home}")


def on_post_build(*, config: MkDocsConfig) -> None:
    """Write llms.txt (https://llmstxt.org): what there is, for a model that looks for it."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for path in sorted((ROOT / "docs").glob("**/*.md")):
        name = path.relative_to(ROOT / "docs").as_posix()
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(
            f"- [{title}]({name.removesuffix('.md').removesuffix('README')}/)".replace("//", "/")
        )
    lines += [f"- [API: {title}](api/{room.rpartition('.')[2]}/)" for room, title in ROOMS.items()]
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
