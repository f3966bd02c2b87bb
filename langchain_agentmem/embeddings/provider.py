"""From what a user gives as `embedding` to an `Embedder`, or to the reason why there is none."""

from typing import Any

from langchain_core.embeddings import Embeddings
from pydantic import BaseModel

from langchain_agentmem.embeddings.embedder import Embedder
from langchain_agentmem.embeddings.settings import EmbeddingSettings, Fusion
from langchain_agentmem.errors import EmbeddingError, describe

# A small model beside good keywords is a second opinion: it moves what the keywords found, by how
# sure both are, and adds what they missed, rather than having half the say.
_STANDARD: tuple[Fusion, float] = ("rrf", 1.0)
_FUSION: dict[str, tuple[Fusion, float]] = {"chroma": ("scores", 0.33), "local": ("scores", 0.1)}

EmbeddingChoice = Embedder | Embeddings | EmbeddingSettings | str | None
"""A model (guarded already or not), settings, a provider's name, or None: the environment's."""

NOT_CONFIGURED = (
    "answered by keywords alone: no embedding provider is configured. Set embedding.provider "
    "(openai_compatible, chroma, or local after `pip install 'langchain-agentmem[local]'`)"
)

_NEVER_PART_OF_A_MODEL = ("key", "token", "secret", "password", "timeout", "retries", "chunk_size")


def make_embedder(choice: EmbeddingChoice) -> Embedder | None:
    """Make the embedder that a user chose.

    Returns:
        The embedder, or None where the choice is to have none.

    Raises:
        EmbeddingError: Something is missing; the message names the setting.
        TypeError: `choice` is none of the types that it may be.
        ValueError: `choice` names no provider.
    """
    if isinstance(choice, Embedder):
        return choice
    if isinstance(choice, Embeddings):
        return _from_object(choice)
    if isinstance(choice, str):
        choice = EmbeddingSettings(provider=choice)
    if choice is None:
        choice = EmbeddingSettings()
    if not isinstance(choice, EmbeddingSettings):
        msg = (
            "embedding must be a LangChain Embeddings object, EmbeddingSettings or the name of a "
            f"provider, not {type(choice).__name__}"
        )
        raise TypeError(msg)
    return _from_settings(choice)


def embedding_of_store(choice: EmbeddingChoice, store: Any) -> EmbeddingChoice:
    """Return the embedding to adopt a vector store with.

    That is the user's choice, else the store's own, else the one that the environment names, else
    none: the default embedding would make other vectors than those in the store.
    """
    if choice is not None:
        return choice
    own = getattr(store, "embeddings", None)
    if isinstance(own, Embeddings):
        return own
    settings = EmbeddingSettings()
    return settings if "provider" in settings.model_fields_set else "none"


def _from_settings(settings: EmbeddingSettings) -> Embedder | None:
    fusion, weight = _FUSION.get(settings.provider or "none", _STANDARD)
    options: dict[str, Any] = {
        "fusion": settings.fusion or fusion,
        "weight": settings.weight or weight,
        "batch_size": settings.batch_size,
        "max_input_chars": settings.max_input_chars,
        "cool_down": settings.cool_down,
    }
    if settings.provider is None:
        raise EmbeddingError(NOT_CONFIGURED)
    if settings.provider == "none":
        return None
    if settings.provider == "local":
        from langchain_agentmem.embeddings import local

        try:
            model: Embeddings = local.WordLlamaEmbeddings()
        except ImportError as error:
            msg = (
                'embedding is off: embedding.provider "local" needs '
                "`pip install 'langchain-agentmem[local]'`"
            )
            raise EmbeddingError(msg) from error
        except Exception as error:
            msg = f'embedding is off: embedding.provider "local" failed: {describe(error)}'
            raise EmbeddingError(msg) from error
        return Embedder(model, name=local.MODEL_NAME, identity=local.MODEL_NAME, **options)
    if settings.provider == "chroma":
        from langchain_agentmem.embeddings import onnx

        return Embedder(
            onnx.ChromaOnnxEmbeddings(),
            name=onnx.MODEL_NAME,
            identity=onnx.MODEL_NAME,
            advice="it is downloaded at first use: check the network, or set embedding.provider",
            **options,
        )
    from langchain_agentmem.embeddings import openai_compatible

    name = openai_compatible.model_name(settings)
    return Embedder(
        openai_compatible.openai_compatible_embeddings(settings),
        name=name,
        identity=f"openai_compatible {name} {settings.dimensions or ''}",
        advice="check embedding.base_url, embedding.api_key and embedding.model",
        zero_is_fault=True,
        **options,
    )


def _from_object(model: Embeddings) -> Embedder:
    kind = type(model)
    settings = {
        name: value
        for name, value in _plain_fields(model).items()
        if "model" in name or name in ("dimensions", "size", "dim")
    }
    name = str(settings.get("model") or settings.get("model_name") or kind.__name__)
    identity = f"{kind.__module__}.{kind.__qualname__} {sorted(settings.items())}"
    return Embedder(model, name=name, identity=identity, advice="check the object given")


def _plain_fields(model: Embeddings) -> dict[str, str | int]:
    fields = dict(model) if isinstance(model, BaseModel) else dict(vars(model))
    return {
        name: value
        for name, value in fields.items()
        if isinstance(value, str | int) and not any(x in name for x in _NEVER_PART_OF_A_MODEL)
    }
