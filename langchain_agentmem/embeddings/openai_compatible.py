"""Provider `openai_compatible`: any service that speaks OpenAI's embeddings API."""

import os
from typing import Any

from langchain_core.embeddings import Embeddings
from pydantic import SecretStr

from langchain_agentmem.embeddings.settings import EmbeddingSettings
from langchain_agentmem.errors import EmbeddingError

OPENAI_MODEL = "text-embedding-3-small"


def model_name(settings: EmbeddingSettings) -> str:
    """Return the name of the model.

    Raises:
        EmbeddingError: A setting is missing; it is named.
    """
    if settings.model:
        return settings.model
    if settings.base_url:
        msg = "embedding is off: set embedding.model, the name of the model at embedding.base_url"
        raise EmbeddingError(msg)
    return OPENAI_MODEL


def openai_compatible_embeddings(settings: EmbeddingSettings) -> Embeddings:
    """Make the LangChain client for a service.

    Raises:
        EmbeddingError: A setting is missing; it is named.
    """
    model = model_name(settings)
    key = settings.api_key
    if key is None and settings.base_url:
        key = SecretStr("none")  # many local servers want none, and the client insists on one
    if key is None:
        key = SecretStr(os.environ.get("OPENAI_API_KEY", ""))
    if not key.get_secret_value().strip():
        msg = "embedding is off: set embedding.api_key, or embedding.base_url of a server of yours"
        raise EmbeddingError(msg)

    from langchain_openai import OpenAIEmbeddings

    options: dict[str, Any] = {
        "model": model,
        "base_url": settings.base_url or None,
        "api_key": key,
        "dimensions": settings.dimensions,
        "timeout": settings.timeout,
        "chunk_size": settings.batch_size,
        "max_retries": 0,
        # Compatible servers take strings, not token arrays; and no tokenizer is downloaded.
        "check_embedding_ctx_length": False,
        "model_kwargs": {"encoding_format": "float"},
    }
    return OpenAIEmbeddings(**options)
