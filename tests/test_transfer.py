"""What goes out comes in again unchanged."""

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from any_records import MEMORIES, MESSAGES
from exported import lines
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from two_owners import ANN, BEN, fill_for_two

from langchain_agentmem import AgentMemory, Memory, Message, StorageError
from langchain_agentmem.errors import ScopeError
from langchain_agentmem.integrations.imports import import_lines
from langchain_agentmem.interchange import files_of, read_records


def keyword_memory(folder: Path | None = None) -> AgentMemory:
    if folder is None:
        return AgentMemory.in_memory(embedding="none")
    return AgentMemory.open(folder, embedding="none")


def imported(path: Path) -> AgentMemory:
    """A new memory with what was exported to a path."""
    memory = keyword_memory()
    for file in files_of(path):
        report = import_lines(memory, read_records(file))
        assert report.problems == []
    return memory


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[AgentMemory]:
    """Both kinds, two owners, and an id that both gave."""
    with keyword_memory(tmp_path / "m") as memory:
        fill_for_two(memory)
        yield memory


class TestExport:
    def test_a_folder_holds_a_file_of_each_kind(self, filled: AgentMemory, tmp_path: Path) -> None:
        assert filled.export(tmp_path / "out") == {"memories": 3, "messages": 3}
        assert sorted(contents(tmp_path / "out")) == ["memories.jsonl", "messages.jsonl"]

    def test_a_file_holds_both(self, filled: AgentMemory, tmp_path: Path) -> None:
        filled.export(tmp_path / "both.jsonl")

        text = (tmp_path / "both.jsonl").read_text(encoding="utf-8")
        assert text == "".join(lines(filled))
        assert len(text.splitlines()) == 6
        with imported(tmp_path / "both.jsonl") as again:
            assert lines(again) == text.splitlines(keepends=True)

    async def test_the_async_twin_does_the_same(self, filled: AgentMemory, tmp_path: Path) -> None:
        assert await filled.aexport(tmp_path / "out") == {"memories": 3, "messages": 3}

    def test_it_is_for_its_user_alone(self, filled: AgentMemory, tmp_path: Path) -> None:
        filled.export(tmp_path / "out")
        modes = {path.name: path.stat().st_mode for path in tmp_path.rglob("out*/**/*")}

        assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
        assert {stat.S_IMODE(mode) for mode in modes.values()} == {0o600}

    def test_a_folder_that_is_there_keeps_its_rights(
        self, filled: AgentMemory, tmp_path: Path
    ) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out").chmod(0o755)
        filled.export(tmp_path / "out")

        assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o755

    def test_a_path_below_a_file_is_named(self, filled: AgentMemory, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(StorageError, match="cannot write"):
            filled.export(tmp_path / "file")

    def test_what_is_there_is_not_written_over_unless_asked(
        self, filled: AgentMemory, tmp_path: Path
    ) -> None:
        filled.export(tmp_path / "out")
        before = contents(tmp_path / "out")
        filled.add_memory("new")

        with pytest.raises(ValueError, match=r"to: .*memories\.jsonl is there already"):
            filled.export(tmp_path / "out")
        assert contents(tmp_path / "out") == before
        filled.export(tmp_path / "out", replace=True)
        assert contents(tmp_path / "out")["memories.jsonl"].count("\n") == 4

    def test_a_file_that_cannot_be_written_is_named(
        self, filled: AgentMemory, tmp_path: Path
    ) -> None:
        (tmp_path / "out" / "memories.jsonl").mkdir(parents=True)

        with pytest.raises(StorageError, match=r"cannot write .*memories\.jsonl"):
            filled.export(tmp_path / "out", replace=True)
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["memories.jsonl"]

    def test_an_export_that_fails_leaves_the_former_one(
        self, filled: AgentMemory, tmp_path: Path
    ) -> None:
        filled.export(tmp_path / "out")
        before = contents(tmp_path / "out")
        filled.close()

        with pytest.raises(StorageError):
            filled.export(tmp_path / "out", replace=True)
        assert contents(tmp_path / "out") == before

    def test_deleted_records_are_left_out(self, filled: AgentMemory) -> None:
        (tea,) = filled.search_memories("tea").results
        filled.delete(tea.id)

        assert "tea" not in "".join(lines(filled))
        assert len(lines(filled, only="memories")) == 2

    def test_a_turn_exports_what_it_sees(self, filled: AgentMemory) -> None:
        seen = "".join(lines(filled, config=ANN))

        assert "cat" in seen
        assert "tea" in seen
        assert "dog" not in seen

    @pytest.mark.parametrize("to", [5, None, b"out.jsonl", ["out.jsonl"]])
    def test_what_is_neither_path_nor_file_is_named(self, filled: AgentMemory, to: Any) -> None:
        with pytest.raises(TypeError, match="to must be a path or a file that is open, not"):
            filled.export(to)

    def test_a_turn_that_may_see_nothing_writes_over_nothing(
        self, filled: AgentMemory, tmp_path: Path
    ) -> None:
        filled.export(tmp_path / "out")
        before = contents(tmp_path / "out")
        filled.close()
        with AgentMemory.open(tmp_path / "m", embedding="none", require_scope=True) as memory:
            with pytest.raises(ScopeError, match="user_id"):
                memory.export(tmp_path / "out", replace=True, config={})
            with pytest.raises(ScopeError, match="user_id"):
                memory.stats(config={})
        assert contents(tmp_path / "out") == before

    def test_a_link_in_its_way_is_not_followed(self, filled: AgentMemory, tmp_path: Path) -> None:
        """In a folder that others write to, whatever they put there stays as it is."""
        (tmp_path / "out").mkdir()
        (tmp_path / "precious").write_text("precious", encoding="utf-8")
        for name in ("memories.jsonl", f".memories.jsonl.{os.getpid()}.part"):
            (tmp_path / "out" / name).symlink_to(tmp_path / "precious")
        filled.export(tmp_path / "out", only="memories", replace=True)
        assert (tmp_path / "precious").read_text(encoding="utf-8") == "precious"
        assert len(contents(tmp_path / "out")["memories.jsonl"].splitlines()) == 3

    def test_exports_to_one_path_at_once_leave_one_of_them_whole(
        self, filled: AgentMemory, tmp_path: Path
    ) -> None:
        filled.add_memories([Memory(content=f"memory {n}") for n in range(300)])
        file = tmp_path / "out.jsonl"
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(filled.export, file, replace=True) for _ in range(12)]:
                done.result()
        assert file.read_text(encoding="utf-8") == "".join(lines(filled))
        assert [each.name for each in tmp_path.iterdir() if each.name != "m"] == ["out.jsonl"]

    def test_what_cannot_be_exported_is_named(self, filled: AgentMemory, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="only: use one of memories, conversations"):
            filled.export(tmp_path / "out", only="facts")  # type: ignore[arg-type]
        assert not (tmp_path / "out").exists()


class TestRoundTrip:
    def test_ids_that_another_owner_had_stay_known(
        self, filled: AgentMemory, tmp_path: Path
    ) -> None:
        filled.export(tmp_path / "out")
        with imported(tmp_path / "out") as again:
            assert lines(again) == lines(filled)
            for config, pet in ((ANN, "cat"), (BEN, "dog")):
                same = Memory(id="pet", content=f"has a {pet}")
                report = again.add_memories([same], config=config)
                assert (report.saved, report.duplicates) == (0, 1)

    def test_where_an_owner_has_the_id_itself_it_is_the_same_record(
        self, filled: AgentMemory
    ) -> None:
        ben = next(line for line in lines(filled, config=BEN) if "dog" in line)
        with keyword_memory() as other:
            other.add_memories([Memory(id="pet", content="has a dog")], config=BEN)
            there = Memory.model_validate_json(ben)
            assert (there.id, there.given_id) != ("pet", "")

            report = other.add_memories([there], replace=False)

            assert (report.saved, report.duplicates + len(report.conflicts)) == (0, 1)

    def test_the_order_of_a_conversation_is_kept(self, tmp_path: Path) -> None:
        at = "2026-01-02"
        said = [
            Message(id=str(n), role="user", content=f"tea {n}", recorded_at=at)
            for n in (3, 1, 2, 5, 4)
        ]
        with keyword_memory() as memory:
            memory.add_messages("s", said)
            memory.export(tmp_path / "out")
        with imported(tmp_path / "out") as again:
            (hit,) = again.search_conversations("2", limit=1, context=2).results
        around = [[each.id for each in side] for side in (hit.before, hit.after)]
        assert (around, hit.id) == ([["3", "1"], ["5", "4"]], "2")

    def test_pages_are_read_to_the_end(self, tmp_path: Path) -> None:
        with keyword_memory() as memory:
            memory.add_memories([Memory(id=f"m{n}", content=f"x {n}") for n in range(1203)])
            memory.delete([f"m{n}" for n in range(0, 1203, 7)])
            memory.export(tmp_path / "out")
            kept = [n for n in range(1203) if n % 7]
            with imported(tmp_path / "out") as again:
                assert again.status().memories == len(kept)
                assert lines(again) == lines(memory)

    @given(records=st.lists(MEMORIES | MESSAGES, max_size=6))
    @example(
        records=[Message(role="user", session_key="s", content=text, given_id="0") for text in "ab"]
    )
    @settings(
        max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    def test_any_records_come_back_as_they_were(
        self, tmp_path: Path, records: list[Memory | Message]
    ) -> None:
        with keyword_memory() as memory:
            for record in records:
                if isinstance(record, Memory):
                    memory.add_memories([record])
                elif record.session_key:
                    memory.add_messages(None, [record])
            written = lines(memory)
            memory.export(tmp_path / "out.jsonl", replace=True)
            with imported(tmp_path / "out.jsonl") as again:
                assert lines(again) == written

    @pytest.mark.slow
    @pytest.mark.parametrize("number", range(5))
    def test_the_evaluation_data_comes_out_byte_for_byte(
        self, tmp_path: Path, data_folder: Path, number: int
    ) -> None:
        folder = sorted((data_folder / "locomo").glob("conv-*"))[number]
        with imported(folder) as memory:
            memory.export(tmp_path / "out")
        for name in ("memories.jsonl", "messages.jsonl"):
            assert (tmp_path / "out" / name).read_bytes() == (folder / name).read_bytes()
