"""The folder of a memory: it is named, made, and taken from others as a whole."""

from pathlib import Path

import pytest

from langchain_agentmem import AgentMemory
from langchain_agentmem.errors import StorageError
from langchain_agentmem.storage.folder import FILE_NAME, private_folder


def test_a_folder_is_made_for_its_user_alone(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / "deep" / "memory")

    assert folder.is_dir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert private_folder(folder) == folder  # and used where it is there


@pytest.mark.parametrize("blank", ["", "   "])
def test_a_folder_must_be_named(blank: str) -> None:
    with pytest.raises(ValueError, match="folder must not be blank"):
        private_folder(blank)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match="cannot use the folder"):
            private_folder(path)


def test_the_home_folder_is_written_with_a_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert private_folder("~/memory") == tmp_path / "memory"


@pytest.mark.parametrize("folder", ["~nobody-of-this-name/memory", "circle", "circle/memory"])
def test_a_path_that_leads_nowhere_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("circle").symlink_to("circle")

    with pytest.raises(StorageError, match=f"cannot use the folder .*{Path(folder).parts[0]}"):
        private_folder(folder)


def test_whatever_a_memory_leaves_in_its_folder_is_taken_from_others(tmp_path: Path) -> None:
    with AgentMemory.open(tmp_path, embedding="local") as memory:
        memory.add_memory("likes tea")
        for name in ("chroma.trial", "chroma.broken-12"):
            (tmp_path / name).mkdir()
        for name in ("chroma.seal.new", f"{FILE_NAME}-journal"):
            (tmp_path / name).touch()
        there = [tmp_path, *tmp_path.iterdir()]
        for path in there:
            path.chmod(0o755)

        private_folder(tmp_path)

        assert [path.name for path in there if path.stat().st_mode & 0o077] == []


def test_what_is_no_memorys_is_left_to_others(tmp_path: Path) -> None:
    others = ["notes", "chroma-of-mine", "chroma.sealed", "my-vectors.lock"]
    for name in [FILE_NAME, "chroma", *others]:
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o644)

    tmp_path.chmod(0o755)

    private_folder(tmp_path)

    mine = {path.name for path in tmp_path.iterdir() if path.stat().st_mode & 0o077 == 0}
    assert mine == {FILE_NAME, "chroma"}
    assert tmp_path.stat().st_mode & 0o777 == 0o755
