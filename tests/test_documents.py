"""What a document's metadata means for the record that it becomes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from langchain_agentmem import Memory, Message
from langchain_agentmem.documents import as_record
from langchain_agentmem.records import Record

MOMENT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
AT = int(MOMENT.timestamp())


def memory(**metadata: Any) -> dict[str, Any]:
    """The fields that metadata made different from a bare document's, of a memory."""
    return _told(Memory, metadata)


def message(**metadata: Any) -> dict[str, Any]:
    return _told(Message, metadata)


def _told(record_type: type[Record], metadata: dict[str, Any]) -> dict[str, Any]:
    assert record_type is Memory or record_type is Message
    bare = dict(as_record(record_type, "d", "text", None, "docs"))
    record = dict(as_record(record_type, "d", "text", metadata, "docs"))
    told = {name: value for name, value in record.items() if bare[name] != value}
    # A time that the metadata does not give is the present.
    return {k: v for k, v in told.items() if not isinstance(v, datetime) or v == MOMENT}


def test_a_bare_document_becomes_a_bare_record() -> None:
    record = as_record(Memory, "d", "text", None, "docs")
    said = as_record(Message, "d", "text", {}, "docs")

    assert (record.id, record.content, record.metadata) == ("d", "text", {})
    assert isinstance(said, Message)
    assert (said.session_key, said.role) == ("docs", "user")


@pytest.mark.parametrize(
    ("metadata", "fields"),
    [
        ({"type": "persona", "priority": 80}, {"type": "persona", "priority": 80}),
        ({"scene": "home"}, {"scene_name": "home"}),
        ({"scene_name": "home", "scene": "x"}, {"scene_name": "home", "metadata": {"scene": "x"}}),
        ({"tags": "a, b ,,c"}, {"tags": ["a", "b", "c"]}),
        ({"tags": '["a, b"]'}, {"tags": ["a, b"]}),
        ({"tags": ["a"]}, {"tags": ["a"]}),
        ({"tags": "[" * 100_000}, {"tags": ["[" * 100_000]}),
        ({"strength": 0.5}, {"strength": 0.5}),
        ({"thread_id": 7}, {"session_key": "7"}),
        ({"session_id": "s"}, {"session_key": "s"}),
        ({"created_at": AT}, {"created_at": MOMENT}),
        ({"timestamp": "2023-11-14T22:13:20Z"}, {"created_at": MOMENT}),
        ({"user_id": "ann"}, {"scope_id": "ann"}),
        ({"user_id": 7}, {"scope_id": "7"}),
        ({"scope": "thread", "scope_id": "t"}, {"scope": "thread", "scope_id": "t"}),
        ({"source": "a.pdf", "page": 3}, {"metadata": {"source": "a.pdf", "page": 3}}),
    ],
)
def test_what_means_a_field_becomes_it(metadata: dict[str, Any], fields: dict[str, Any]) -> None:
    assert memory(**metadata) == fields


@pytest.mark.parametrize(
    "metadata",
    [
        {"priority": "high"},
        {"strength": 7},
        {"timestamp": "yesterday"},
        {"tags": "[1, 2]"},
        {"type": ["a"]},
        {"type": " "},
        {"scope": "galaxy"},
        {"user_id": True},
        {"scene": None},
    ],
)
def test_a_value_that_does_not_fit_stays_metadata(metadata: dict[str, Any]) -> None:
    assert memory(**metadata) == {"metadata": metadata}


@pytest.mark.parametrize(
    ("metadata", "owner"),
    [
        ({"scope": "user", "user_id": "ann"}, ("user", "ann")),
        ({"scope": "thread", "user_id": "ann"}, ("user", "ann")),
        ({"scope": "thread", "user_id": "ann", "thread_id": "t"}, ("thread", "t")),
        ({"scope": "persona", "user_id": "ann", "persona_id": "p"}, ("persona", "ann::p")),
        ({"scope": "organization", "organization_id": "acme"}, ("organization", "acme")),
        ({"scope": "galaxy", "user_id": "ann"}, ("user", "ann")),
        ({"user_id": "ann", "scope_id": "ben"}, ("user", "ben")),
        ({"scope": "organization"}, ("organization", "")),
        ({"thread_id": "t"}, ("user", "")),
    ],
)
def test_a_document_of_somebody_stays_theirs(
    metadata: dict[str, Any], owner: tuple[str, str]
) -> None:
    record = as_record(Memory, "d", "text", metadata, "docs")

    assert (record.scope, record.scope_id) == owner


@pytest.mark.parametrize(
    ("metadata", "fields"),
    [
        ({"role": "assistant", "name": "Bot"}, {"role": "assistant", "name": "Bot"}),
        ({"type": "ai"}, {"role": "assistant"}),
        ({"role": "narrator"}, {"metadata": {"role": "narrator"}}),
        ({"speaker": "Ann"}, {"name": "Ann"}),
        ({"conversation_id": "c"}, {"session_key": "c"}),
        ({"recorded_at": AT}, {"recorded_at": MOMENT}),
        ({"tags": "a"}, {"metadata": {"tags": "a"}}),
    ],
)
def test_a_message_takes_its_own_fields(metadata: dict[str, Any], fields: dict[str, Any]) -> None:
    assert message(**metadata) == fields


def test_an_id_or_a_text_that_no_record_can_have_is_an_error() -> None:
    with pytest.raises(ValueError, match="id"):
        as_record(Memory, "x" * 600, "text", {"priority": 1}, "docs")
    with pytest.raises(ValueError, match="content"):
        as_record(Memory, "d", "  ", {"priority": 1}, "docs")
