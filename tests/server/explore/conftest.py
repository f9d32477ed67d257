"""What the explorer is tried on: a fitted ensemble of two, four topics, and passages to fear."""

import warnings
from contextlib import closing

import pytest

from tests.cli.conftest import TOPICS, make_model
from tests.server.conftest import ESCAPES, SCRIPT
from uec_rag import UEC, Retriever
from uec_rag.index.save import open_home
from uec_rag.index.saved_labels import write_label

QUESTIONS = [
    (f"{start} {word} {other}?", f"{topic}-{place}")
    for topic, inner in TOPICS.items()
    for place, word in enumerate(inner)
    for other in ("begins", "dry", "matter", "keeps")
    for start in ("what of", "where is")
]


LABELS = {question: {id_} for question, id_ in QUESTIONS} | {"who wrote hamlet?": (), "why?": ()}


def give_labels(folder, labels=LABELS):
    """Label questions of a saved index."""
    with closing(open_home(folder, read_only=False)) as home, home.changing():
        for question, ids in labels.items():
            write_label(home, question, home.fingerprints([*ids]))


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    return make_topics(tmp_path_factory)


def make_topics(tmp_path_factory):
    """The folder of a saved index of four topics; not to be written to."""
    words = make_model(tmp_path_factory.mktemp("words"), seed=0, width=48)
    passages = {
        f"{topic}-{place}": (
            f"The {word} is what every matter of {topic} begins with. Whoever keeps the {word} dry "
            f"looks after {topic} all day."
        )
        for topic, inner in TOPICS.items()
        for place, word in enumerate(inner)
    }
    pairs = [(f"matter of {word}", passages[id_]) for word, id_ in QUESTIONS[::2]]
    passages |= {"script": SCRIPT, "escapes": ESCAPES}
    with warnings.catch_warnings(action="ignore"):  # small
        uec = UEC([str(words), "bm25"]).fit(pairs)
        retriever = Retriever(uec)
        sources = [{"source": f"{id_.partition('-')[0]}.md"} for id_ in passages]
        retriever.add([*passages.values()], [*passages], sources)
    folder = tmp_path_factory.mktemp("made") / "idx"
    retriever.save(folder)
    return folder
