"""Chat models of LangChain by their names."""

from __future__ import annotations

from typing import Any

from uec_rag.base.errors import require


def chat_model(name: str, option: str) -> Any:  # noqa: ANN401
    """Return the chat model that `init_chat_model` makes of a name, such as "openai:gpt-5-mini".

    `option`: what has the name, for messages.

    Raises
    ------
    ImportError
        If LangChain, or its package for the provider, is not installed.
    ValueError
        If the model cannot be made, as without a key.
    """
    require("agents", "langchain")
    from langchain.chat_models import init_chat_model

    try:
        return init_chat_model(name)
    except ImportError as error:
        raise ImportError(f"{option}: {error}") from None
    except Exception as error:  # of the provider's package
        problem = f"{type(error).__name__}: {str(error).strip():.200}"
        raise ValueError(
            f"{option}: expected a name for LangChain's init_chat_model, such as "
            f"'openai:gpt-5-mini', and the key of its service in the environment, got {name!r} "
            f"({problem})."
        ) from None
