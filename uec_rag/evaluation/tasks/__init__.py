"""The kinds of task a system is measured on, each with its usual metrics."""

from uec_rag.evaluation.tasks.base import Task, evaluate
from uec_rag.evaluation.tasks.bitext import BitextMining
from uec_rag.evaluation.tasks.classification import Classification
from uec_rag.evaluation.tasks.clustering import Clustering
from uec_rag.evaluation.tasks.reranking import Reranking
from uec_rag.evaluation.tasks.retrieval import Retrieval
from uec_rag.evaluation.tasks.sts import SemanticSimilarity

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
