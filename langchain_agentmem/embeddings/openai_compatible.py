"""Provider `openai_compatible`: any service that speaks OpenAI's embeddings API."""

import os
from contextvars import copy_context
from typing import Any

from langchain_core.embeddings import Embeddings
from pydantic import SecretStr

from langchain_agentmem.embeddings.settings import EmbeddingSettings
from langchain_agentmem.errors import EmbeddingError
from langchain_agentmem.workers import Workers

OPENAI_MODEL = "text-embedding-3-small"
MOST_AT_ONCE = 16


class ServiceEmbeddings(Embeddings):
    """A service, asked with LangChain's client and a limit on the whole of each request.

    The client's own limit starts anew with every byte that arrives, and it takes vectors in the
    order in which they come, not in the order that they state.

    Args:
        client: LangChain's client.
        seconds: How long one request may take.
    """

    def __init__(self, client: Any, seconds: float) -> None:
        """Ask nothing yet."""
        client.client = _InOrder(client.client)
        self._client = client
        self._seconds = seconds
        self._workers = Workers(MOST_AT_ONCE, "agentmem-embedding")

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts.

        Raises:
            TimeoutError: The whole answer was not there in time.
            Exception: Whatever the client raises.
        """
        asked = self._workers.submit(copy_context().run, self._client.embed_documents, texts)
        try:
            vectors: list[list[float]] = asked.result(self._seconds)
        except TimeoutError:
            asked.cancel()  # one that still waits in line is not sent for nobody
            raise
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Embed one query. See `embed_documents`."""
        return self.embed_documents([text])[0]


class _InOrder:
    """The OpenAI client's embeddings, each answer in the order of the texts."""

    def __init__(self, embeddings: Any) -> None:
        self._embeddings = embeddings

    def create(self, **arguments: Any) -> Any:
        answer = self._embeddings.create(**arguments)
        stated = [vector.index for vector in answer.data]
        # Some servers number every vector 0: they answer in order.
        if len(set(stated)) > 1:
            if len(set(stated)) < len(stated):
                msg = "it answered several vectors for one text"
                raise EmbeddingError(msg)
            answer.data.sort(key=lambda vector: vector.index)
        return answer


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


def _check_address(base_url: str) -> None:
    import httpx

    if not base_url.lower().startswith(("http://", "https://")):
        msg = "embedding is off: embedding.base_url must begin with http:// or https://"
        raise EmbeddingError(msg)
    try:
        httpx.URL(base_url)
    except httpx.InvalidURL:  # whose text may repeat a password in it
        msg = "embedding is off: embedding.base_url is no address, such as http://localhost:8080/v1"
        raise EmbeddingError(msg) from None


def openai_compatible_embeddings(settings: EmbeddingSettings) -> Embeddings:
    """Make the LangChain client for a service.

    Raises:
        EmbeddingError: A setting is missing or unusable; it is named.
    """
    model = model_name(settings)
    if settings.base_url:
        _check_address(settings.base_url)
    key = settings.api_key
    if key is None and settings.base_url:
        key = SecretStr("none")  # many local servers want none, and the client insists on one
    if key is None:
        key = SecretStr(os.environ.get("OPENAI_API_KEY", ""))
    key = SecretStr(key.get_secret_value().strip())  # a file that it was read from ends in a line
    if not key.get_secret_value():
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
    return ServiceEmbeddings(OpenAIEmbeddings(**options), settings.timeout)
