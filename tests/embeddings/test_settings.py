"""Settings come from arguments or the environment, and keep the key to themselves."""

import json
import pickle
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from langchain_agentmem import EmbeddingSettings
from langchain_agentmem.embeddings import settings as settings_module

KEY = "sk-very-secret"


def test_the_defaults_work_without_any_setting() -> None:
    settings = EmbeddingSettings()

    assert settings.provider == "local"
    assert (settings.base_url, settings.api_key, settings.model) == (None, None, None)
    assert (settings.fusion, settings.weight) == (None, None)  # as suits the provider


def test_without_the_extra_no_provider_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_module, "find_spec", lambda _: None)

    assert EmbeddingSettings().provider is None


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("provider", "chroma", "chroma"),
        ("base_url", "http://localhost:1/v1", "http://localhost:1/v1"),
        ("api_key", KEY, SecretStr(KEY)),
        ("model", "bge-m3", "bge-m3"),
        ("dimensions", "512", 512),
        ("timeout", "2.5", 2.5),
        ("batch_size", "10", 10),
        ("max_input_chars", "100", 100),
        ("weight", "0.5", 0.5),
    ],
)
def test_each_setting_is_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, value: Any
) -> None:
    monkeypatch.setenv(f"AGENTMEM_EMBEDDING_{name.upper()}", text)
    assert getattr(EmbeddingSettings(), name) == value

    monkeypatch.setenv(f"AGENTMEM_EMBEDDING_{name.upper()}", "")
    assert getattr(EmbeddingSettings(), name) == EmbeddingSettings.model_fields[name].get_default(
        call_default_factory=True
    )


def test_an_argument_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTMEM_EMBEDDING_MODEL", "from-environment")

    assert EmbeddingSettings(model="given").model == "given"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("provider", "openai"),
        ("dimensions", 0),
        ("timeout", 0),
        ("timeout", "soon"),
        ("timeout", "inf"),
        ("timeout", "nan"),
        ("cool_down", "inf"),
        ("cool_down", -1),
        ("batch_size", 0),
        ("max_input_chars", -1),
        ("weight", 0),
        ("weight", 1.5),
        ("modle", "typo"),
    ],
)
def test_an_unusable_setting_is_named_and_the_key_is_not_told(name: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=rf"(?m)^{name}") as caught:
        EmbeddingSettings.model_validate({"api_key": KEY, name: value})

    assert KEY not in str(caught.value)


@pytest.mark.parametrize("value", [[KEY], {"key": KEY}])
def test_a_key_of_the_wrong_type_is_not_told(value: Any) -> None:
    with pytest.raises(ValidationError, match="api_key") as caught:
        EmbeddingSettings(api_key=value)

    assert KEY not in str(caught.value)


def test_the_key_is_in_no_text_of_the_settings() -> None:
    settings = EmbeddingSettings(api_key=SecretStr(KEY))

    for text in (
        repr(settings),
        str(settings),
        repr(settings.model_dump()),
        json.dumps(settings.model_dump(mode="json")),
    ):
        assert KEY not in text
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301  (it is our own)


def test_settings_are_frozen() -> None:
    settings = EmbeddingSettings()

    with pytest.raises(ValidationError):
        setattr(settings, "model", "other")  # noqa: B010  (mypy knows that it is frozen)
