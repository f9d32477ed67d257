"""Encoders of hashed words, for runs that need several with revisions."""

import hashlib

import numpy as np

from uec_rag.encoders import Encoded

BAGS = {"one": 0.3, "two": 0.6, "three": 0.9}
"""Name -> how much noise."""


class Bag:
    """An encoder of hashed words, with noise of its own: similar texts share words."""

    spec = None

    def __init__(self, name, noise=0.3):
        self.name, self.revision, self.noise = name, f"bag of {name}", noise
        self.asked = 0
        self.resize(24)

    def resize(self, dimension):
        self.dimension = self.feature_dimension = dimension
        self.gain = np.ones(dimension, dtype=np.float32)

    def encode(self, texts, role):
        self.asked += len(texts)
        rows = [self._row(text) for text in texts]
        embedding = np.stack(rows) if rows else np.zeros((0, self.dimension))
        embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
        embedding = embedding.astype(np.float32)
        return Encoded(embedding, embedding)

    def _row(self, text):
        words = text.lower().strip("?.").split()
        return self.noise * self._vector(text) + sum(self._vector(word) for word in words)

    def _vector(self, word):
        seed = int(hashlib.sha256(f"{self.name} {word}".encode()).hexdigest()[:8], 16)
        return np.random.default_rng(seed).normal(size=self.dimension)
