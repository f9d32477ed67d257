import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from mteb.abstasks.classification import AbsTaskClassification
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models import EncoderProtocol
from scipy.stats import spearmanr
from typer.testing import CliRunner

from benchmarks.paper.__main__ import app
from benchmarks.paper.mteb import UECMTEBEncoder, run_mteb
from benchmarks.paper.systems import pair_moments
from uec_rag import UEC
from uec_rag.base.similarity import probit, score

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["tomato", "garden", "bicycle", "engine", "violin", "harbour", "kitchen", "window"]
TEXTS = [f"the {a} of the {b}" for a in WORDS for b in WORDS if a != b]


def first_letters(texts):
    return np.array([[t.count(c) + 0.1 for c in LETTERS[:13]] for t in texts])


def last_letters(texts):
    return np.array([[t.count(c) + 0.1 for c in LETTERS[13:]] for t in texts])


@pytest.fixture(scope="module", params=["kron", "diag"])
def uec(request):
    pairs = [(f"what about {text}", text) for text in TEXTS]
    return UEC([first_letters, last_letters], structure=request.param, coefficients="uniform").fit(
        pairs
    )


def metadata(name, kind, score):
    return TaskMetadata(
        type=kind,
        name=name,
        main_score=score,
        description="letters",
        reference="https://example.org",
        dataset={"path": "none", "revision": "none"},
        category="t2t",
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        date=("2022-12-22", "2022-12-22"),
        domains=[],
        task_subtypes=[],
        license="cc-by-4.0",
        annotations_creators="derived",
        dialect=[],
        modalities=["text"],
        sample_creation="found",
        bibtex_citation="",
    )


class LetterSearch(AbsTaskRetrieval):
    metadata = metadata("LetterSearch", "Retrieval", "ndcg_at_10")

    def load_data(self, num_proc=None, **kwargs):
        texts = TEXTS[:20]
        split = RetrievalSplitData(
            queries=Dataset.from_list(
                [{"id": f"q{i}", "text": f"where is {t}"} for i, t in enumerate(texts)]
            ),
            corpus=Dataset.from_list(
                [{"id": f"d{i}", "text": t, "title": ""} for i, t in enumerate(texts)]
            ),
            relevant_docs={f"q{i}": {f"d{i}": 1} for i in range(len(texts))},
            top_ranked=None,
        )
        self.dataset = {"default": {"test": split}}
        self.data_loaded = True


class LetterSimilarity(AbsTaskSTS):
    metadata = metadata("LetterSimilarity", "STS", "spearman")
    min_score, max_score = 0, 1

    def load_data(self, num_proc=None, **kwargs):
        first, second = TEXTS[:30], TEXTS[5:35]
        gold = [len(set(a) & set(b)) / 26 for a, b in zip(first, second, strict=True)]
        rows = {"sentence1": first, "sentence2": second, "score": gold}
        self.dataset = DatasetDict({"test": Dataset.from_dict(rows)})
        self.data_loaded = True


class LetterClass(AbsTaskClassification):
    metadata = metadata("LetterClass", "Classification", "accuracy")
    n_experiments = 2

    def load_data(self, num_proc=None, **kwargs):
        rows = {"text": TEXTS, "label": [WORDS.index(t.split()[1]) for t in TEXTS]}
        data = Dataset.from_dict(rows)
        self.dataset = DatasetDict({"train": data, "test": data})
        self.data_loaded = True


def packed(uec, kind="STS", texts=TEXTS, **options):
    encoder = UECMTEBEncoder(uec)
    task = metadata("x", kind, "spearman")
    return encoder, encoder.encode([{"text": texts}], task_metadata=task, **options)


def test_it_is_an_encoder_by_mtebs_own_protocol(uec):
    assert isinstance(UECMTEBEncoder(uec), EncoderProtocol)


def test_similarities_of_packed_vectors_are_s_hat(uec):
    encoder, rows = packed(uec)
    g = uec.embed(TEXTS, "passage")
    np.testing.assert_allclose(
        encoder.similarity(rows, rows[:7]), score(g, g[:7], uec.fitted.beta), rtol=1e-5
    )
    expected = probit(*pair_moments(g[:9], g[9:18]), uec.fitted.beta)
    np.testing.assert_allclose(
        encoder.similarity_pairwise(rows[:9], rows[9:18]), expected, rtol=1e-5
    )


def test_variance_hardly_touches_the_cosine_of_packed_vectors(uec):
    _, rows = packed(uec)
    mean = uec.embed(TEXTS, "passage").mean

    def cosine(x):
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        return x @ x.T

    np.testing.assert_allclose(cosine(rows), cosine(mean), atol=1e-5)


def test_tasks_that_train_on_vectors_get_means_alone(uec):
    _, rows = packed(uec, kind="Classification")
    np.testing.assert_array_equal(rows, uec.embed(TEXTS, "passage").mean)


def test_tasks_of_mteb_run_on_it(uec, tmp_path):
    tasks = [LetterSearch(), LetterSimilarity(), LetterClass()]
    scores = run_mteb({"UEC": uec}, tasks, tmp_path)
    first, second = TEXTS[:30], TEXTS[5:35]
    g = uec.embed(first, "passage"), uec.embed(second, "passage")
    gold = [len(set(a) & set(b)) for a, b in zip(first, second, strict=True)]
    own = spearmanr(probit(*pair_moments(*g), uec.fitted.beta), gold).statistic
    assert scores["LetterSimilarity"]["UEC"] == pytest.approx(own, abs=1e-5)
    assert scores["LetterSearch"]["UEC"] > 0.5
    assert scores["LetterClass"]["UEC"] > 0.25  # twice what guessing gives


@pytest.mark.slow
def test_the_command_line_runs_tasks_of_mteb(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.paper.__main__.find_tasks", lambda names: [LetterSimilarity()])
    command = ["--quick", "--mteb", "x", "--model", "pypi:wordllama"]
    done = CliRunner().invoke(app, [*command, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    table = (tmp_path / "mteb.md").read_text()
    assert "| Task | wordllama | direct sum, uniform |" in table
    assert "| LetterSimilarity |" in table
