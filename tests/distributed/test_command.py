"""`uec-rag index --backend ray`, on the cluster that is there."""

import json

import pytest
from tests.stores.postgres_server import new_place
from typer.testing import CliRunner

from tests.cli.conftest import make_model
from tests.helpers import pairs, passages
from uec_rag import UEC, Retriever
from uec_rag.cli import app
from uec_rag.stores.urls import open_store

pytestmark = pytest.mark.slow


def test_rows_are_encoded_on_the_cluster_and_kept_where_told(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("UEC_CACHE", str(tmp_path / "cache"))
    model = make_model(tmp_path / "model", seed=0, width=16)
    UEC([str(model)]).fit(pairs(60)).save(tmp_path / "fitted")
    texts = list(dict.fromkeys(passages(300)))
    rows = "".join(json.dumps({"text": text, "n": n}) + "\n" for n, text in enumerate(texts))
    (tmp_path / "rows.jsonl").write_text(rows)
    place = new_place()
    arguments = ["index", tmp_path / "rows.jsonl", "--backend", "ray", "--out", tmp_path / "idx"]
    arguments += ["--uec", tmp_path / "fitted", "--store", place, "--json"]
    told = []
    for _ in range(2):
        result = CliRunner().invoke(app, [*map(str, arguments)])
        assert result.exit_code == 0, result.output
        told.append(json.loads(result.stdout))
    assert [one["written"] for one in told] == [len(texts), 0]
    index = Retriever.load(tmp_path / "idx", store=open_store(place))
    assert len(index) == len(texts)
    index.store.close()
    refused = CliRunner().invoke(app, [*map(str, arguments[:6])])
    assert "expected --uec" in refused.stderr
