"""Which embedding model is used, and how; read from arguments or from the environment."""

from importlib.util import find_spec
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

Fusion = Literal["rrf", "scores"]
Provider = Literal["openai_compatible", "local", "chroma", "none"]


def _default_provider() -> Provider | None:
    return "local" if find_spec("wordllama") else None


class EmbeddingSettings(BaseSettings):
    """Settings of the embedding model, each also read from `AGENTMEM_EMBEDDING_<NAME>`.

    Incomplete settings raise nothing: embedding is off, and answers name what is missing.
    """

    model_config = SettingsConfigDict(
        env_prefix="AGENTMEM_EMBEDDING_",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,  # what is wrong may be a key in the wrong place
    )

    provider: Provider | None = Field(default_factory=_default_provider)
    """Who embeds: `openai_compatible`, `local` (WordLlama), `chroma` (all-MiniLM-L6-v2 in ONNX)
    or `none`. Default: `local` where the extra is installed, else nobody."""
    base_url: str | None = None
    """`openai_compatible`: the service's address, such as `http://localhost:11434/v1`; None:
    OpenAI itself."""
    api_key: SecretStr | None = None
    """`openai_compatible`: the key; for OpenAI itself `OPENAI_API_KEY` is read too."""
    model: str | None = None
    """`openai_compatible`: the model's name; for OpenAI itself the default is
    `text-embedding-3-small`."""
    dimensions: int | None = Field(default=None, gt=0)
    """`openai_compatible`: length of the vectors, where the model can shorten them."""
    timeout: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    """`openai_compatible`: seconds that one request may take."""
    batch_size: int = Field(default=128, gt=0)
    """Texts in one request."""
    max_input_chars: int = Field(default=8000, gt=0)
    """Longer texts are cut to this many characters before they are embedded."""
    cool_down: float = Field(default=30.0, ge=0, allow_inf_nan=False)
    """Seconds after a failed query during which searches do not ask the model again."""
    fusion: Fusion | None = None
    """How the vector list is fused with the keyword list: by ranks (`rrf`) or by `scores`; None:
    as suits the provider."""
    weight: float | None = Field(default=None, gt=0, le=1)
    """Weight of the vector list in the fusion; keywords weigh 1. None: as suits the provider."""
