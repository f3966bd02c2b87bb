"""The front door: what `AgentMemory` promises to those who hold one."""

import asyncio
import copy
import inspect
import os
import pickle
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import chromadb
import pytest
from chromadb.config import Settings
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, HumanMessage
from python_process import run_python
from servers.openai_embeddings import EmbeddingServer, Fault

from langchain_agentmem import (
    AgentMemory,
    AgentMemoryToolkit,
    EmbeddingSettings,
    Memory,
    Message,
    StorageError,
    WriteReport,
)
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.vector_queue import VectorQueue

NOON = datetime(2023, 5, 8, 12, tzinfo=UTC)
ANNA = {"configurable": {"user_id": "anna", "thread_id": "t1"}}
BEN = {"configurable": {"user_id": "ben"}}


def contents(memory: AgentMemory, query: str, **options: Any) -> list[str]:
    return [hit.content for hit in memory.search_memories(query, **options).results]


class TestOpening:
    """A folder, an embedding, a Chroma client."""

    def test_a_folder_is_made_and_kept_private(self, tmp_path: Path) -> None:
        folder = tmp_path / "deep" / "memory"
        with AgentMemory.open(folder, embedding="local") as memory:
            memory.add_memory("likes cats")
            assert memory.status().location == str(folder / "agentmem.sqlite3")

        assert folder.stat().st_mode & 0o777 == 0o700
        assert {path.name for path in folder.iterdir()} >= {"agentmem.sqlite3", "chroma"}

    def test_without_an_embedding_chroma_is_not_touched(self, tmp_path: Path) -> None:
        with AgentMemory.open(tmp_path, embedding="none") as memory:
            memory.add_memory("likes cats")

        assert not (tmp_path / "chroma").exists()

    @pytest.mark.parametrize("embedding", ["local", "none"])
    def test_everything_is_there_after_reopening(self, tmp_path: Path, embedding: str) -> None:
        with AgentMemory.open(tmp_path, embedding=embedding) as memory:
            added = memory.add_memory("The kitten naps on the couch")
            memory.add_messages("t1", [HumanMessage("hello there", id="m1")])
        with AgentMemory.open(tmp_path, embedding=embedding) as memory:
            assert memory.get(added.id) == added
            assert contents(memory, "kitten") == [added.content]
            assert memory.search_conversations("hello").total == 1
            assert memory.status().pending == 0

    def test_the_path_may_be_text(self, tmp_path: Path) -> None:
        with AgentMemory.open(str(tmp_path), embedding="none") as memory:
            assert memory.status().location == str(tmp_path / "agentmem.sqlite3")

    def test_memories_in_memory_do_not_meet(self) -> None:
        with (
            AgentMemory.in_memory(embedding="local") as one,
            AgentMemory.in_memory(embedding="local") as other,
        ):
            one.add_memory("likes cats")
            assert other.search_memories("cats").total == 0
            assert one.search_memories("cats").strategy == "hybrid"
            assert one.status().location == ":memory:"

    def test_vectors_may_live_with_a_client_of_ones_own(self, tmp_path: Path) -> None:
        client: Any = chromadb.PersistentClient(
            str(tmp_path / "elsewhere"), settings=Settings(anonymized_telemetry=False)
        )
        with AgentMemory.open(tmp_path / "m", embedding="local", chroma_client=client) as memory:
            memory.add_memory("The kitten naps on the couch")
            assert contents(memory, "sleeping cat") == ["The kitten naps on the couch"]

        assert not (tmp_path / "m" / "chroma").exists()
        assert sum(collection.count() for collection in client.list_collections()) == 1
        client.close()  # it was left open: it is not the memory's

    @pytest.mark.parametrize("client", [5, "http://localhost", object()])
    def test_what_is_no_client_is_refused(self, tmp_path: Path, client: Any) -> None:
        with pytest.raises(TypeError, match="chroma_client"):
            AgentMemory.open(tmp_path, chroma_client=client)

    @pytest.mark.parametrize("folder", ["", "  "])
    def test_a_blank_folder_is_refused(self, folder: str) -> None:
        with pytest.raises(ValueError, match="folder must not be blank"):
            AgentMemory.open(folder)

    def test_a_file_in_place_of_the_folder_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")

        with pytest.raises(StorageError, match="cannot use the folder"):
            AgentMemory.open(tmp_path / "file")

    def test_a_foreign_file_in_place_of_the_database_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "agentmem.sqlite3").write_text("not a database " * 100)

        with pytest.raises(StorageError, match="cannot open the database"):
            AgentMemory.open(tmp_path, embedding="none")

    @pytest.mark.parametrize("where", ["options", "vectors", "embedding"])
    def test_what_cannot_be_opened_leaves_nothing_open(
        self, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: Any) -> str:
            msg = "the disk is gone"
            raise StorageError(msg)

        options: dict[str, Any] = {"embedding": "local"}
        if where == "options":
            options["timeout"] = 0
        elif where == "embedding":
            options["embedding"] = 5
        else:
            monkeypatch.setattr(Database, "meta", broken)
        with pytest.raises((ValueError, TypeError, StorageError)) as caught:
            AgentMemory.open(tmp_path, **options)
        del caught

        ours = Path("/proc/self/fd")
        targets = [os.path.realpath(each) for each in ours.iterdir()] if ours.is_dir() else []
        assert not [each for each in targets if each.startswith(str(tmp_path / "agentmem"))]
        script = (
            "import sys; from langchain_agentmem import AgentMemory; "
            "print(AgentMemory.open(sys.argv[1], embedding='local').status().strategy)"
        )
        other = run_python(script, tmp_path)
        assert (other.returncode, other.stdout.split()) == (0, ["hybrid"]), other.stderr

    def test_vectors_come_after_the_fact(self, tmp_path: Path) -> None:
        with AgentMemory.open(tmp_path, embedding="none") as memory:
            memory.add_memory("The kitten naps on the couch")
            assert memory.status().pending == 0
        with AgentMemory.open(tmp_path, embedding="local") as memory:
            assert memory.status().pending == 1
            assert any("memory.sync()" in problem for problem in memory.status().problems)
            assert memory.sync().indexed == 1
            assert contents(memory, "sleeping cat") == ["The kitten naps on the couch"]

    def test_vectors_that_were_lost_can_be_rebuilt(self, tmp_path: Path) -> None:
        with AgentMemory.open(tmp_path, embedding="local") as memory:
            memory.add_memory("The kitten naps on the couch")
        shutil.rmtree(tmp_path / "chroma")
        with AgentMemory.open(tmp_path, embedding="local") as memory:
            memory.sync()
            assert contents(memory, "sleeping cat") == ["The kitten naps on the couch"]

    def test_another_embedding_model_takes_over(self, tmp_path: Path) -> None:
        for size in (3, 4):
            embedding = DeterministicFakeEmbedding(size=size)
            with AgentMemory.open(tmp_path, embedding=embedding) as memory:
                memory.add_memory(f"added with {size}")
                memory.sync()
                result = memory.search_memories("zeppelin")
                assert result.strategy == "embedding"
                assert result.total == memory.status().memories > 0


class TestAddingMemories:
    """What is saved, under whose name, and when it is the same again."""

    def test_a_memory_is_returned_as_it_is_stored(self, keyword_memory: AgentMemory) -> None:
        added = keyword_memory.add_memory(
            "Prefers dark mode",
            type="persona",
            priority=80,
            scene_name="editor setup",
            tags=("ui",),
            strength=0.5,
            created_at="2023-05-08T12:00:00Z",
            metadata={"source": "chat"},
            config=ANNA,
        )

        assert keyword_memory.get(added.id) == added
        assert (added.type, added.priority, added.scene_name) == ("persona", 80, "editor setup")
        assert (added.scope, added.scope_id, added.tags) == ("user", "anna", ["ui"])
        assert (added.created_at, added.metadata) == (NOON, {"source": "chat"})

    def test_what_fails_behind_the_commit_is_told_and_not_raised(self, memory: AgentMemory) -> None:
        broken = mock.patch.object(VectorQueue, "pending", side_effect=StorageError("disk gone"))
        with broken:
            report = memory.add_memories([Memory(content="green tea"), Memory(content="oak")])

        assert (report.saved, report.problem) == (2, "disk gone")
        assert sorted(contents(memory, "tea oak")) == ["green tea", "oak"]

    def test_the_same_text_is_saved_once_and_the_first_saying_stands(
        self, keyword_memory: AgentMemory
    ) -> None:
        first = keyword_memory.add_memory("Prefers dark mode", priority=80)
        second = keyword_memory.add_memory("Prefers dark mode", priority=10)

        assert second == first
        assert keyword_memory.status().memories == 1

    def test_the_same_text_of_two_users_is_two_memories(self, keyword_memory: AgentMemory) -> None:
        of_anna = keyword_memory.add_memory("Prefers dark mode", config=ANNA)
        of_ben = keyword_memory.add_memory("Prefers dark mode", config=BEN)

        assert of_anna.id != of_ben.id
        for config, scope_id in ((ANNA, "anna"), (BEN, "ben")):
            (hit,) = keyword_memory.search_memories("dark", config=config).results
            assert hit.scope_id == scope_id

    def test_a_report_counts_what_was_done(self, keyword_memory: AgentMemory) -> None:
        memories = [Memory(content=text) for text in ("a", "b", "a")]

        first = keyword_memory.add_memories(memories)
        again = keyword_memory.add_memories(iter(memories))

        assert (first.saved, first.duplicates, first.pending) == (2, 1, 0)
        assert (again.saved, again.duplicates) == (0, 3)
        assert [record.content for record in again.records] == ["a", "b", "a"]
        assert keyword_memory.add_memories([]) == WriteReport()

    def test_under_a_given_id_what_is_given_replaces_what_was_there(
        self, keyword_memory: AgentMemory
    ) -> None:
        keyword_memory.add_memory("Lives in Bonn", id="home", priority=80, created_at=NOON)

        keyword_memory.add_memories([Memory(id="home", content="Lives in Rome")])

        stored = keyword_memory.get("home")
        assert isinstance(stored, Memory)
        assert (stored.content, stored.priority, stored.created_at) == ("Lives in Rome", 80, NOON)
        assert contents(keyword_memory, "Bonn") == []
        assert contents(keyword_memory, "Rome") == ["Lives in Rome"]

    def test_or_not_if_one_says_so(self, keyword_memory: AgentMemory) -> None:
        keyword_memory.add_memory("Lives in Bonn", id="home")

        report = keyword_memory.add_memories(
            [Memory(id="home", content="Lives in Rome")], replace=False
        )

        assert (report.saved, report.conflicts) == (0, [0])
        assert contents(keyword_memory, "Bonn") == ["Lives in Bonn"]

    def test_an_old_text_can_be_said_again_after_it_was_changed(
        self, keyword_memory: AgentMemory
    ) -> None:
        memory = keyword_memory.add_memory("Lives in Bonn")
        keyword_memory.update_memory(memory.id, content="Lives in Rome")

        again = keyword_memory.add_memory("Lives in Bonn")

        assert again.content == "Lives in Bonn"
        assert keyword_memory.status().memories == 2

    def test_all_or_none_are_saved(self, keyword_memory: AgentMemory) -> None:
        memories: list[Any] = [Memory(content="fine"), "not a memory"]

        with pytest.raises(TypeError, match=r"memories\[1\]"):
            keyword_memory.add_memories(memories)

        assert keyword_memory.status().memories == 0

    @pytest.mark.parametrize(
        ("field", "value"), [("content", " "), ("priority", "x"), ("scope", "team"), ("colour", 1)]
    )
    def test_an_unusable_field_is_named(
        self, keyword_memory: AgentMemory, field: str, value: Any
    ) -> None:
        with pytest.raises(ValueError, match=rf"(?m)^{field}"):
            keyword_memory.add_memory(**{"content": "x", field: value})

    def test_a_memory_may_belong_to_another_scope_of_the_turn(
        self, keyword_memory: AgentMemory
    ) -> None:
        added = keyword_memory.add_memory("only here", scope="thread", config=ANNA)

        assert (added.scope, added.scope_id) == ("thread", "t1")
        assert contents(keyword_memory, "here", config=BEN) == []
        assert contents(keyword_memory, "here", config=ANNA, scope="thread") == ["only here"]


class TestAddingMessages:
    """Conversations as they happen."""

    def test_a_conversation_is_captured(self, keyword_memory: AgentMemory) -> None:
        report = keyword_memory.add_messages(
            "t1",
            [
                HumanMessage("Where is the violin?"),
                AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}]),
                AIMessage("On the shelf"),
                Message(role="user", content="Thanks", name="Anna", recorded_at=NOON),
            ],
        )

        assert (report.saved, report.skipped) == (3, 1)
        (hit,) = keyword_memory.search_conversations("violin").results
        assert (hit.session_key, hit.role) == ("t1", "user")
        (thanks,) = keyword_memory.search_conversations("Anna").results
        assert (thanks.name, thanks.recorded_at) == ("Anna", NOON)

    def test_a_whole_history_can_be_captured_again_and_again(
        self, keyword_memory: AgentMemory
    ) -> None:
        history = [HumanMessage("one", id="1"), AIMessage("two", id="2")]
        keyword_memory.add_messages("t1", history)

        report = keyword_memory.add_messages("t1", [*history, HumanMessage("three", id="3")])

        assert (report.saved, report.duplicates) == (1, 2)
        assert keyword_memory.status().messages == 3

    def test_a_message_captured_again_keeps_its_time(self, keyword_memory: AgentMemory) -> None:
        (first,) = keyword_memory.add_messages("t1", [HumanMessage("one", id="1")]).records
        (again,) = keyword_memory.add_messages("t1", [HumanMessage("one", id="1")]).records

        assert again == first

    def test_an_edited_message_replaces_its_former_text(self, keyword_memory: AgentMemory) -> None:
        keyword_memory.add_messages("t1", [HumanMessage("the red one", id="1")])
        keyword_memory.add_messages("t1", [HumanMessage("the blue one", id="1")])

        assert keyword_memory.search_conversations("red").total == 0
        assert keyword_memory.search_conversations("blue").total == 1

    def test_without_a_session_each_message_names_its_own(
        self, keyword_memory: AgentMemory
    ) -> None:
        messages = [Message(role="user", content=f"in {s}", session_key=s) for s in ("a", "b")]

        keyword_memory.add_messages(None, messages)

        (hit,) = keyword_memory.search_conversations("in", session_key="b").results
        assert hit.content == "in b"
        with pytest.raises(ValueError, match="session_key"):
            keyword_memory.add_messages(None, [HumanMessage("where?")])

    @pytest.mark.parametrize("key", [" t1 ", "t1", "\tt1"])
    def test_the_key_that_was_given_is_the_key_to_search_by(
        self, keyword_memory: AgentMemory, key: str
    ) -> None:
        keyword_memory.add_messages(key, [HumanMessage("hello")])
        keyword_memory.add_memory("hello", session_key=key)

        assert keyword_memory.search_conversations("hello", session_key=key).total == 1
        assert keyword_memory.search_memories("hello", session_key=key).total == 1


class TestEditing:
    """Updating, deleting, restoring and purging, in every index at once."""

    def test_an_update_is_found_by_its_new_words(self, memory: AgentMemory) -> None:
        added = memory.add_memory("The kitten naps on the couch")

        updated = memory.update_memory(added.id, content="Interest rates rose", priority=5)

        assert memory.get(added.id) == updated
        assert (updated.content, updated.priority) == ("Interest rates rose", 5)
        (by_meaning,) = memory.search_memories("economy and finance").results
        assert by_meaning.content == "Interest rates rose"
        assert by_meaning.similarity is not None
        assert by_meaning.similarity > 0.1
        by_old_words = memory.search_memories("kitten naps couch", min_similarity=0.4)
        assert by_old_words.results == []

    @pytest.mark.parametrize("id_", ["missing", "", "msg"])
    def test_what_is_no_live_memory_cannot_be_updated(
        self, keyword_memory: AgentMemory, id_: str
    ) -> None:
        keyword_memory.add_messages("t1", [HumanMessage("x", id="msg")])

        with pytest.raises(ValueError, match=f"id: there is no memory '{id_}'"):
            keyword_memory.update_memory(id_, content="y")

    def test_an_unknown_field_is_named(self, keyword_memory: AgentMemory) -> None:
        added = keyword_memory.add_memory("x")
        changes: dict[str, Any] = {"colour": "red"}

        with pytest.raises(ValueError, match="colour"):
            keyword_memory.update_memory(added.id, **changes)

    def test_deletion_works_in_every_search_and_can_be_undone(self, memory: AgentMemory) -> None:
        kept = memory.add_memory("The dog barks at night")
        gone = memory.add_memory("The kitten naps on the couch")

        assert memory.delete(gone.id) == 1
        assert memory.delete([gone.id, "missing"]) == 0
        assert memory.get(gone.id) is None
        for query in ("kitten couch", "a sleeping cat"):
            assert contents(memory, query) == [kept.content]
        assert memory.status().memories == 1

        assert memory.restore([gone.id]) == 1
        assert memory.restore(gone.id) == 0
        assert contents(memory, "a sleeping cat")[0] == gone.content
        assert memory.get(gone.id) == gone

    def test_purging_is_for_good(self, memory: AgentMemory) -> None:
        one, two = memory.add_memory("The kitten naps"), memory.add_memory("The dog barks")
        memory.delete(one.id)

        assert memory.purge([one.id, two.id, "missing"]) == 2
        assert memory.restore([one.id, two.id]) == 0
        assert memory.search_memories("kitten dog").results == []
        assert memory.status().memories == 0
        assert memory.add_memory("The kitten naps").id == one.id

    def test_records_of_both_kinds_go_at_once(self, keyword_memory: AgentMemory) -> None:
        memory = keyword_memory.add_memory("x")
        report = keyword_memory.add_messages("t1", [HumanMessage("y")])

        assert keyword_memory.delete([memory.id, report.records[0].id]) == 2
        assert keyword_memory.get(memory.id) is None
        assert keyword_memory.get(report.records[0].id) is None

    def test_get_tells_memories_from_messages(self, keyword_memory: AgentMemory) -> None:
        memory = keyword_memory.add_memory("x")
        (said,) = keyword_memory.add_messages("t1", [HumanMessage("y")]).records

        assert isinstance(keyword_memory.get(memory.id), Memory)
        assert isinstance(keyword_memory.get(said.id), Message)
        assert keyword_memory.get("missing") is None


class TestVectorsThatWait:
    """A write is safe before its vectors are, and the report says how many wait."""

    @pytest.fixture
    def served(self, tmp_path: Path, service_settings: EmbeddingSettings) -> AgentMemory:
        return AgentMemory.open(tmp_path, embedding=service_settings)

    def test_a_write_survives_a_failing_service(
        self, served: AgentMemory, server: EmbeddingServer, tmp_path: Path
    ) -> None:
        server.fault = Fault(status=500)
        with closing(served):
            report = served.add_memories([Memory(content="The kitten naps")])

            assert (report.saved, report.indexed, report.pending) == (1, 0, 1)
            assert "500" in (report.problem or "")
            assert contents(served, "kitten") == ["The kitten naps"]
            assert served.status().pending == 1
            assert any("500" in problem for problem in served.status().problems)
        with AgentMemory.open(tmp_path, embedding="none") as reopened:
            assert contents(reopened, "kitten") == ["The kitten naps"]

    def test_the_next_write_brings_the_vectors_of_the_last(
        self, served: AgentMemory, server: EmbeddingServer
    ) -> None:
        with closing(served):
            server.fault = Fault(status=500, times=3)
            first = served.add_memories([Memory(content="The kitten naps")])
            assert (first.indexed, first.pending) == (0, 1)

            report = served.add_memories([Memory(content="The dog barks")])

            assert (report.indexed, report.pending, report.problem) == (2, 0, None)
            assert served.status().problems == []

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_a_service_that_fails_for_a_moment_is_waited_for(
        self, served: AgentMemory, server: EmbeddingServer, status: int, pauses: list[float]
    ) -> None:
        with closing(served):
            server.fault = Fault(status=status, times=2)

            report = served.add_memories([Memory(content="The kitten naps")])

            assert (report.indexed, report.pending, report.problem) == (1, 0, None)
            assert len(pauses) == 2

    def test_a_text_that_the_service_refuses_is_named_and_takes_no_other_with_it(
        self, served: AgentMemory, server: EmbeddingServer
    ) -> None:
        with closing(served):
            server.fault = Fault(poison="poison")
            texts = ("The kitten naps", "A poisoned text", "The dog barks")

            report = served.add_memories([Memory(id=text, content=text) for text in texts])

            assert (report.saved, report.indexed, report.pending) == (3, 2, 1)
            assert "such as A poisoned text: " in (report.problem or "")
            assert contents(served, "text")[0] == "A poisoned text"
            assert served.search_memories("text").notes == [
                (
                    f"1 record waits to be found by meaning ({report.problem}); "
                    "memory.sync() writes the vectors"
                )
            ]
            server.fault = None
            assert served.sync().pending == 0
            assert served.search_memories("text").notes == []

    def test_sync_brings_them_and_tells_of_its_progress(
        self, served: AgentMemory, server: EmbeddingServer
    ) -> None:
        with closing(served):
            server.fault = Fault(status=401, times=1)
            served.add_memories([Memory(content=f"text {i}") for i in range(5)])
            told: list[tuple[int, int]] = []

            report = served.sync(lambda done, left: told.append((done, left)))

            assert (report.indexed, report.pending, report.problem) == (5, 0, None)
            assert told == [(5, 0)]
            assert served.sync() == WriteReport()

    def test_a_sync_that_fails_says_why(self, served: AgentMemory, server: EmbeddingServer) -> None:
        with closing(served):
            server.stop()
            served.add_memory("The kitten naps")

            report = served.sync()

            assert (report.indexed, report.pending) == (0, 1)
            assert report.problem is not None
            server.start()
            assert served.sync().indexed == 1

    def test_without_an_embedding_nothing_waits(self, keyword_memory: AgentMemory) -> None:
        report = keyword_memory.add_memories([Memory(content="x")])

        assert (report.pending, report.problem) == (0, None)
        assert keyword_memory.sync() == WriteReport()

    def test_with_settings_missing_they_wait_and_the_setting_is_named(self) -> None:
        with AgentMemory.in_memory(embedding="openai_compatible") as memory:
            report = memory.add_memories([Memory(content="x")])

        assert report.pending == 1
        assert "embedding.api_key" in (report.problem or "")


class TestStatus:
    """What there is, and what is degraded."""

    def test_of_a_hybrid_memory(self, memory: AgentMemory) -> None:
        memory.add_memories([Memory(content="a"), Memory(content="b")])
        memory.add_messages("t1", [HumanMessage("c")])
        memory.delete([hit.id for hit in memory.search_memories("b", 1).results])

        status = memory.status()

        assert (status.memories, status.messages, status.pending) == (1, 1, 0)
        assert (status.strategy, status.embedding) == ("hybrid", "wordllama-l2_supercat-256")
        assert (status.keyword_index, status.problems) == ("fts5", [])

    def test_of_a_memory_without_an_embedding(self, keyword_memory: AgentMemory) -> None:
        status = keyword_memory.status()

        assert (status.strategy, status.embedding, status.problems) == ("fts", None, [])

    def test_of_a_memory_with_settings_missing(self) -> None:
        with AgentMemory.in_memory(embedding="openai_compatible") as memory:
            status = memory.status()

        assert status.strategy == "fts"
        assert any("embedding.api_key" in problem for problem in status.problems)


OPERATIONS: list[Callable[[AgentMemory], Any]] = [
    lambda memory: memory.add_memory("x"),
    lambda memory: memory.add_messages("t", [HumanMessage("x")]),
    lambda memory: memory.search_memories("x"),
    lambda memory: memory.search_conversations("x"),
    lambda memory: asyncio.run(memory.asearch_memories("x")),
    lambda memory: asyncio.run(memory.asearch_conversations("x")),
    lambda memory: memory.get("x"),
    lambda memory: memory.update_memory("x", content="y"),
    lambda memory: memory.delete("x"),
    lambda memory: memory.restore("x"),
    lambda memory: memory.purge("x"),
    lambda memory: memory.status(),
    lambda memory: memory.sync(),
    lambda memory: memory.rebuild_vectors(),
    lambda memory: memory.check(repair=True),
    lambda memory: asyncio.run(memory.aget("x")),
]


class TestClosing:
    """A memory can be closed at any time, and then says so."""

    @pytest.mark.parametrize("embedding", ["local", "none"])
    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_a_closed_memory_says_so(
        self, embedding: str, operation: Callable[[AgentMemory], Any]
    ) -> None:
        memory = AgentMemory.in_memory(embedding=embedding)
        memory.close()
        memory.close()

        with pytest.raises(StorageError, match="is closed"):
            operation(memory)

    @pytest.mark.parametrize("embedding", ["local", "none"])
    def test_with_closes(self, tmp_path: Path, embedding: str) -> None:
        with AgentMemory.open(tmp_path, embedding=embedding) as memory:
            assert memory.get("x") is None
        with pytest.raises(StorageError, match="is closed"):
            memory.get("x")

    async def test_async_with_closes(self, tmp_path: Path) -> None:
        async with AgentMemory.open(tmp_path, embedding="none") as memory:
            assert await memory.aget("x") is None
        with pytest.raises(StorageError, match="is closed"):
            await memory.aget("x")

    def test_closing_in_memory_frees_its_vectors(self) -> None:
        with AgentMemory.in_memory(embedding="local") as memory:
            memory.add_memory("x")
            index = memory._vectors.index
            assert index is not None
            assert index._names()

        assert index._names() == []

    def test_closing_during_a_search_raises_nothing_strange(self, tmp_path: Path) -> None:
        memory = AgentMemory.open(tmp_path, embedding="local")
        memory.add_memories([Memory(content=f"text {i}") for i in range(200)])
        strange: list[BaseException] = []

        def work() -> None:
            try:
                while True:
                    memory.search_memories("text")
            except StorageError:
                pass
            except BaseException as error:  # noqa: BLE001  (whatever it is, it is looked at)
                strange.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        threading.Event().wait(0.3)
        memory.close()
        for thread in threads:
            thread.join(30)

        assert strange == []
        assert not any(thread.is_alive() for thread in threads)

    @pytest.mark.parametrize("searches", [1, 40])  # 40 are more than there are workers
    async def test_closing_during_async_searches_cancels_none(self, searches: int) -> None:
        class Slow(DeterministicFakeEmbedding):
            def embed_query(self, text: str) -> list[float]:
                time.sleep(0.3)
                return super().embed_query(text)

        memory = AgentMemory.in_memory(embedding=Slow(size=3))
        tasks = [asyncio.create_task(memory.asearch_memories(f"text {i}")) for i in range(searches)]
        await asyncio.sleep(0.1)
        memory.close()

        ends = await asyncio.gather(*tasks, return_exceptions=True)

        assert [type(end) for end in ends] == [StorageError] * searches
        assert {str(end) for end in ends} == {"the memory at :memory: is closed"}


class TestAsyncTwins:
    """Every method that does I/O has a twin that awaits."""

    TWINS = {  # noqa: RUF012  (a table)
        "add_memory": "aadd_memory",
        "add_memories": "aadd_memories",
        "add_messages": "aadd_messages",
        "search_memories": "asearch_memories",
        "search_conversations": "asearch_conversations",
        "get": "aget",
        "update_memory": "aupdate_memory",
        "delete": "adelete",
        "restore": "arestore",
        "purge": "apurge",
        "merge_memories": "amerge_memories",
        "sync": "async_sync",
        "rebuild_vectors": "arebuild_vectors",
        "check": "acheck",
        "status": "astatus",
        "stats": "astats",
        "export": "aexport",
        "import_chroma": "aimport_chroma",
        "close": "aclose",
    }

    def test_no_method_lacks_its_twin(self) -> None:
        methods = {
            name
            for name, value in inspect.getmembers(AgentMemory, inspect.isfunction)
            if not name.startswith("_") and not inspect.iscoroutinefunction(value)
        }

        assert methods == set(self.TWINS)

    @pytest.mark.parametrize(("name", "twin"), TWINS.items())
    def test_a_twin_takes_what_its_method_takes(self, name: str, twin: str) -> None:
        method, other = getattr(AgentMemory, name), getattr(AgentMemory, twin)

        assert inspect.iscoroutinefunction(other)
        assert list(inspect.signature(other).parameters) == list(
            inspect.signature(method).parameters
        )
        assert other.__doc__

    @pytest.mark.parametrize("embedding", ["local", "none"])
    async def test_the_whole_life_of_a_memory(self, tmp_path: Path, embedding: str) -> None:
        async with AgentMemory.open(tmp_path, embedding=embedding) as memory:
            added = await memory.aadd_memory("The kitten naps", config=ANNA)
            report = await memory.aadd_memories([Memory(content="The dog barks")])
            said = await memory.aadd_messages("t1", [HumanMessage("hello kitten")])
            assert (report.saved, said.saved) == (1, 1)
            assert await memory.aget(added.id) == added
            found = await memory.asearch_memories("kitten", config=ANNA)
            assert found == memory.search_memories("kitten", config=ANNA)
            assert found.results[0].id == added.id
            heard = await memory.asearch_conversations("kitten")
            assert heard.total == 1
            updated = await memory.aupdate_memory(added.id, priority=1)
            assert updated.priority == 1
            assert await memory.adelete(added.id) == 1
            assert await memory.arestore([added.id]) == 1
            assert await memory.apurge([added.id]) == 1
            assert (await memory.async_sync()).pending == 0
            assert all(finding.ok for finding in await memory.acheck(repair=True))
            assert (await memory.arebuild_vectors()).pending == 0
            status = await memory.astatus()
            assert (status.memories, status.messages) == (1, 1)
        with pytest.raises(ValueError, match="limit"):
            await memory.asearch_memories("x", 0)


class TestThreads:
    """One memory serves any number of threads and tasks."""

    @pytest.mark.parametrize("embedding", ["local", "none"])
    @pytest.mark.parametrize("in_memory", [True, False])
    def test_threads_that_did_not_open_it_read_and_write(
        self, tmp_path: Path, embedding: str, in_memory: bool
    ) -> None:
        memory = (
            AgentMemory.in_memory(embedding=embedding)
            if in_memory
            else AgentMemory.open(tmp_path, embedding=embedding)
        )
        failures: list[BaseException] = []

        def work(worker: int) -> None:
            try:
                for i in range(8):
                    word = f"word{worker}x{i}"
                    added = memory.add_memory(f"a text with {word}")
                    found = memory.search_memories(word, 3)
                    assert found.results[0].id == added.id, word
                    assert found.notes == [] or "wait" in found.notes[0]
                    if i % 2:
                        memory.update_memory(added.id, priority=i)
                    elif i % 4 == 2:
                        memory.delete(added.id)
            except BaseException as error:  # noqa: BLE001  (it is looked at below)
                failures.append(error)

        with closing(memory):
            threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)

            assert failures == []
            status = memory.status()
            assert (status.memories, status.pending) == (8 * 6, 0)

    async def test_tasks_write_and_search_at_once(self, memory: AgentMemory) -> None:
        async def work(worker: int) -> None:
            added = await memory.aadd_memory(f"a text with word{worker}")
            found = await memory.asearch_memories(f"word{worker}", 1)
            assert found.results[0].id == added.id

        await asyncio.gather(*(work(worker) for worker in range(30)))

        assert memory.status().memories == 30


@pytest.mark.parametrize("limit", [1, 100])
def test_the_limits_of_the_limit_are_allowed(keyword_memory: AgentMemory, limit: int) -> None:
    keyword_memory.add_memories([Memory(content=f"text {i}") for i in range(120)])
    keyword_memory.add_messages("t1", [HumanMessage(f"text {i}") for i in range(120)])

    assert keyword_memory.search_memories("text", limit).total == limit
    assert keyword_memory.search_conversations("text", limit).total == limit


def test_a_config_of_the_wrong_form_is_refused(keyword_memory: AgentMemory) -> None:
    for config in ({"configurable": {"user_id": ["u"]}}, {"configurable": "u"}):
        with pytest.raises(ValueError, match="configurable"):
            keyword_memory.search_memories("x", config=config)


def test_saving_anew_under_an_id_leaves_what_is_not_given(keyword_memory: AgentMemory) -> None:
    keyword_memory.add_memory("old", id="a", type="persona", priority=9, scene_name="s", tags=["t"])
    keyword_memory.add_memory("new", id="a")

    found = keyword_memory.get("a")

    assert isinstance(found, Memory)
    assert (found.content, found.type, found.priority) == ("new", "persona", 9)
    assert (found.scene_name, found.tags) == ("s", ["t"])


def test_a_record_that_comes_twice_in_one_call_is_counted_once(keyword_memory: AgentMemory) -> None:
    report = keyword_memory.add_memories(
        [Memory(id="a", content="one"), Memory(id="a", content="two")]
    )

    assert report.saved == 1


def test_with_required_scope_a_turn_without_a_user_saves_nothing(tmp_path: Path) -> None:
    with AgentMemory.open(tmp_path, embedding="none", require_scope=True) as memory:
        for config in ({}, {"configurable": {"thread_id": "t"}}):
            with pytest.raises(ValueError, match="user_id"):
                memory.add_memory("My PIN is 1234", config=config)
            with pytest.raises(ValueError, match="user_id"):
                memory.add_messages("t", [HumanMessage("My PIN is 1234")], config=config)
        assert memory.status().memories == memory.status().messages == 0

        memory.add_memory("The office closes at six")  # code that names no turn says so itself
        memory.add_memory("Likes tea", config={"configurable": {"user_id": "ann"}})
        assert memory.status().memories == 2


def test_an_unusable_field_is_told_in_words(keyword_memory: AgentMemory) -> None:
    tool = AgentMemoryToolkit(memory=keyword_memory, editing=True).get_tools()[2]

    assert tool.invoke({"content": " "}) == "memory_add failed: content: must not be blank"


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda memory: memory.add_messages(5, [HumanMessage("tea")]), "session_key must be text"),
        (lambda memory: memory.add_memories(None), "memories must be a list of memories"),
        (lambda memory: memory.add_memories(Memory(content="tea")), "memories must be a list"),
        (lambda memory: memory.add_memories("tea"), "memories must be a list of memories, not str"),
        (lambda memory: memory.add_messages("s", HumanMessage("tea")), "messages must be a list"),
        (lambda memory: memory.get(None), "id must be text, not NoneType"),
        (lambda memory: memory.update_memory(5, content="tea"), "id must be text, not int"),
        (lambda memory: memory.delete(5), "ids must be a list of ids, not int"),
        (lambda memory: memory.restore([5]), r"ids\[0\] must be text, not int"),
        (lambda memory: memory.purge(["a", None]), r"ids\[1\] must be text, not NoneType"),
        (lambda memory: memory.merge_memories(None), "ids must be a list of ids, not NoneType"),
        (lambda _: AgentMemory.open(5), "folder must be a path, not int"),  # type: ignore[arg-type]
    ],
)
def test_an_argument_of_another_type_is_named(
    keyword_memory: AgentMemory, call: Callable[[Any], Any], named: str
) -> None:
    with pytest.raises(TypeError, match=named):
        call(keyword_memory)


def test_copies_of_a_tool_work_on_the_same_memory() -> None:
    with AgentMemory.in_memory(embedding="none") as memory:
        toolkit = AgentMemoryToolkit(memory=memory)
        tool = toolkit.get_tools()[0]
        copies = [copy.copy(tool), copy.deepcopy(tool), tool.model_copy(deep=True)]
        copies += copy.deepcopy(toolkit).get_tools()[:1]
        memory.add_memory("likes cats")
        assert all("likes cats" in each.invoke("cats") for each in copies)
        assert copy.copy(memory) is copy.deepcopy(memory) is memory
        with pytest.raises(TypeError, match="cannot be pickled: open its folder"):
            pickle.dumps(tool)


@pytest.mark.parametrize("timeout", [0, -1, "soon", float("nan"), True])
def test_an_unusable_time_limit_of_a_sync_is_named(
    keyword_memory: AgentMemory, timeout: float
) -> None:
    with pytest.raises(ValueError, match="timeout"):
        keyword_memory.sync(timeout=timeout)
