"""What questions beside passages bring, of an index beside its copy without them."""

import pytest

from tests.helpers import data_of, index_of
from uec_rag import UEC
from uec_rag.cli import app
from uec_rag.evaluation.evaluate import evaluate
from uec_rag.evaluation.other_words import is_in_other_words, with_passages
from uec_rag.evaluation.rates import estimate_rates
from uec_rag.stores.passage import Passage
from uec_rag.stores.qdrant import QdrantStore

ROWS = data_of("other_words.json")


TOPICS = ROWS["topics"]
FILLERS = [f"Rooms on floor {number} have beds by the window." for number in range(9)]
NAMES = ["stuff and things", "this and that"]


@pytest.fixture
def halls(tmp_path):
    """An index in a folder, of which four passages have two questions each."""
    texts = [text for text, _ in TOPICS.values()]
    metadatas = [
        {"source": f"{topic}.md", "questions": [question, f"{question}, please", *NAMES]}
        for topic, (_, question) in TOPICS.items()
    ]
    index = index_of(UEC(["bm25"]), texts, [*TOPICS], metadatas)
    index.add(FILLERS)
    index.save(tmp_path / "idx")
    return index


LABELS = {
    "may a girlfriend sleep here": {"visitors"},
    "must I pay for the room": {"rent"},
    "When is the rent due?": {"rent"},
    "who won the match": set(),
}


def test_questions_in_other_words_are_found_with_them_and_not_without(halls):
    told = evaluate(halls, LABELS)["other_words"]
    assert (told["questions"], told["hits"]) == (2, 4)
    assert told["with"] == {"found": 2, "handed_over": 2}
    assert told["without"]["found"] == 0
    assert halls.get(["rent"])[0].metadata["questions"][0] == TOPICS["rent"][1]


def test_without_such_questions_or_passages_nothing_is_compared(halls):
    assert evaluate(halls, {"When is the rent due?": {"rent"}})["other_words"] is None
    plain = index_of(UEC(["bm25"]), [text for text, _ in TOPICS.values()], [*TOPICS])
    assert evaluate(plain, LABELS)["other_words"] is None


def test_an_engine_is_not_copied():
    index = index_of(UEC([lambda texts: [[1.0, len(t)] for t in texts], "bm25"]), ["a", "b"])
    assert with_passages(index, []) is not None
    engine = QdrantStore(location=":memory:", collection="c")
    assert with_passages(index_of(index.uec, ["a", "b"], store=engine), []) is None


@pytest.mark.parametrize(("question", "is_so"), ROWS["shares of words"])
def test_a_question_is_in_other_words_if_the_text_lacks_most_of_its_content(question, is_so):
    pets = Passage("pets", "Animals are welcome in all rooms.", {"questions": ["may my cat stay"]})
    assert is_in_other_words(question, [pets]) == is_so


def test_rates_ask_what_was_written_of_an_index_that_lacks_it(halls):
    rates = estimate_rates(halls)
    told = rates["in_other_words"]
    assert told["questions"] == 4
    shares = [told[name]["share"] for name in ("answered_rightly", "handed_over")]
    assert sum(shares) == 1  # by the other question beside each
    assert rates["still_answered"]["of"] == (
        rates["left_out"]["questions"] + rates["changed"]["questions"]
    )
    one = [{"questions": [question]} for _, question in TOPICS.values()]
    texts = [text for text, _ in TOPICS.values()]
    lone = estimate_rates(index_of(UEC(["bm25"]), texts, metadatas=one))["in_other_words"]
    assert (lone["questions"], lone["refused"]) == (0, None)


def test_the_command_prints_both(halls, tmp_path):
    from typer.testing import CliRunner

    table = tmp_path / "questions.csv"
    rows = [f'"{text}",{" ".join(ids)}' for text, ids in LABELS.items()]
    table.write_text("\n".join(["query,relevant_ids", *rows]))
    run = CliRunner().invoke(app, ["evaluate", str(tmp_path / "idx"), str(table)])
    assert run.exit_code == 0, run.output
    assert "with questions beside passages" in run.stdout
    assert "These are 2 questions." in run.stdout
    run = CliRunner().invoke(app, ["evaluate", str(tmp_path / "idx")])
    assert "in other words" in run.stdout
