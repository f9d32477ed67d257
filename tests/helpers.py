"""Small real encoders, and texts on which they tell right from wrong, but not always."""

import builtins
import csv
import json
import shutil
import sqlite3
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from uec_rag import Retriever
from uec_rag.base.files import DATABASE, ENSEMBLE
from uec_rag.base.gaussian import Gaussian
from uec_rag.confidence.decision import Criteria, Evidence, decide
from uec_rag.confidence.model import JUDGED
from uec_rag.encoders import Encoded
from uec_rag.encoders.base import check_vectors
from uec_rag.ensemble.ensemble_file import pack, unpack
from uec_rag.questions.phrasing import Phrasing
from uec_rag.retrieval.rankings import find
from uec_rag.stores.local.contents import sum_of

_SYLLABLES = ["ba", "de", "fi", "go", "lu", "ma", "ne", "pi", "ro", "su", "ta", "vo"]
WORDS = [a + b + c for a in _SYLLABLES for b in _SYLLABLES[:6] for c in _SYLLABLES[6:9]]


@cache
def _direction(word, dimension, seed):
    return np.random.default_rng([seed, zlib.crc32(word.encode())]).standard_normal(dimension)


def bag_of_words(dimension, name, seed=0):
    """A callable that sums a random direction per word: texts that share words are similar."""

    def embed(texts):
        sums = [sum(_direction(w, dimension, seed) for w in t.split()) for t in texts]
        return np.reshape(sums, (len(texts), dimension))

    embed.__name__ = name
    return embed


def noise(texts):
    """An encoder that knows nothing: a random direction per text."""
    return np.array([_direction(text, 24, 99) for text in texts])


def unit(vectors):
    """Rows of length one."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class LinearHead:
    """An encoder with a last layer of its own: features are not the embedding, gains are not 1."""

    def __init__(self, dimension=10, feature_dimension=18, name="head", seed=0):
        rng = np.random.default_rng(seed)
        self.name, self.revision, self.spec = name, f"{name}-{seed}", None
        self.dimension, self.feature_dimension = dimension, feature_dimension
        self.weight = rng.standard_normal((dimension, feature_dimension))
        self.gain = rng.uniform(0.5, 2.0, dimension).astype(np.float32)
        self._words = bag_of_words(feature_dimension, name, seed)

    def encode(self, texts, role):
        hidden = self._words(texts)
        raw = self.gain * (hidden @ self.weight.T)
        length = np.linalg.norm(raw, axis=1, keepdims=True)
        embedding = check_vectors(raw, rows=len(texts), encoder=self.name)
        return Encoded(embedding, (hidden / length).astype(np.float32))


def passages(count, seed=0):
    """Texts of 12 words, each about one of 8 topics."""
    rng = np.random.default_rng([7, seed])
    out = []
    for _ in range(count):
        topic = rng.integers(8) * 27
        out.append(" ".join(WORDS[topic + i] for i in rng.integers(0, 27, 12)))
    return out


def pairs(count=200, seed=0):
    """(query, passage) tuples: a query has three words of its passage and one of its own."""
    rng = np.random.default_rng([8, seed])
    out = []
    for passage in passages(count, seed):
        known = rng.choice(passage.split(), 3, replace=False)
        out.append((" ".join([*known, rng.choice(WORDS)]), passage))
    return out


AXE = Path(sys.prefix, "axe.min.js")
"""The rules of accessibility, which `make test-ui` installs beside the browser."""

SUBJECTS = ("Home loan", "Car loan", "Student loan", "Credit card", "Boat loan", "Bridge loan")
"""Titles of as many passages that answer `VAGUE` for one subject each."""

VAGUE = "repay it"
"""A question that does not say which of `SUBJECTS` is meant, for an ensemble with "bm25"."""


def namesakes():
    """Texts that answer `VAGUE`, one for each of `SUBJECTS`, and their metadata."""
    texts = [
        f"How to repay: you repay it in monthly instalments, {number} in all."
        for number in range(5, 5 + len(SUBJECTS))
    ]
    return texts, [{"title": subject, "source": f"{subject}.txt"} for subject in SUBJECTS]


def random_gaussian(rng, n, d, factors=None):
    """n Gaussians over d dimensions, with a variance of `factors` factors if given."""
    mean = rng.standard_normal((n, d))
    if factors is None:
        return Gaussian(mean, rng.gamma(1.0, 0.5, (n, d)))
    scales, profile = rng.gamma(1.0, 0.5, (n, factors)), rng.gamma(1.0, 0.5, (factors, d))
    return Gaussian.from_factors(mean, scales, profile)


def with_terms(gaussian, terms):
    """The same Gaussians with sparse blocks."""
    factors = gaussian.mean, gaussian.scales, gaussian.profile
    return Gaussian.from_factors(*factors, widths=gaussian.widths, terms=terms)


def index_of(uec, texts, ids=None, metadatas=None, store=None, **options):
    """An index of texts, which are p0, p1 and so on unless ids are given."""
    index = Retriever(uec, store, **options)
    index.add(texts, [f"p{i}" for i in range(len(texts))] if ids is None else ids, metadatas)
    return index


_OF_HITS = "score sigma2 relevance"
_OF_QUESTIONS = "confidence in_corpus underspecified decision reason reason_code search"
METADATA_KEYS = {f"uec_{name}" for name in f"{_OF_HITS} {_OF_QUESTIONS}".split()}
"""What a search adds to a document's or a node's metadata, besides the readings that there are."""

_MORE = "mu model_variance disagreement weights encoders"
DETAILS = METADATA_KEYS | {f"uec_{name}" for name in _MORE.split()}
"""What it adds where it is asked for details."""


@contextmanager
def made_up(path, name="made up"):
    """Yield the description of a copy of a saved ensemble, to be changed as if it were ours."""
    folder = path.with_name(name)
    shutil.copytree(path, folder, dirs_exist_ok=True)
    state, arrays = unpack((folder / ENSEMBLE).read_bytes())
    yield state
    (folder / ENSEMBLE).write_bytes(pack(state, arrays))


@contextmanager
def database_of(path):
    """Yield a connection to the database of a saved index, to be changed by others than us."""
    with closing(sqlite3.connect(path / DATABASE, isolation_level=None)) as connection:
        yield connection


def make_older(path, version=4):
    """Give an index the tables and the number of an older format."""
    with database_of(path) as database:
        database.execute("DROP TABLE segments")
        columns = "first INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL, scales TEXT"
        database.execute(f"CREATE TABLE segments ({columns}, scales_sha256 TEXT)")
        database.execute(f"PRAGMA user_version = {version}")


def change_setting(database, key, value):
    """Change a setting of an index as if it were ours."""
    database.execute(
        "UPDATE settings SET value = ?, sum = ? WHERE key = ?", [value, sum_of(key, value), key]
    )


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def served(folder, handler=Silent):
    """Serve the files of a folder by HTTP, with pages that list them; yields the address."""
    of_folder = partial(handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), of_folder) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


NUMERIC = ("scores", "mu", "sigma2", "relevance", "coefficients", "confidence")
"""The arrays of a search result."""


def empty_chroma():
    """Chroma's client in memory, emptied: a process has one, and only for equal settings."""
    import chromadb

    client = chromadb.EphemeralClient()
    for collection in client.list_collections():
        client.delete_collection(collection.name)
    return client


def assert_same_bits(one, other):
    """Two searches by one code in one memory found the same, to the last bit."""
    assert (one.ids, one.decisions) == (other.ids, other.decisions)
    for name in NUMERIC:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert_same_result(one, other)


def assert_same_result(one, other):
    """Two searches found the same, but for rounding, by which what is equally good changes places.

    Products of one row differ in their last bits by processor, and by where the row lies.
    """
    assert (one.queries, one.exact) == (other.queries, other.exact)
    assert_close(one.scores, other.scores)
    moved = np.zeros(one.scores.shape, dtype=bool)
    for row, (ids, others) in enumerate(zip(one.ids, other.ids, strict=True)):
        assert len(ids) == len(others)
        for place, (own, id_) in enumerate(zip(ids, others, strict=True)):
            if own != id_:
                moved[row, place] = True
                there = others.index(own) if own in others else len(others) - 1
                assert_close(one.scores[row, place], other.scores[row, there])
            else:
                assert one.passages[row][place] == other.passages[row][place]
    for name in NUMERIC:
        found, expected = getattr(one, name), getattr(other, name)
        if name in ("mu", "sigma2", "relevance"):
            found, expected = found[~moved], expected[~moved]
        assert_close(found, expected, name)
    for found, expected in zip(one.decisions, other.decisions, strict=True):
        assert (found.action, found.reason) == (expected.action, expected.reason)
        assert [one.title for one in found.readings] == [one.title for one in expected.readings]


def assert_close(found, expected, name=""):
    """Numbers agree to a millionth of the largest."""
    most = np.abs(expected).max(initial=0, where=np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * most, err_msg=name)


def assert_alike(one, other, rtol=1e-4, atol=1e-5):
    """Two searches found the same, but for rounding."""
    assert one.ids == other.ids
    for name in NUMERIC:
        found, expected = getattr(one, name), getattr(other, name)
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=name)


def decide_on(confidence, underspecified=0.0, readings=(), *, threshold=0.5, **evidence):
    """Decide on numbers, and on other evidence."""
    numbers = {"confidence": confidence, "underspecified": underspecified}
    return decide(Evidence(readings=readings, **numbers, **evidence), Criteria(threshold))


def labelled(texts, count, seed=0, unanswerable_rate=0.0):
    """Queries with the ids ("p" and the number of the text) that answer them; [] where none does.

    A query has one to six words of its text, so that some are easy, and one of its own; where
    nothing answers it all words are its own.
    """
    rng = np.random.default_rng([9, seed])
    queries, relevant = [], []
    for _ in range(count):
        number = int(rng.integers(len(texts)))
        answered = rng.random() >= unanswerable_rate
        source = texts[number].split() if answered else WORDS
        known = rng.choice(source, rng.integers(1, 7))
        queries.append(" ".join([*known, rng.choice(WORDS)]))
        relevant.append([f"p{number}"] if answered else [])
    return queries, relevant


def by_name(uec):
    """The encoders of an ensemble, to load it with."""
    return dict(zip(uec.names, uec.encoders, strict=True))


def load_index(path, uec, **options):
    """The index saved at a path, with the encoders of an ensemble."""
    return Retriever.load(path, encoders=by_name(uec), **options)


def rightness(result, relevant):
    """Whether each hit answers its query, shape (n, k)."""
    return np.array(
        [[id_ in wanted for id_ in row] for row, wanted in zip(result.ids, relevant, strict=True)]
    )


def found_by(index, questions, k=4):
    """What a search finds for each question on its way to a decision."""
    parts = index.uec.encode(questions, "query")
    return [*find(index._method(), index.store, [*map(Phrasing.of, questions)], parts, k)]


def agree(result):
    """The highest relevance, confidence, in_corpus and the sum of relevance are in this order.

    Confidence is that of the first `JUDGED` hits: the sum of fewer says nothing of it.
    """
    most, total = np.nanmax(result.relevance, axis=1), np.nansum(result.relevance, axis=1)
    assert (most <= result.confidence + 1e-6).all()
    assert (result.confidence <= result.in_corpus + 1e-5).all()
    if result.relevance.shape[1] >= JUDGED:
        assert (result.confidence <= total + 1e-5).all()
    assert not (np.diff(result.confidence_at_k, axis=1) < -1e-6).any()


def of_members(result, name):
    """What a search says of each member and hit, "similarities" or "counted", shape (n, K, k)."""
    return np.array(
        [
            np.transpose([[each[name] for each in p.encoders.values()] for p in one.hits])
            for one in result
        ]
    )


class Remembering:
    """A callable like `bag_of_words` that remembers every text it was given."""

    def __init__(self, dimension, name, seed=0):
        self.__name__, self.texts = name, []
        self._embed = bag_of_words(dimension, name, seed)

    def __call__(self, texts):
        self.texts.extend(texts)
        return self._embed(texts)


class Counting(LinearHead):
    """An encoder that counts how many texts it is given."""

    def __init__(self, **options):
        super().__init__(**options)
        self.count = 0

    def encode(self, texts, role):
        self.count += len(texts)
        return super().encode(texts, role)


def python(code, *arguments, **options):
    """Run code in a process of its own; what it said, and how it ended."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


@contextmanager
def beside(*bodies: Callable[[], object]) -> Iterator[threading.Event]:
    """Run each body over and over in a thread of its own while a block lasts, taking turns often.

    Each runs at least once, however soon the block ends. The event is set as soon as one of them
    fails; its failure is the block's.
    """
    stop, interval = threading.Event(), sys.getswitchinterval()

    def over_and_over(body):
        try:
            body()
            while not stop.is_set():
                body()
        finally:
            stop.set()

    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(len(bodies)) as pool:
            running = [pool.submit(over_and_over, body) for body in bodies]
            try:
                yield stop
            finally:
                stop.set()
    finally:
        sys.setswitchinterval(interval)
    for one in running:
        one.result()


DATA = Path(__file__).parent / "data"
"""Where rows lie that are specification: texts, and what is to be made of them."""


def rows_of(name):
    """The rows of a table of tests/data, as mappings."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def data_of(name):
    """What a JSON file of tests/data holds, without its notes: strings that begin with "//"."""

    def without_notes(rows):
        if isinstance(rows, list):
            return [row for row in rows if not (isinstance(row, str) and row.startswith("// "))]
        return rows

    held = json.loads((DATA / name).read_text(encoding="utf-8"))
    if isinstance(held, dict):
        return {key: without_notes(rows) for key, rows in held.items()}
    return without_notes(held)


def refused(function):
    """What a public function refuses: arguments, the error, and what it says of which of them."""
    rows = data_of("refused.json")[function]
    return [(given, getattr(builtins, error), said) for given, error, said in rows]


FORGED = dict.fromkeys(METADATA_KEYS, 99) | data_of("forged.json")
"""What a passage's metadata may claim that a search has found."""
