"""Passages in PostgreSQL with pgvector."""

from uec_rag.stores.pgvector.store import PgVectorStore

__all__ = ["PgVectorStore"]
