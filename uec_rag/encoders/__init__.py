"""Embedding models behind one protocol: from a folder, a hub, a package index, or a black box."""

from uec_rag.base.checks import check_texts
from uec_rag.encoders.base import Encoded, Encoder, LastLayer, LastLayers, Role, check_vectors
from uec_rag.encoders.black_box import BlackBoxEncoder
from uec_rag.encoders.bundled import EMBEDDED
from uec_rag.encoders.cache import CachedEncoder
from uec_rag.encoders.hub import Precision
from uec_rag.encoders.lexical import Lexical
from uec_rag.encoders.loading import EncoderLike, MemberLike, load_encoder, load_encoders
from uec_rag.encoders.onnx import Backend, ExportedEncoder
from uec_rag.encoders.parallel import ParallelEncoder
from uec_rag.encoders.sentence_transformer import SentenceTransformerEncoder
from uec_rag.encoders.sparse import LearnedSparse
from uec_rag.encoders.verifier import Verifier, VerifierLike, load_verifier

__all__ = [
    "EMBEDDED",
    "Backend",
    "BlackBoxEncoder",
    "CachedEncoder",
    "Encoded",
    "Encoder",
    "EncoderLike",
    "ExportedEncoder",
    "LastLayer",
    "LastLayers",
    "LearnedSparse",
    "Lexical",
    "MemberLike",
    "ParallelEncoder",
    "Precision",
    "Role",
    "SentenceTransformerEncoder",
    "Verifier",
    "VerifierLike",
    "check_texts",
    "check_vectors",
    "load_encoder",
    "load_encoders",
    "load_verifier",
]
