"""The four providers, and a model of the user's own."""

import os
import re
import shutil
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_openai import AzureOpenAIEmbeddings, OpenAIEmbeddings
from python_process import run_python
from servers.openai_embeddings import KEY, EmbeddingServer, Fault

from langchain_agentmem import AgentMemory, EmbeddingError, EmbeddingSettings
from langchain_agentmem.embeddings.embedder import Embedder
from langchain_agentmem.embeddings.local import WordLlamaEmbeddings
from langchain_agentmem.embeddings.onnx import ChromaOnnxEmbeddings
from langchain_agentmem.embeddings.openai_compatible import (
    MOST_AT_ONCE,
    ServiceEmbeddings,
)
from langchain_agentmem.embeddings.provider import NOT_CONFIGURED, make_embedder

CLOSED_PORT = "http://127.0.0.1:9"


def made(choice: Any) -> Embedder:
    embedder = make_embedder(choice)
    assert embedder is not None
    return embedder


def openai(**options: Any) -> OpenAIEmbeddings:
    return OpenAIEmbeddings(**options)


def azure(deployment: str) -> AzureOpenAIEmbeddings:
    options: dict[str, Any] = {
        "azure_deployment": deployment,
        "azure_endpoint": "https://x.example",
        "api_version": "1",
        "api_key": KEY,
    }
    return AzureOpenAIEmbeddings(**options)


class Cached(Embeddings):
    """Wraps a model, as LangChain's `CacheBackedEmbeddings` does."""

    def __init__(self, underlying_embeddings: Embeddings) -> None:
        self.underlying_embeddings = underlying_embeddings
        self.batch_size = 8

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.underlying_embeddings.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        return self.underlying_embeddings.embed_query(text)


class Switched(DeterministicFakeEmbedding):
    """Has fields that speak of the model and do not tell which one it is, as Ollama's class has."""

    size: int = 5
    model: str
    validate_model_on_init: bool = False
    model_cache_folder: str | None = None


class TestOpenAICompatible:
    """Any service that speaks OpenAI's embeddings API: here a real one on loopback."""

    def test_texts_are_sent_as_strings_with_the_key_and_the_model(
        self, server: EmbeddingServer, service_settings: EmbeddingSettings
    ) -> None:
        done = made(service_settings).embed_documents(["The cat sleeps", "Interest rates"])

        assert {position: row.shape for position, row in done.vectors.items()} == {
            0: (256,),
            1: (256,),
        }
        (request,) = server.requests
        assert request.path == "/v1/embeddings"
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.body["input"] == ["The cat sleeps", "Interest rates"]
        assert request.body["model"] == "wordllama"
        assert "dimensions" not in request.body

    def test_a_query_is_sent_as_a_string_too(
        self, server: EmbeddingServer, service_settings: EmbeddingSettings
    ) -> None:
        vector = made(service_settings).embed_query("The cat sleeps")

        assert vector.shape == (256,)
        assert server.requests[0].body["input"] in ("The cat sleeps", ["The cat sleeps"])

    async def test_an_async_search_has_the_same_vector(
        self, server: EmbeddingServer, service_settings: EmbeddingSettings
    ) -> None:
        with AgentMemory.in_memory(embedding=service_settings) as memory:
            memory.add_memory("The kitten naps on the couch")
            (found,) = (await memory.asearch_memories("The cat sleeps")).results
        with AgentMemory.in_memory(embedding=service_settings) as memory:
            memory.add_memory("The kitten naps on the couch")
            (expected,) = memory.search_memories("The cat sleeps").results

        assert found.similarity == pytest.approx(expected.similarity, abs=1e-6)
        asked = [request.body["input"] for request in server.requests]
        assert len(asked) == 4
        assert asked[:2] == asked[2:]

    @pytest.mark.parametrize("limit", [1, 3, 10])
    def test_a_service_is_asked_for_no_more_texts_than_it_takes(
        self, server: EmbeddingServer, service_settings: EmbeddingSettings, limit: int
    ) -> None:
        server.fault = Fault(max_inputs=limit)
        settings = service_settings.model_copy(update={"batch_size": limit})
        texts = [f"text {i}" for i in range(25)]

        done = made(settings).embed_documents(texts)
        assert (sorted(done.vectors), done.rejected, done.problem) == ([*range(25)], {}, None)
        sent = [request.body["input"] for request in server.requests]
        assert [text for batch in sent for text in batch] == texts
        assert max(map(len, sent)) == limit

    def test_dimensions_are_asked_for(
        self, server: EmbeddingServer, service_settings: EmbeddingSettings
    ) -> None:
        settings = service_settings.model_copy(update={"dimensions": 64})

        assert made(settings).embed_query("x").shape == (64,)
        assert server.requests[0].body["dimensions"] == 64

    def test_a_server_of_ones_own_needs_no_key(self, server: EmbeddingServer) -> None:
        settings = EmbeddingSettings(
            provider="openai_compatible", base_url=server.base_url, model="wordllama"
        )

        assert made(settings).embed_query("x").shape == (256,)

    def test_long_texts_are_cut(
        self, server: EmbeddingServer, service_settings: EmbeddingSettings
    ) -> None:
        made(service_settings.model_copy(update={"max_input_chars": 9})).embed_documents(["x" * 99])

        assert server.requests[0].body["input"] == ["x" * 9]

    @pytest.mark.parametrize(
        ("given", "missing"),
        [
            ({}, "embedding.api_key"),
            ({"model": "m"}, "embedding.api_key"),
            ({"api_key": "  "}, "embedding.api_key"),
            ({"base_url": "http://127.0.0.1:9/v1"}, "embedding.model"),
            ({"base_url": "http://127.0.0.1:9/v1", "api_key": KEY}, "embedding.model"),
            (
                {"base_url": "127.0.0.1:9/v1", "model": "m"},
                "embedding.base_url must begin with http",
            ),
            ({"base_url": KEY, "model": "m"}, "embedding.base_url must begin with http"),
        ],
    )
    def test_a_missing_or_unusable_setting_is_named(
        self, given: dict[str, Any], missing: str
    ) -> None:
        settings = EmbeddingSettings(provider="openai_compatible", **given)

        with pytest.raises(EmbeddingError, match=missing) as caught:
            make_embedder(settings)
        assert KEY not in str(caught.value)

    def test_a_missing_setting_raises_nothing_at_open(self) -> None:
        with AgentMemory.in_memory(embedding="openai_compatible") as memory:
            memory.add_memory("likes cats")
            result = memory.search_memories("cats")

        assert result.total == 1
        assert result.strategy == "fts"
        assert any("embedding.api_key" in note for note in result.notes)

    def test_for_openai_itself_the_usual_variable_and_model_do(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)

        assert made("openai_compatible").name == "text-embedding-3-small"

    def test_of_a_service_with_a_limit_unknown_to_us_the_limit_is_found(
        self, server: EmbeddingServer, service_settings: EmbeddingSettings
    ) -> None:
        server.fault = Fault(max_inputs=10)
        texts = [f"text {i}" for i in range(125)]

        done = made(service_settings).embed_documents(texts)

        assert (sorted(done.vectors), done.rejected, done.problem) == ([*range(125)], {}, None)
        sizes = [len(request.body["input"]) for request in server.requests]
        assert sizes[:4] == [125, 63, 32, 16]
        assert max(sizes[4:]) <= 10

    def test_a_text_that_the_service_refuses_takes_no_other_with_it(
        self, server: EmbeddingServer, service_settings: EmbeddingSettings
    ) -> None:
        server.fault = Fault(poison="poison")

        done = made(service_settings).embed_documents(["a", "a poisoned text", "b"])

        assert (set(done.vectors), set(done.rejected), done.problem) == ({0, 2}, {1}, None)
        assert "HTTP status 400" in done.rejected[1]
        assert "poison" not in done.rejected[1]

    @pytest.mark.parametrize(
        ("fault", "reason"),
        [
            (Fault(status=500), "HTTP status 500"),
            (Fault(status=503), "HTTP status 503"),
            (Fault(status=401), "HTTP status 401"),
            (Fault(status=429, retry_after=60), "HTTP status 429"),
            (Fault(drop=1), r"vectors of shape \(0,\)|IndexError"),
            (Fault(garbage=True), "JSONDecodeError"),
            (Fault(non_finite="nan"), "NaN or infinite"),
        ],
    )
    @pytest.mark.usefixtures("pauses")
    def test_a_failing_service_is_described_without_the_key(
        self,
        server: EmbeddingServer,
        service_settings: EmbeddingSettings,
        caplog: pytest.LogCaptureFixture,
        fault: Fault,
        reason: str,
    ) -> None:
        server.fault = fault
        attempts = 3 if fault.status in (429, 500, 503) else 1
        embedder = made(service_settings)

        done = embedder.embed_documents(["Minka"])
        told = [done.problem or done.rejected[0]]
        # A document is tried again where that may help, a query never, by nobody.
        assert len(server.requests) == attempts
        with pytest.raises(EmbeddingError, match=reason) as caught:
            embedder.embed_query("Minka")
        assert len(server.requests) == attempts + 1

        for text in (*told, str(caught.value)):
            assert re.search(reason, text)
            assert "the embedding model wordllama failed" in text
            assert "embedding.base_url" in text
            assert "\n" not in text
            assert KEY not in text
            assert "I was told to fail" not in text  # which is the service's
        assert done.vectors == {}
        assert KEY not in caplog.text
        assert "Minka" not in caplog.text

    def test_a_service_that_is_not_there_is_an_error(
        self, server: EmbeddingServer, service_settings: EmbeddingSettings
    ) -> None:
        server.stop()

        with pytest.raises(EmbeddingError, match="the embedding model wordllama failed"):
            made(service_settings).embed_query("x")

    def test_a_service_that_hangs_is_given_up(
        self, server: EmbeddingServer, service_settings: EmbeddingSettings
    ) -> None:
        server.fault = Fault(delay=60)

        with pytest.raises(EmbeddingError, match="the embedding model wordllama failed"):
            made(service_settings.model_copy(update={"timeout": 0.2})).embed_query("x")

    def test_a_request_that_is_given_up_in_line_is_never_sent(self) -> None:
        release, sent = threading.Event(), list[str]()

        def send(texts: list[str]) -> list[list[float]]:
            sent.extend(texts)
            release.wait(60)
            return [[1.0]] * len(texts)

        client = SimpleNamespace(client=None, embed_documents=send)
        service = ServiceEmbeddings(client, seconds=0.3)

        def give_up(number: int) -> None:
            with pytest.raises(TimeoutError):
                service.embed_query(f"text {number}")

        threads = [threading.Thread(target=give_up, args=(n,)) for n in range(MOST_AT_ONCE + 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        release.set()

        assert service.embed_query("the last") == [1.0]  # whatever was in line came before it
        assert len(sent) == MOST_AT_ONCE + 1

    @pytest.mark.parametrize("given", [f"{KEY}\n", f" {KEY}\r\n"])
    @pytest.mark.parametrize("from_environment", [False, True])
    def test_a_key_that_was_read_with_its_line_is_used_without_it(
        self,
        server: EmbeddingServer,
        monkeypatch: pytest.MonkeyPatch,
        given: str,
        from_environment: bool,
    ) -> None:
        if from_environment:
            monkeypatch.setenv("AGENTMEM_EMBEDDING_API_KEY", given)
        key = None if from_environment else given
        options: dict[str, Any] = {"api_key": key} if key else {}
        made(
            EmbeddingSettings(
                provider="openai_compatible", base_url=server.base_url, model="m", **options
            )
        ).embed_query("x")

        assert server.requests[-1].headers["authorization"] == f"Bearer {KEY}"

    @pytest.mark.parametrize("url", ["http://localhost:port/v1", "http://u:se cret@[::1/v1"])
    def test_an_address_that_is_none_turns_embedding_off(self, url: str) -> None:
        settings = EmbeddingSettings(provider="openai_compatible", base_url=url, model="m")
        with AgentMemory.in_memory(embedding=settings) as memory:
            memory.add_memory("likes cats")
            result = memory.search_memories("cats")

        assert (result.total, result.strategy) == (1, "fts")
        assert "embedding.base_url is no address" in result.notes[0]
        assert "cret" not in result.notes[0]

    def test_a_client_that_cannot_be_made_turns_embedding_off(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "socksio", None)
        monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
        settings = EmbeddingSettings(provider="openai_compatible", api_key=KEY)
        with AgentMemory.in_memory(embedding=settings) as memory:
            memory.add_memory("likes cats")
            result = memory.search_memories("cats")

        assert (result.total, result.strategy) == (1, "fts")
        assert 'embedding.provider "openai_compatible" failed: ' in result.notes[0]
        assert "socksio" in result.notes[0]

    def test_what_a_client_says_of_its_key_is_not_repeated(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(**options: Any) -> None:
            raise RuntimeError(options["api_key"].get_secret_value())

        monkeypatch.setattr("langchain_openai.OpenAIEmbeddings", fail)

        with pytest.raises(EmbeddingError, match=r"failed: RuntimeError$"):
            make_embedder(EmbeddingSettings(provider="openai_compatible", api_key=f"{KEY}\n"))

    def test_no_tokenizer_is_loaded(self, server: EmbeddingServer, tmp_path: Path) -> None:
        script = f"""
import sys
from langchain_agentmem import AgentMemory, EmbeddingSettings
settings = EmbeddingSettings(provider="openai_compatible", base_url={server.base_url!r}, model="m")
with AgentMemory.in_memory(embedding=settings) as memory:
    memory.add_memory("likes cats")
    assert memory.search_memories("kitten").total == 1
import tiktoken.registry
assert not tiktoken.registry.ENCODINGS, tiktoken.registry.ENCODINGS
"""
        done = run_python(script, HOME=str(tmp_path), TIKTOKEN_CACHE_DIR=str(tmp_path / "tiktoken"))

        assert done.returncode == 0, done.stderr
        assert not (tmp_path / "tiktoken").exists()


class TestChroma:
    """all-MiniLM-L6-v2 in ONNX, which chromadb brings."""

    def test_the_model_finds_by_meaning(self, tmp_path: Path) -> None:
        default = Path(__file__).parents[3] / "shared" / "models"
        models = Path(os.environ.get("AGENTMEM_MODELS", default))
        if not (models / "all-MiniLM-L6-v2").is_dir():
            pytest.skip(f"no model all-MiniLM-L6-v2 in {models}: set AGENTMEM_MODELS")
        cache = tmp_path / ".cache" / "chroma" / "onnx_models" / "all-MiniLM-L6-v2"
        shutil.copytree(models / "all-MiniLM-L6-v2", cache)
        script = """
from langchain_agentmem import AgentMemory
with AgentMemory.in_memory(embedding="chroma") as memory:
    memory.add_memory("The kitten naps on the couch")
    memory.add_memory("Interest rates rose again")
    status = memory.status()
    result = memory.search_memories("a sleeping cat", min_similarity=0.2)
    assert status.embedding == "all-MiniLM-L6-v2", status
    assert status.pending == 0, status
    assert result.strategy == "embedding", result
    assert [hit.content for hit in result.results] == ["The kitten naps on the couch"], result
    assert result.notes == [], result
"""
        done = run_python(
            script, HOME=str(tmp_path), HTTPS_PROXY=CLOSED_PORT, HTTP_PROXY=CLOSED_PORT
        )

        assert done.returncode == 0, done.stderr

    def test_threads_at_first_use_download_it_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Function:
            """Whoever comes while the model is not there yet downloads it."""

            downloads = 0
            there = False

            def __call__(self, texts: list[str]) -> list[Any]:
                if not Function.there:
                    Function.downloads += 1
                    time.sleep(0.1)
                    if Function.downloads == 1:
                        msg = "the first download fails"
                        raise OSError(msg)
                    Function.there = True
                return [np.zeros(3)] * len(texts)

        name = "chromadb.utils.embedding_functions.ONNXMiniLM_L6_V2"
        monkeypatch.setattr(name, Function)
        models = [ChromaOnnxEmbeddings(), ChromaOnnxEmbeddings()]

        def embed(number: int) -> None:
            with suppress(OSError):
                models[number % 2].embed_query("x")

        threads = [threading.Thread(target=embed, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        assert Function.downloads == 2

    def test_without_its_model_and_a_network_it_degrades_with_a_note(self, tmp_path: Path) -> None:
        script = """
from langchain_agentmem import AgentMemory
with AgentMemory.in_memory(embedding="chroma", timeout=60) as memory:
    memory.add_memory("likes cats")
    result = memory.search_memories("cats")
    print(result.total, result.strategy, memory.status().pending)
    print(*result.notes)
"""
        done = run_python(
            script, HOME=str(tmp_path), HTTPS_PROXY=CLOSED_PORT, HTTP_PROXY=CLOSED_PORT
        )

        assert done.returncode == 0, done.stderr
        counts, notes = done.stdout.split("\n", 1)
        assert counts == "1 fts 1"
        assert "answered by keywords alone: the embedding model all-MiniLM-L6-v2 failed" in notes
        assert "it is downloaded at first use: check the network" in notes


class TestLocal:
    """WordLlama, from the weights inside its wheel."""

    def test_similar_texts_have_similar_vectors(self) -> None:
        texts = ["The cat sleeps on the sofa", "A kitten naps on the couch", "Interest rates rose"]
        vectors = made("local").embed_documents(texts).vectors
        cat, kitten, rates = (vectors[position] for position in range(3))

        assert cat.shape == (256,)
        assert np.linalg.norm(cat) == pytest.approx(1.0, abs=1e-5)
        assert cat @ kitten > cat @ rates + 0.1

    def test_a_query_has_the_vector_of_the_same_document(self) -> None:
        embedder = made("local")

        document = embedder.embed_documents(["a cat"]).vectors[0]
        assert np.allclose(embedder.embed_query("a cat"), document)

    @pytest.mark.parametrize(
        "text", ["", " ", "\x00", "\ufffd", "\U0001f600", "部署", "กรุง", "x" * 100_000, "?!"]
    )
    def test_any_text_has_a_finite_vector(self, text: str) -> None:
        vector = np.array(WordLlamaEmbeddings().embed_query(text))

        assert np.isfinite(vector).all()
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5) or not vector.any()

    def test_no_documents_have_no_vectors(self) -> None:
        assert WordLlamaEmbeddings().embed_documents([]) == []

    def test_threads_get_the_vectors_that_one_thread_gets(self) -> None:
        model = WordLlamaEmbeddings()
        texts = [("word " * (i % 7 + 1)) + str(i) for i in range(60)]
        expected = model.embed_documents(texts)
        wrong: list[str] = []

        def work() -> None:
            for i in range(0, 60, 4):
                got = np.array(model.embed_documents(texts[i : i + 4]))
                if not np.allclose(got, np.array(expected[i : i + 4]), atol=1e-5):
                    wrong.append(texts[i])

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert wrong == []

    def test_it_needs_no_network_says_nothing_and_leaves_logging_alone(
        self, tmp_path: Path
    ) -> None:
        script = """
import logging, socket

def refuse(*args, **kwargs):
    raise AssertionError("the network was used")

socket.socket.connect = refuse
socket.create_connection = refuse
socket.getaddrinfo = refuse
from langchain_agentmem import AgentMemory
before = list(logging.getLogger().handlers), logging.getLogger().level
with AgentMemory.in_memory(embedding="local") as memory:
    memory.add_memory("The kitten naps on the couch")
    assert memory.search_memories("sleeping cat").total == 1
assert (list(logging.getLogger().handlers), logging.getLogger().level) == before
"""
        done = run_python(script, HOME=str(tmp_path))

        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert done.stdout == ""
        assert list(tmp_path.iterdir()) == []  # nothing is cached in the home folder

    def test_without_the_extra_it_says_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "wordllama", None)

        with pytest.raises(EmbeddingError, match=r"pip install 'langchain-agentmem\[local\]'"):
            make_embedder("local")


class TestNone:
    """Keyword search only."""

    def test_there_is_no_embedder_and_nothing_to_complain_about(self) -> None:
        assert make_embedder("none") is None
        with AgentMemory.in_memory(embedding="none") as memory:
            memory.add_memory("likes cats")
            result = memory.search_memories("cats")
            assert (result.total, result.strategy, result.notes) == (1, "fts", [])
            assert memory.status().problems == []


class TestChoice:
    """What may be given as `embedding`."""

    def test_nothing_given_means_the_settings_of_the_environment(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert made(None).name == "wordllama-l2_supercat-256"
        monkeypatch.setenv("AGENTMEM_EMBEDDING_PROVIDER", "none")
        assert make_embedder(None) is None

    def test_with_nothing_configured_the_setting_is_named(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(EmbeddingError) as caught:
            make_embedder(EmbeddingSettings(provider=None))

        assert str(caught.value) == NOT_CONFIGURED
        assert "embedding.provider" in NOT_CONFIGURED

    def test_a_name_takes_the_other_settings_from_the_environment(
        self, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AGENTMEM_EMBEDDING_BASE_URL", server.base_url)
        monkeypatch.setenv("AGENTMEM_EMBEDDING_MODEL", "from-environment")

        assert made("openai_compatible").name == "from-environment"

    @pytest.mark.parametrize("given", [5, [], {}, object(), DeterministicFakeEmbedding])
    def test_anything_else_is_refused_with_what_it_may_be(self, given: Any) -> None:
        with pytest.raises(TypeError, match="EmbeddingSettings or the name of a provider, not"):
            make_embedder(given)

    @pytest.mark.parametrize("name", ["", "openai", "LOCAL"])
    def test_an_unknown_provider_is_refused_with_those_there_are(self, name: str) -> None:
        with pytest.raises(ValueError, match="'openai_compatible', 'local', 'chroma' or 'none'"):
            make_embedder(name)

    def test_any_langchain_model_will_do(self) -> None:
        assert made(DeterministicFakeEmbedding(size=5)).embed_query("x").shape == (5,)

    @pytest.mark.parametrize(
        ("one", "other", "same"),
        [
            (DeterministicFakeEmbedding(size=5), DeterministicFakeEmbedding(size=5), True),
            (DeterministicFakeEmbedding(size=5), DeterministicFakeEmbedding(size=6), False),
            (
                openai(model="a", api_key="one"),
                openai(model="a", api_key="two", timeout=5),
                True,
            ),
            (
                openai(model="a", api_key="one"),
                openai(model="b", api_key="one"),
                False,
            ),
            (
                openai(model="a", api_key="one"),
                openai(model="a", api_key="one", dimensions=64),
                False,
            ),
            (azure("one"), azure("one"), True),
            (azure("one"), azure("two"), False),
            (Cached(openai(model="a", api_key="x")), Cached(openai(model="a", api_key="y")), True),
            (Cached(openai(model="a", api_key="x")), Cached(openai(model="b", api_key="x")), False),
            (
                Cached(Cached(DeterministicFakeEmbedding(size=5))),
                Cached(Cached(DeterministicFakeEmbedding(size=6))),
                False,
            ),
            (Switched(model="a"), Switched(model="a", validate_model_on_init=True), True),
            (Switched(model="a"), Switched(model="a", model_cache_folder="/tmp"), True),  # noqa: S108
            (Switched(model="a"), Switched(model="b"), False),
            ("local", EmbeddingSettings(provider="local", weight=0.5), True),
            ("local", "chroma", False),
            (
                EmbeddingSettings(provider="openai_compatible", base_url="http://a", model="m"),
                EmbeddingSettings(provider="openai_compatible", base_url="http://b", model="m"),
                True,
            ),
            (
                EmbeddingSettings(provider="openai_compatible", base_url="http://a", model="m"),
                EmbeddingSettings(
                    provider="openai_compatible", base_url="http://a", model="m", dimensions=5
                ),
                False,
            ),
        ],
    )
    def test_vectors_belong_to_a_model_and_its_dimensions_not_to_how_it_is_reached(
        self, one: Any, other: Any, same: bool
    ) -> None:
        assert (made(one).fingerprint == made(other).fingerprint) is same

    @pytest.mark.parametrize(
        ("model", "fingerprint"),
        [
            ("local", "fde67c6e5841"),
            ("chroma", "a2ecbc46b38c"),
            (EmbeddingSettings(provider="openai_compatible", api_key="x"), "7b1d345e3ee6"),
            (openai(model="text-embedding-3-small", api_key="x"), "4e18956a7150"),
            (openai(model="text-embedding-3-large", dimensions=256, api_key="x"), "06769cc7c0e7"),
        ],
    )
    def test_vectors_that_were_written_stay_those_of_their_model(
        self, model: Any, fingerprint: str
    ) -> None:
        """Another fingerprint would have everybody's vectors made anew."""
        assert made(model).fingerprint == fingerprint

    def test_a_wrapped_model_is_called_by_its_name(self) -> None:
        assert made(Cached(openai(model="some-model", api_key="x"))).name == "some-model"
        assert made(Cached(DeterministicFakeEmbedding(size=5))).name == "DeterministicFakeEmbedding"
