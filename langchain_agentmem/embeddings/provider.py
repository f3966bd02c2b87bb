"""From what a user gives as `embedding` to an `Embedder`, or to the reason why there is none."""

import re
from collections.abc import Callable
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

_NAMES_MODEL = re.compile(
    r"(?!.*(key|token|secret|password|timeout|retries|cache|provider)).*model.*"
    r"|(output_|truncate_)?(dimensions?|dimensionality|dim)|size|repo_id"
)
"""The fields that say which model it is, and not how it is reached, by the names they have in
LangChain's integrations. One too many makes vectors anew, one too few mixes those of two models."""
_MOST_WRAPPED = 5


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
    provider = settings.provider
    if provider is None:
        raise EmbeddingError(NOT_CONFIGURED)
    if provider == "none":
        return None
    fusion, weight = _FUSION.get(provider, _STANDARD)
    options: dict[str, Any] = {
        "fusion": settings.fusion or fusion,
        "weight": settings.weight or weight,
        "batch_size": settings.batch_size,
        "max_input_chars": settings.max_input_chars,
        "cool_down": settings.cool_down,
    }
    try:
        return _MAKERS[provider](settings, options)
    except EmbeddingError:
        raise
    except Exception as error:
        # What a library says of its setting up may repeat the key that it was set up with.
        key = settings.api_key.get_secret_value().strip() if settings.api_key else ""
        told = describe(error)
        reason = type(error).__name__ if key and key in told else told
        msg = f'embedding is off: embedding.provider "{provider}" failed: {reason}'
        raise EmbeddingError(msg) from error


def _local(_: EmbeddingSettings, options: dict[str, Any]) -> Embedder:
    from langchain_agentmem.embeddings import local

    try:
        model = local.WordLlamaEmbeddings()
    except ImportError as error:
        msg = (
            'embedding is off: embedding.provider "local" needs '
            "`pip install 'langchain-agentmem[local]'`"
        )
        raise EmbeddingError(msg) from error
    return Embedder(model, name=local.MODEL_NAME, identity=local.MODEL_NAME, **options)


def _chroma(_: EmbeddingSettings, options: dict[str, Any]) -> Embedder:
    from langchain_agentmem.embeddings import onnx

    return Embedder(
        onnx.ChromaOnnxEmbeddings(),
        name=onnx.MODEL_NAME,
        identity=onnx.MODEL_NAME,
        advice="it is downloaded at first use: check the network, or set embedding.provider",
        **options,
    )


def _openai_compatible(settings: EmbeddingSettings, options: dict[str, Any]) -> Embedder:
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


_MAKERS: dict[str, Callable[[EmbeddingSettings, dict[str, Any]], Embedder]] = {
    "local": _local,
    "chroma": _chroma,
    "openai_compatible": _openai_compatible,
}


def _from_object(model: Embeddings) -> Embedder:
    name, identity = _identify(model)
    return Embedder(model, name=name, identity=identity, advice="check the object given")


def _identify(model: Embeddings, depth: int = 0) -> tuple[str, str]:
    """Return a model's name for people, and what tells its vectors from those of others.

    That is its class and the fields that name a model, and the same of the models that it wraps.
    """
    kind = type(model)
    fields = dict(model) if isinstance(model, BaseModel) else dict(vars(model))
    naming = {name: value for name, value in fields.items() if _names_model(kind, name, value)}
    wrapped = {
        name: _identify(value, depth + 1)
        for name, value in fields.items()
        if isinstance(value, Embeddings) and depth < _MOST_WRAPPED
    }
    inner = next(iter(wrapped.values()), (kind.__name__, ""))[0]
    shown = str(naming.get("model") or naming.get("model_name") or inner)
    identity = f"{kind.__module__}.{kind.__qualname__} {sorted(naming.items())}"
    for name, (_, its_identity) in sorted(wrapped.items()):
        identity += f" {name}=({its_identity})"
    return shown, identity


def _names_model(kind: type[Embeddings], name: str, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return False  # a switch that speaks of the model does not tell which one it is
    if name == "deployment" and issubclass(kind, BaseModel):
        # LangChain's class for OpenAI has a constant there.
        return bool(value != kind.model_fields[name].default)
    return _NAMES_MODEL.fullmatch(name) is not None
