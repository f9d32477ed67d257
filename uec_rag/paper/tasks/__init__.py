"""The kinds of task a system is measured on, each with its usual metrics."""

from uec_rag.paper.tasks.base import Task, evaluate
from uec_rag.paper.tasks.bitext import BitextMining
from uec_rag.paper.tasks.classification import Classification
from uec_rag.paper.tasks.clustering import Clustering
from uec_rag.paper.tasks.reranking import Reranking
from uec_rag.paper.tasks.retrieval import Retrieval
from uec_rag.paper.tasks.sts import SemanticSimilarity

__all__ = [
    "BitextMining",
    "Classification",
    "Clustering",
    "Reranking",
    "Retrieval",
    "SemanticSimilarity",
    "Task",
    "evaluate",
]
