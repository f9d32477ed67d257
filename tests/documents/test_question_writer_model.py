"""The whole way of writing questions with a real language model, whatever its quality."""

import pytest

from tests.gates.test_local_model import SMALL
from tests.helpers import index_of
from uec_rag import UEC
from uec_rag.documents import write_questions
from uec_rag.encoders.packages import package_folder

TEXTS = [
    "The mill opens at nine and closes at five. On Sundays it stays closed.",
    "A lost key is replaced for 25 euros. Ask the porter, and bring your card.",
]
PROMPT = """\
{passages}

Write {count} question that passage 1 answers. Reply like this, with another question:
{{"passage": 1, "questions": ["What does it cost?"], "names": []}}"""

BEGINNING = '{"passage": 1, "questions": ["'  # of each reply, as it leaves it out


class LanguageModel:
    """A function from a prompt to what a small language model replies."""

    def __init__(self, folder):
        from transformers import AutoModelForCausalLM, AutoTokenizer

        file = "model.gguf"
        self.tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
        self.model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file)
        self.replies = []

    def __call__(self, prompt):
        import torch

        chat = [{"role": "user", "content": prompt}]
        text = self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        ids = self.tokenizer(f"{text}{BEGINNING}", return_tensors="pt")
        with torch.inference_mode():
            whole = self.model.generate(**ids, max_new_tokens=60, do_sample=False)
        rest = self.tokenizer.decode(whole[0, ids.input_ids.shape[1] :], skip_special_tokens=True)
        self.replies.append(f"{BEGINNING}{rest}")
        return self.replies[-1]


@pytest.mark.slow
def test_a_small_language_model_writes_and_what_it_writes_is_searched(tmp_path):
    model = LanguageModel(package_folder(SMALL))
    written = [
        write_questions([text], model, 1, prompt=PROMPT, keep=tmp_path / "kept") for text in TEXTS
    ]
    assert sum(one.calls for one in written) == len(model.replies)
    assert not any(one.failure or one.unasked for one in written)
    assert all(bool(one[0]) != bool(one.left_out) for one in written)
    assert sum(bool(one[0]) for one in written) > 0, model.replies
    again = write_questions(TEXTS, model, 1, prompt=PROMPT, keep=tmp_path / "kept")
    assert (again.calls, [*again]) == (0, [one[0] for one in written])
    index = index_of(UEC(["bm25"]), TEXTS, metadatas=[{"questions": lines} for lines in again])
    row, question = next((row, lines[0]) for row, lines in enumerate(again) if lines)
    assert index.search([question])[0].ids[0] == f"p{row}"
