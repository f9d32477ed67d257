"""A corpus for demonstrations: the documentation of Python's own standard library."""

import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from types import ModuleType

from uec_rag.documents import passages_of
from uec_rag.documents.document import Document, Section

CHUNK_SIZE = 500
"""The maximum length of a passage in the demo, in characters."""

# The most common come first, since a smaller corpus is the beginning of a larger one. All are safe
# to import, in all versions of Python.
_MODULES = """
    builtins textwrap subprocess bisect pathlib re json datetime collections itertools functools
    os os.path shutil glob tempfile csv string random math statistics decimal fractions heapq
    copy contextlib dataclasses enum typing logging argparse threading concurrent.futures
    asyncio queue socket ssl urllib.request urllib.parse http.client http.server email.message
    email.utils sqlite3 pickle shelve zipfile tarfile gzip bz2 lzma zlib hashlib hmac secrets
    base64 binascii io time calendar zoneinfo sys inspect traceback warnings unittest
    unittest.mock doctest pdb timeit tracemalloc gc weakref types operator abc ast dis importlib
    importlib.resources importlib.metadata importlib.util pkgutil runpy configparser tomllib
    plistlib mimetypes html html.parser xml.etree.ElementTree xml.dom.minidom webbrowser smtplib
"""

_SHORTEST_DOCSTRING = 120  # characters; a shorter one says little more than the name
_UNDERLINED = re.compile(r"^(\S.*)\n([*=\-^~\"])\2{2,}$", re.MULTILINE)


def gather_corpus(passages: int) -> list[Document]:
    """Collect documentation of the running Python.

    A quarter is from the language reference, the rest are docstrings.

    Parameters
    ----------
    passages : int
        Number of passages of `CHUNK_SIZE` to collect, 3,000 at most. Documents are whole, so that
        there may be a few more.

    Returns
    -------
    list of Document
        The same documents on each call. Sources are dotted names ("textwrap.dedent"), or
        "topics/with" for the output of `help("with")`.
    """
    topics = passages // 4
    return [*_first(_topics(), topics), *_first(_docstrings(), passages - topics)]


def _first(documents: Iterable[Document], passages: int) -> Iterator[Document]:
    for document in documents:
        if passages <= 0:
            return
        passages -= len(passages_of([document], size=CHUNK_SIZE))
        yield document


def _topics() -> Iterator[Document]:
    """Yield the topics of `help` from the language reference, shortest first."""
    from pydoc_data.topics import topics

    bodies = set()
    for name, text in sorted(topics.items(), key=lambda topic: (len(topic[1]), topic[0])):
        before, *parts = _UNDERLINED.split(text)
        sections = [("", before), *zip(parts[::3], parts[2::3], strict=True)]
        # The long topics repeat the short ones.
        stripped = ((heading, body.strip()) for heading, body in sections)
        texts = [(heading, body) for heading, body in stripped if body and body not in bodies]
        bodies |= {body for _, body in texts}
        if texts:
            pieces = (Section((heading,) if heading else (), body) for heading, body in texts)
            yield Document(f"topics/{name}", tuple(pieces))


def _docstrings() -> Iterator[Document]:
    """Yield each docstring once, under the first public name that has it."""
    names, texts = set[str](), set[str]()
    for module_name in _MODULES.split():
        for name, value in _members(module_name, importlib.import_module(module_name)):
            doc = None if name in names else getattr(value, "__doc__", None)
            text = inspect.cleandoc(doc) if isinstance(doc, str) else ""
            if len(text) >= _SHORTEST_DOCSTRING and text not in texts:
                texts.add(text)
                yield Document(name, (Section((name,), text),))
            names.add(name)


def _members(module_name: str, module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield a module, its public functions, its classes and their methods, each with its name."""
    yield module_name, module
    homes = (module_name, f"_{module_name}")  # a C implementation has an underscore
    public = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) in homes
    ]
    for name in public:
        value = getattr(module, name, None)
        if inspect.isclass(value) or inspect.isroutine(value):
            yield f"{module_name}.{name}", value
        for method_name, method in vars(value).items() if inspect.isclass(value) else ():
            if not method_name.startswith("_"):
                yield f"{module_name}.{name}.{method_name}", method
