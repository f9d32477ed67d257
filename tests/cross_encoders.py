"""A tiny CrossEncoder, and texts of which only those answer that hold every word of the query."""

import numpy as np

from tests.tiny_bert import save_bert

_SECOND = ("ma", "ne", "pi", "ro", "su", "ta", "vo", "ka")
WORDS = [a + b for a in ("ba", "de", "fi", "go", "lu") for b in _SECOND]
_LONG, _ASKED = 8, 2


def folder_of(path, labels=1, seed=0):
    """A random two-layer BERT with a classifier of pairs, saved as transformers does.

    Queries and keys of its attention have the same weights, so that a word looks at its like from
    the start: otherwise it would take far more steps to learn that.
    """

    def look_at_its_like(model):
        embeddings = model.bert.embeddings
        embeddings.position_embeddings.weight.zero_()
        embeddings.token_type_embeddings.weight.mul_(3)
        embeddings.word_embeddings.weight.normal_(0, 0.3)
        for layer in model.bert.encoder.layer:
            attention = layer.attention.self
            attention.query.weight.normal_(0, 0.3)
            attention.key.weight.copy_(attention.query.weight)

    return save_bert(
        path,
        WORDS,
        "BertForSequenceClassification",
        look_at_its_like,
        seed,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=24,
        num_labels=labels,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.1,
    )


def passages(count, seed=0):
    """Texts of eight words."""
    rng = np.random.default_rng([1, seed])
    return [" ".join(rng.choice(WORDS, _LONG)) for _ in range(count)]


def asked(texts, count, seed=0):
    """Queries of two words of a text, and the places of the texts that hold both."""
    rng = np.random.default_rng([2, seed])
    words = [set(text.split()) for text in texts]
    queries, relevant = [], []
    for _ in range(count):
        wanted = rng.choice(texts[rng.integers(len(texts))].split(), _ASKED, replace=False)
        queries.append(" ".join(wanted))
        relevant.append([place for place, own in enumerate(words) if set(wanted) <= own])
    return queries, relevant


def train(cross_encoder, texts, queries, relevant, steps=160):
    """Teach a CrossEncoder which of the texts answer which of the queries."""
    import torch

    rng = np.random.default_rng(3)
    words = [set(text.split()) for text in texts]
    shared = [[p for p, own in enumerate(words) if len(own & set(q.split())) == 1] for q in queries]
    optimiser = torch.optim.AdamW(cross_encoder.parameters(), lr=3e-3)
    loss = torch.nn.BCEWithLogitsLoss()
    cross_encoder.train()
    for _ in range(steps):
        rows = rng.integers(len(queries), size=64)
        right = rng.random(64) < 0.5
        places = [
            rng.choice(relevant[row] if yes else shared[row] if rng.random() < 0.7 else len(texts))
            for row, yes in zip(rows, right, strict=True)
        ]
        labels = [float(place in relevant[row]) for row, place in zip(rows, places, strict=True)]
        batch = [[queries[row], texts[place]] for row, place in zip(rows, places, strict=True)]
        logits = cross_encoder(cross_encoder.preprocess(batch))["scores"][:, 0]
        optimiser.zero_grad()
        loss(logits, torch.tensor(labels)).backward()
        optimiser.step()
    cross_encoder.eval()
