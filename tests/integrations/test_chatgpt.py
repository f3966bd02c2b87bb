"""ChatGPT's data export becomes conversations."""

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from langchain_agentmem import AgentMemory, Message
from langchain_agentmem.integrations.chatgpt import import_chatgpt, read_chatgpt
from langchain_agentmem.integrations.histories import import_history

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
START = 1_700_000_000.25


def said(role: str, *parts: Any, **fields: Any) -> dict[str, Any]:
    """A message as the export has it."""
    content = {"content_type": "text", "parts": list(parts)}
    return {
        "author": {"role": role, "name": None, "metadata": {}},
        "content": content,
        "create_time": None,
        "weight": 1.0,
        "recipient": "all",
        "metadata": {},
        **fields,
    }


def conversation(*messages: dict[str, Any] | None, **fields: Any) -> dict[str, Any]:
    """A conversation without branches: a root without a message, then these in a line."""
    mapping: dict[str, Any] = {}
    parent = None
    for number, message in enumerate([None, *messages]):
        node_id = f"node-{number}"
        known = message and {"id": f"msg-{number}", **message}
        mapping[node_id] = {"id": node_id, "message": known, "parent": parent, "children": []}
        parent = node_id
    return {
        "title": "The roof",
        "conversation_id": "c-1",
        "create_time": START,
        "current_node": parent,
        "mapping": mapping,
        **fields,
    }


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., list[Message]]:
    """Read conversations that are all good."""

    def read_good(*conversations: Any) -> list[Message]:
        lines = list(read_chatgpt(write(tmp_path / "conversations.json", *conversations)))
        assert [line.problem for line in lines if line.record is None] == []
        return [line.record for line in lines if isinstance(line.record, Message)]

    return read_good


@pytest.fixture
def memory() -> Iterator[AgentMemory]:
    with AgentMemory.in_memory(embedding="none") as opened:
        yield opened


def write(path: Path, *conversations: Any) -> Path:
    path.write_text(json.dumps(list(conversations)), encoding="utf-8")
    return path


Read = Callable[..., list[Message]]


def test_a_conversation_is_read_in_order(read: Read) -> None:
    first, second = read(
        conversation(
            said("user", "The roof leaks", create_time=START + 1),
            said("assistant", "Since when?", create_time=START + 2),
        )
    )

    assert (first.id, first.session_key, first.role) == ("msg-1", "c-1", "user")
    assert (second.content, second.role) == ("Since when?", "assistant")
    assert first.recorded_at.timestamp() == START + 1
    assert first.metadata == {"source": "chatgpt", "title": "The roof"}


def test_of_branches_the_one_that_was_open_counts(read: Read) -> None:
    told = conversation(said("user", "one"), said("assistant", "two"))
    branch = {"id": "other", "message": {"id": "x", **said("assistant", "another two")}}
    told["mapping"]["other"] = {**branch, "parent": "node-1", "children": []}

    assert [m.content for m in read(told)] == ["one", "two"]
    assert [m.content for m in read({**told, "current_node": "other"})] == ["one", "another two"]


@pytest.mark.parametrize("current", [None, "gone"])
def test_where_none_is_open_the_latest_counts(read: Read, current: str | None) -> None:
    told = conversation(
        said("user", "one", create_time=START),
        said("assistant", "two", create_time=START + 9),
        current_node=current,
    )
    branch = {"message": {"id": "x", **said("assistant", "early", create_time=START + 5)}}
    told["mapping"]["other"] = {**branch, "parent": "node-1", "children": []}

    assert [m.content for m in read(told)] == ["one", "two"]


@pytest.mark.parametrize(
    "hidden",
    [
        said("system", ""),
        said("system", "secret", metadata={"is_visually_hidden_from_conversation": True}),
        said("assistant", "search('x')", recipient="python"),
        said("assistant", "dropped", weight=0.0),
        said("assistant", "", content={"content_type": "thoughts", "thoughts": []}),
        said("assistant", "", content={"content_type": "reasoning_recap", "content": "9 s"}),
        said("user", "", content={"content_type": "user_editable_context", "user_profile": "x"}),
        said("user", {"content_type": "image_asset_pointer", "asset_pointer": "file://1"}),
        said("user", content=None),
        None,
    ],
)
def test_what_was_not_there_to_be_read_is_left_out(
    read: Read, hidden: dict[str, Any] | None
) -> None:
    told = conversation(said("user", "before"), hidden, said("assistant", "after"))

    assert [m.content for m in read(told)] == ["before", "after"]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (said("user", "a", "b"), "a\nb"),
        (said("user", {"content_type": "image_asset_pointer"}, "what is it?"), "what is it?"),
        (
            said("user", {"content_type": "audio_transcription", "text": "spoken"}),
            "spoken",
        ),
        (said("assistant", content={"content_type": "code", "text": "print(1)"}), "print(1)"),
        (said("tool", content={"content_type": "execution_output", "text": "1"}), "1"),
    ],
)
def test_all_kinds_of_text_are_read(read: Read, message: dict[str, Any], text: str) -> None:
    (record,) = read(conversation(message))

    assert (record.content, record.role) == (text, message["author"]["role"])


def test_times_keep_the_order_of_the_conversation(read: Read) -> None:
    times = [
        m.recorded_at
        for m in read(
            conversation(
                said("user", "no time"),
                said("assistant", "late", create_time=START + 60),
                said("user", "a clock that is behind", create_time=START + 30),
                said("assistant", "none again"),
            )
        )
    ]

    assert times == sorted(set(times))
    assert times[0].timestamp() == pytest.approx(START)


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("text", "it has no mapping of messages"),
        ({"title": "T", "id": "c"}, '("T"): it has no mapping of messages'),
        (conversation(said("user", "x"), conversation_id=None), "it has no id"),
        (conversation(said("bot", "x")), 'message "node-1" cannot be read: role: unknown role'),
        (conversation({"content": {"parts": ["x"]}}), 'message "node-1" cannot be read'),
        (conversation(said("user", "x"), mapping={"a": 7}, current_node="a"), "cannot be read"),
    ],
)
def test_what_is_bad_is_named_by_number_and_the_rest_is_kept(
    memory: AgentMemory, tmp_path: Path, bad: Any, problem: str
) -> None:
    good = conversation(said("user", "good"), conversation_id="good")

    report = import_chatgpt(memory, write(tmp_path / "conversations.json", good, bad, good))

    assert (report.messages, report.skipped) == (1, 1)
    assert report.problems[0].startswith(f"{tmp_path / 'conversations.json'}: conversation 2: ")
    assert problem in report.problems[0]


def test_a_circle_in_the_tree_ends(read: Read) -> None:
    told = conversation(said("user", "one"), said("assistant", "two"))
    told["mapping"]["node-0"]["parent"] = "node-2"

    assert [m.content for m in read(told)] == ["one", "two"]


def test_doing_it_again_adds_what_is_new(memory: AgentMemory, tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    first = conversation(said("user", "one"))
    import_chatgpt(memory, write(file, first))

    longer = conversation(said("user", "one"), said("assistant", "two"), title="Another title")
    report = import_chatgpt(memory, write(file, longer))

    assert (report.messages, report.duplicates, report.problems) == (1, 1, [])


def test_the_messages_become_the_turns(memory: AgentMemory, tmp_path: Path) -> None:
    file = write(tmp_path / "conversations.json", conversation(said("user", "The roof leaks")))
    ann: dict[str, Any] = {"configurable": {"user_id": "ann"}}

    import_chatgpt(memory, file, config=ann)

    assert memory.search_conversations("roof", config=ann).total == 1
    assert memory.search_conversations("roof", config={"configurable": {"user_id": "b"}}).total == 0


@pytest.mark.parametrize("text", ["", " ", "\u200b", "\u2060\ufeff"], ids=ascii)
def test_what_shows_nothing_is_no_message(read: Callable[..., list[Message]], text: str) -> None:
    assert [m.content for m in read(conversation(said("user", text), said("user", "x")))] == ["x"]


@pytest.mark.parametrize("id_", [None, "", 5, ["a"], {"a": 1}], ids=repr)
def test_a_message_without_a_usable_id_has_that_of_its_place(
    read: Callable[..., list[Message]], id_: Any
) -> None:
    assert [m.id for m in read(conversation(said("user", "x", id=id_)))] == ["node-1"]


@pytest.mark.parametrize("names", [["conversations.json"], ["conversations-000.json", "x/y.json"]])
def test_a_zip_file_is_read(memory: AgentMemory, tmp_path: Path, names: list[str]) -> None:
    document = json.dumps([conversation(said("user", "The roof leaks"))])
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for name in [*names, "user.json"]:
            archive.writestr(name, document)

    assert import_chatgpt(memory, tmp_path / "export.zip").messages == 1


def test_a_folder_of_numbered_parts_is_read(memory: AgentMemory, tmp_path: Path) -> None:
    for number in range(2):
        told = conversation(said("user", "x"), conversation_id=f"c-{number}")
        write(tmp_path / f"conversations-00{number}.json", told)
    (tmp_path / "user.json").write_text("{}")

    assert import_chatgpt(memory, tmp_path).messages == 2


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[{", r"is not JSON"),
        (b"[" * 100_000, r"cannot be read \(maximum recursion depth"),
        (b"\xff\xfe[", r"is not UTF-8"),
        (b"7", r"no list of conversations"),
        (None, r"no conversations\.json there"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    memory: AgentMemory, tmp_path: Path, content: bytes | None, problem: str
) -> None:
    file = tmp_path / "conversations.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=problem):
        import_chatgpt(memory, file)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[{", "is not JSON"),
        (b"[" * 100_000, "cannot be read (maximum recursion depth"),
        (b"\xff\xfe[", "is not UTF-8"),
        (b"7", "no list of conversations"),
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_a_later_file_that_cannot_be_read_costs_no_other(
    memory: AgentMemory, tmp_path: Path, content: bytes, problem: str, *, zipped: bool
) -> None:
    parts = [
        json.dumps([conversation(said("user", "x"), conversation_id=f"c-{n}")]).encode()
        for n in range(3)
    ]
    parts[1] = content
    names = [f"conversations-00{number}.json" for number in range(3)]
    if zipped:
        path = tmp_path / "export.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name, part in zip(names, parts, strict=True):
                archive.writestr(name, part)
        where = f"{path}: file 2: "
    else:
        path = tmp_path
        for name, part in zip(names, parts, strict=True):
            (path / name).write_bytes(part)
        where = f"{path / names[1]}: file 1: "

    report = import_chatgpt(memory, path)

    assert (report.messages, report.skipped) == (2, 1)
    assert report.problems[0].startswith(f"{where}{problem}")
    assert len(report.problems) == 1


def test_a_zip_file_of_something_else_is_named(memory: AgentMemory, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("user.json", "{}")

    with pytest.raises(ValueError, match=r"holds no conversations\.json"):
        import_chatgpt(memory, tmp_path / "export.zip")


@pytest.mark.parametrize("method", METHODS)
def test_a_garbled_zip_file_is_named(memory: AgentMemory, tmp_path: Path, method: int) -> None:
    """Cut off anywhere, or with any byte changed: it is read, or its path is told."""
    path = tmp_path / "export.zip"
    document = json.dumps([conversation(said("user", "hello " * 9))])
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("conversations.json", document)
    whole = path.read_bytes()
    cut = [whole[:n] for n in range(4, len(whole))]
    changed = [whole[:n] + bytes([byte ^ 255]) + whole[n + 1 :] for n, byte in enumerate(whole)]
    for garbled in [*cut, *changed]:
        path.write_bytes(garbled)
        try:
            list(read_chatgpt(path))
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017  (or none, where it can be read)


@pytest.mark.parametrize("kind", ["chatgpt", "history"])
def test_the_home_folder_may_be_a_tilde(
    memory: AgentMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    told: Any = [conversation(said("user", "hello"))] if kind == "chatgpt" else [["user", "hello"]]
    (tmp_path / "export.json").write_text(json.dumps(told), encoding="utf-8")
    read: Any = import_chatgpt if kind == "chatgpt" else import_history
    assert read(memory, "~/export.json").messages == 1
