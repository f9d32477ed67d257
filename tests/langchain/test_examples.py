"""The examples, run on small encoders."""

import re

from langchain_core.language_models import FakeListChatModel

from examples import langchain_black_box, langchain_rag
from tests.helpers import bag_of_words, fitted_on_documentation

REPLY = "what the model says"


class TestRagChain:
    def test_runs_on_a_fitted_ensemble_over_real_documentation(self):
        retriever = langchain_rag.build_retriever(fitted_on_documentation(32, 48), passages=300)
        chain = langchain_rag.build_chain(retriever, FakeListChatModel(responses=[REPLY]))
        for question in langchain_rag.QUESTIONS:
            found = chain.invoke(question)
            assert len(found["documents"]) == 3
            assert all(document.metadata["source"] for document in found["documents"])
            modelled = found["decision"] in ("answer", "clarify")
            assert (found["reply"] == REPLY) == modelled
            assert found["reply"].startswith("I do not know") != modelled


def test_an_api_and_a_local_model_answer_together(monkeypatch, capsys):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    langchain_black_box.main(local=bag_of_words(48, "local"), passages=300)
    printed = capsys.readouterr().out
    assert printed.startswith("No OPENAI_API_KEY: letter counts stand in for the API.")
    counts = dict(re.findall(r"a cosine of (\S+) counts (\S+)", printed))
    assert counts.keys() == {"letter-triples", "local"}
    assert re.findall(r"^(\S+): slope .* held-out NLL", printed, re.M) == [*counts]
    assert printed.count("(variance") == 3
