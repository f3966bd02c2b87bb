"""Message histories of LangChain and LangGraph become conversations.

Either from a file (what `messages_to_dict` or `dumpd` give, as JSON), or from a LangGraph
checkpointer. What user and assistant said is kept, under the ids that `AgentMemoryMiddleware`
captures it by: what was captured already is not saved twice.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import groupby, repeat
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage, messages_from_dict

from langchain_agentmem.capture import unstated
from langchain_agentmem.errors import describe
from langchain_agentmem.integrations.imports import (
    import_lines,
    later,
    save_lines,
    write_waiting_vectors,
)
from langchain_agentmem.integrations.turns import Spoken, fitted, ids_of, spoken, unreadable
from langchain_agentmem.interchange import Line
from langchain_agentmem.memory import AgentMemory
from langchain_agentmem.messages import read_message
from langchain_agentmem.records import Message, clean_text
from langchain_agentmem.reports import ImportReport
from langchain_agentmem.scopes import Config, Turn

UNIT = "message"


def import_history(
    memory: AgentMemory,
    path: str | Path,
    *,
    session_key: str | None = None,
    config: Config | None = None,
) -> ImportReport:
    """Take a file of LangChain messages in. Doing it again adds what is new.

    Args:
        memory: Where they are kept.
        path: A JSON file: a list of messages, `{"messages": [...]}`, or an object of such lists
            by session key.
        session_key: The conversation of a list that names none; None: the file's name without its
            ending.
        config: The `RunnableConfig` of a turn: the messages become its user's.

    Raises:
        ValueError: The file cannot be read. What is wrong with a single message is among the
            report's problems.
        StorageError: The database cannot be written.
    """
    lines = read_history(Path(path).expanduser(), session_key=session_key)
    return import_lines(memory, lines, config=config)


def read_history(path: Path, prefix: str = "", session_key: str | None = None) -> Iterator[Line]:
    """Read a file of LangChain messages. Arguments as in `import_history`.

    Messages have no times: they get that of the file, in order.
    """
    try:
        document = _parsed(path.read_text(encoding="utf-8-sig"))
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (OSError, ValueError, RecursionError) as error:
        msg = f"{path}: cannot be read ({describe(error)})"
        raise ValueError(msg) from error
    number = 0
    for session, listed in _sessions(document, session_key or path.stem, path):
        messages: list[BaseMessage] = []
        numbers: list[int] = []
        for item in listed:
            number += 1
            if not session.strip():
                yield Line(path, number, None, "session_key: a message needs one", UNIT)
                continue
            try:
                messages.append(_message(item))
                numbers.append(number)
            except Exception as error:  # noqa: BLE001  (LangChain has no one error for this)
                problem = f"cannot be read: {describe(error)}"
                yield Line(path, number, None, problem, UNIT)
        said = list(spoken(messages))
        records = _records(
            said, repeat(written, len(said)), {"configurable": {"thread_id": session}}, prefix
        )
        for each, record in zip(said, records, strict=True):
            yield Line(path, numbers[each.position], record, unit=UNIT)


def is_history(document: Any) -> bool:
    """Tell whether JSON looks like LangChain messages: a list, `messages`, or lists by key."""
    if isinstance(document, dict):
        lists = [document["messages"]] if "messages" in document else list(document.values())
        return bool(lists) and all(map(_is_list_of_messages, lists))
    return _is_list_of_messages(document)


def import_threads(
    memory: AgentMemory,
    checkpointer: Any,
    *,
    threads: Iterable[str] | None = None,
    messages_key: str = "messages",
    config: Config | None = None,
) -> ImportReport:
    """Take the threads of a LangGraph checkpointer in. Doing it again adds what is new.

    Each thread's latest messages are saved, with the time of the checkpoint that had them first.
    The user (and persona, organization) whose run it was is read from the checkpoint's metadata,
    where LangGraph keeps the config's ids: in a thread of several users each has their own turns.

    Args:
        memory: Where they are kept; the session key is the thread's id.
        checkpointer: Such as `SqliteSaver`, `PostgresSaver` or `InMemorySaver`. For one that is
            asynchronous, call this in a thread: `await asyncio.to_thread(import_threads, ...)`.
        threads: Ids of the threads; None: all.
        messages_key: The key of the graph's state that holds the messages.
        config: The `RunnableConfig` of a turn, for ids that a checkpoint does not name.

    Returns:
        The report; threads without messages, messages that cannot be read and turns that may save
        nothing are among its problems.

    Raises:
        TypeError: `checkpointer` is none.
        ValueError: An id in `config` is not text or a number.
        StorageError: The database cannot be written.
    """
    if not callable(getattr(checkpointer, "list", None)):
        msg = f"checkpointer must be a LangGraph checkpointer, not {type(checkpointer).__name__}"
        raise TypeError(msg)
    if isinstance(threads, str):
        threads = [threads]
    chosen = _threads_of(checkpointer) if threads is None else dict.fromkeys(threads)
    unless_named = Turn.from_config(config)
    report = ImportReport()
    for thread in chosen:
        try:
            report += _import_thread(memory, checkpointer, thread, messages_key, unless_named)
        except (ValueError, NotImplementedError, TypeError) as error:
            problem = f'thread "{thread}" cannot be read: {describe(error)}'
            report += ImportReport(skipped=1, problems=[problem])
    return write_waiting_vectors(memory, report)


def _import_thread(
    memory: AgentMemory, checkpointer: Any, thread: str, key: str, unless_named: Turn
) -> ImportReport:
    said: list[Spoken] | None = None
    unread: list[str] = []
    run: dict[str, Any] = {}
    begun: dict[str, tuple[datetime, dict[str, Any]]] = {}  # when each message came, in whose run
    start = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    for point in checkpointer.list(start):  # the latest first
        state = _messages_in(point, key)
        messages = list(spoken(state))
        if said is None:
            said = messages
            unread = [
                f'thread "{thread}": message {position + 1} cannot be read'
                for position in unreadable(state)
            ]
        run = _run_of(point, thread, unless_named, later=run)
        moment = datetime.fromisoformat(point.checkpoint["ts"])
        begun |= dict.fromkeys(ids_of(messages, run, thread), (moment, run))
    report = ImportReport(skipped=len(unread), problems=unread)
    if not said:
        problem = f'thread "{thread}": there are no messages under "{key}" in its state'
        return report if unread else ImportReport(problems=[problem])
    came = [begun[id_] for id_ in ids_of(said, run, thread)]
    records = _records(said, (moment for moment, _ in came), run, "")
    lines = [
        (Line(thread, each.position + 1, record, unit=UNIT), of)
        for each, record, (_, of) in zip(said, records, came, strict=True)
    ]
    # In a thread of several users each turn belongs to the user whose run it was.
    for _, turns in groupby(lines, lambda line: Turn.from_config(line[1])):
        together = list(turns)
        try:
            report += save_lines(memory, [line for line, _ in together], config=together[0][1])
        except ValueError as error:  # the memory takes nothing of such a turn
            first, last = together[0][0].number, together[-1][0].number
            problem = f'thread "{thread}": messages {first} to {last} not saved: {describe(error)}'
            report += ImportReport(skipped=len(together), problems=[problem])
    return report


def _run_of(
    point: Any, thread: str, unless_named: Turn, *, later: dict[str, Any]
) -> dict[str, Any]:
    """Return the config of the run that wrote a checkpoint; if it names no user, the later one's.

    A state that was changed by hand names none, say.
    """
    own = asdict(Turn.from_config({"configurable": point.metadata or {}}))
    ids = {name: id_ or getattr(unless_named, name) for name, id_ in own.items()}
    run = {"configurable": {**ids, "thread_id": thread}}
    return run if ids["user_id"] or not later else later


def _threads_of(checkpointer: Any) -> dict[str, None]:
    found = [point.config["configurable"]["thread_id"] for point in checkpointer.list(None)]
    return dict.fromkeys(found[::-1])


def _messages_in(point: Any, key: str) -> list[Any]:
    messages = point.checkpoint["channel_values"].get(key)
    return messages if isinstance(messages, list) else []


def _records(
    said: list[Spoken], times: Iterable[datetime], run: Mapping[str, Any], prefix: str
) -> list[Message]:
    """Make records of what was said, in an order that their times keep."""
    session = run["configurable"]["thread_id"]
    records: list[Message] = []
    last = datetime.min.replace(tzinfo=UTC)
    for each, id_, moment in zip(said, ids_of(said, run, session), times, strict=True):
        last = later(moment, last)
        record = Message(
            id=fitted(f"{prefix}{id_}"),
            session_key=f"{prefix}{session}",
            role=each.role,
            name=each.message.name or None,
            content=each.text,
            recorded_at=last,
        )
        # The time is a guess: what is there already keeps the one it has.
        records.append(unstated(record, "recorded_at"))
    return records


def _parsed(text: str) -> Any:
    document = json.loads(text)
    if "\\ud" not in text.lower():
        return document
    # Half of a surrogate pair: with some versions of pydantic no message may hold one.
    return json.loads(clean_text(json.dumps(document, ensure_ascii=False)))


def _sessions(document: Any, session_key: str, path: Path) -> Iterator[tuple[str, list[Any]]]:
    if isinstance(document, dict) and isinstance(document.get("messages"), list):
        named = document.get("session_key") or document.get("thread_id")
        yield str(named or session_key), document["messages"]
    elif isinstance(document, list):
        yield session_key, document
    elif isinstance(document, dict) and all(isinstance(v, list) for v in document.values()):
        yield from document.items()
    else:
        msg = f'{path}: no list of messages, no {{"messages": [...]}}, no lists by session key'
        raise ValueError(msg)


def _is_list_of_messages(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, dict) and ("data" in item or "lc" in item or "content" in item)
        for item in value
    )


def _message(item: Any) -> BaseMessage:
    """Read a message in the form of `messages_to_dict`, of `dumpd`, or as models take it."""
    if isinstance(item, dict) and item.get("lc") and isinstance(item.get("kwargs"), dict):
        kwargs = item["kwargs"]
        item = {"type": kwargs.get("type"), "data": kwargs}
    if isinstance(item, dict) and isinstance(item.get("data"), dict):
        return messages_from_dict([item])[0]
    return read_message(item)
