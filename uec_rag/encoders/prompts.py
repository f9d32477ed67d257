"""What to write before a query or a passage: the model's own configuration, or its family's."""

import re
from typing import TYPE_CHECKING

from uec_rag.encoders.base import Role

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer, SparseEncoder

_BGE_EN = "Represent this sentence for searching relevant passages: "
_BGE_ZH = "为这个句子生成表示以用于检索相关文章："  # noqa: RUF001

# (pattern in the name, query prompt, passage prompt), from the model cards; the first that matches.
# The instruction-tuned e5 models and bge-m3 are left out on purpose: theirs depend on the task.
_FAMILIES = (
    (r"(^|[^a-z0-9])e5-(small|base|large)(?!.*instruct)", "query: ", "passage: "),
    (r"bge-(small|base|large)-en", _BGE_EN, ""),
    (r"bge-(small|base|large)-zh", _BGE_ZH, ""),
    (r"arctic-embed-[a-z]+-v2", "query: ", ""),
    (r"arctic-embed", _BGE_EN, ""),
)


def family_prompts(name: str) -> dict[Role, str]:
    """Prompts of the model family that a hub name or folder belongs to.

    Examples
    --------
    >>> family_prompts("intfloat/multilingual-e5-small")
    {'query': 'query: ', 'passage': 'passage: '}
    >>> family_prompts("sentence-transformers/all-MiniLM-L6-v2")
    {'query': '', 'passage': ''}
    """
    for pattern, query, passage in _FAMILIES:
        if re.search(pattern, name.lower()):
            return {"query": query, "passage": passage}
    return {"query": "", "passage": ""}


def prompts_of(model: "SentenceTransformer | SparseEncoder", source: str) -> dict[Role, str]:
    """Prompts of a model: as configured, else as its family has them.

    sentence-transformers writes empty prompts into every model that is saved without any, so a
    configuration in which all are empty says nothing.

    Parameters
    ----------
    model
        The model with its configuration.
    source
        Hub name or folder it comes from; "" if unknown.
    """
    configured = {key: value for key, value in model.prompts.items() if value}
    default = configured.get(model.default_prompt_name or "", "")
    query = configured.get("query", default)
    passage = next(
        (configured[key] for key in ("document", "passage", "corpus") if key in configured), default
    )
    if query or passage:
        return {"query": query, "passage": passage}
    return family_prompts("/".join(source.replace("\\", "/").rstrip("/").split("/")[-2:]))
