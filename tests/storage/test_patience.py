"""Calls that open a vector index are waited for only so long."""

import copy
import threading
from typing import Any

import pytest

from langchain_agentmem import workers
from langchain_agentmem.errors import VectorIndexError
from langchain_agentmem.storage import patience
from langchain_agentmem.storage.patience import PatientClient


class Collection:
    def __init__(self, go: threading.Event) -> None:
        self.go = go
        self.name = "c"

    def count(self) -> int:
        assert self.go.wait(60)
        return 7

    def upsert(self, ids: list[str]) -> str:
        return f"{ids} by {threading.current_thread().name}"


class Client:
    """As Chroma's: it answers when it is let."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.asked = 0

    def get_max_batch_size(self) -> int:
        self.asked += 1
        assert self.go.wait(60)
        return 5

    def list_collections(self) -> list[Any]:
        msg = "its own"
        raise TimeoutError(msg)

    def get_or_create_collection(self, name: str) -> Collection:
        assert name == "c"
        return Collection(self.go)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(patience, "SECONDS", 0.05)
    return Client()


def test_what_is_not_answered_is_given_up_and_asked_again_when_it_was(client: Client) -> None:
    patient = PatientClient(client)
    collection = patient.get_or_create_collection("c")
    with pytest.raises(VectorIndexError, match="did not answer within"):
        patient.get_max_batch_size()
    for call in (patient.get_max_batch_size, collection.count):
        with pytest.raises(VectorIndexError, match="still owes an earlier answer"):
            call()
    assert client.asked == 1
    client.go.set()
    patient._patience._overdue[0].result()  # type: ignore[index]
    assert (patient.get_max_batch_size(), collection.count()) == (5, 7)


def test_an_answer_that_never_comes_is_not_waited_for_for_ever(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "REST_SECONDS", 0.0)
    patient = PatientClient(client)
    for asked in (1, 2):
        with pytest.raises(VectorIndexError, match="did not answer within"):
            patient.get_max_batch_size()
        assert client.asked == asked
    client.go.set()


def test_an_error_of_the_call_is_its_own(client: Client) -> None:
    with pytest.raises(TimeoutError, match="its own"):
        PatientClient(client).list_collections()


def test_what_writes_is_called_as_it_is(client: Client) -> None:
    collection = PatientClient(client).get_or_create_collection("c")
    assert collection.upsert(ids=["a"]) == f"['a'] by {threading.current_thread().name}"
    assert collection.name == "c"


def test_without_a_thread_to_be_had_it_is_waited_for(client: Client) -> None:
    patient = PatientClient(client)
    patient._workers.close()
    client.go.set()
    assert patient.get_max_batch_size() == 5


def test_a_copy_is_one(client: Client) -> None:
    assert copy.copy(PatientClient(client)).get_or_create_collection("c").name == "c"
