"""Embedding models behind one protocol: from a folder, a hub, a package index, or a black box.

`base` has the protocol, `lexical` the words (`notations`: scripts, numbers, dates),
`sentence_transformer` and `black_box` the models; `loading` finds one by name.
"""

from uec_rag.encoders.base import Encoded, Encoder, Role
from uec_rag.encoders.black_box import BlackBoxEncoder
from uec_rag.encoders.cache import CachedEncoder
from uec_rag.encoders.lexical import Lexical
from uec_rag.encoders.loading import load_encoder
from uec_rag.encoders.sentence_transformer import SentenceTransformerEncoder

__all__ = [
    "BlackBoxEncoder",
    "CachedEncoder",
    "Encoded",
    "Encoder",
    "Lexical",
    "Role",
    "SentenceTransformerEncoder",
    "load_encoder",
]
