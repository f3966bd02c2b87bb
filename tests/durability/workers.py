"""The processes that the durability tests start, kill and question: `workers.py <name> <json>`.

Each prints JSON lines and flushes them, so that what was printed before a SIGKILL is what a caller
had been told. Nothing here checks anything; the tests do.
"""

import faulthandler
import functools
import itertools
import json
import multiprocessing
import os
import random
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from langchain_agentmem import AgentMemory, EmbeddingSettings, Memory, Message
from langchain_agentmem.errors import AgentMemoryError

_WORDS = """apple bridge candle desert engine forest garden hammer island jacket kitchen ladder
mirror needle orange pencil quarry river saddle teacher umbrella violin window yellow zebra anchor
bottle castle dragon eagle feather guitar honey insect jungle kettle lemon marble nature oyster
piano queen rabbit silver tiger uncle valley wolf""".split()
_TRIPLES = list(itertools.combinations(_WORDS, 3))


def keyword_of(number: int) -> str:
    """The word that no other text has."""
    return f"zq{number}x"


def text_of(number: int) -> str:
    """A text with a vector and a keyword of its own, for numbers below 17,000."""
    return f"{' '.join(_TRIPLES[number * 7919 % len(_TRIPLES)])} {keyword_of(number)}"


def tell(**said: Any) -> None:
    """Say something to whoever started this process."""
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def open_memory(folder: str, embedding: str = "local", port: int | None = None) -> AgentMemory:
    """Open a memory, its vectors in the folder or on the Chroma server at a port."""
    client = None
    if port is not None:
        import chromadb

        client = chromadb.HttpClient(host="127.0.0.1", port=port)
    return AgentMemory.open(folder, embedding=embedding, chroma_client=client)


def write(folder: str, first: int, count: int, start: float = 0.0, **options: Any) -> None:
    """Add memories one by one, from a moment on; tell each that is acknowledged."""
    time.sleep(max(0.0, start - time.time()))
    with open_memory(folder, **options) as memory:
        for number in range(first, first + count):
            report = memory.add_memories([Memory(id=f"m{number}", content=text_of(number))])
            tell(id=f"m{number}", pending=report.pending)


def leave_while_writing(folder: str, url: str) -> None:
    """Save a memory whose embedding service hangs, and end without waiting for it."""
    from threading import Thread

    settings = EmbeddingSettings(provider="openai_compatible", base_url=url, model="m", timeout=60)
    memory = AgentMemory.open(folder, embedding=settings)
    thread = Thread(target=memory.add_memories, args=([_memory(1)],), daemon=True)
    thread.start()
    while not memory.status().memories:
        time.sleep(0.01)
    memory.search_memories(text_of(1))
    tell(saved=memory.status().memories)


def open_first(folder: str, start: float, number: int) -> None:
    """Open a folder at a given moment, and write and search there."""
    import wordllama  # noqa: F401  (so that all openings come at the same moment)

    time.sleep(max(0.0, start - time.time()))
    with open_memory(folder) as memory:
        memory.add_memories([Memory(id=f"m{number}", content=text_of(number))])
        found = memory.search_memories(keyword_of(number))
        tell(found=[hit.id for hit in found.results])


def churn(folder: str, seed: int, first: int) -> None:
    """Change records at random for ever; tell each change before it is made and after it."""
    dice = random.Random(seed)  # noqa: S311
    numbers = itertools.count(first)
    with open_memory(folder) as memory:
        tell(opened=True)
        live: list[str] = []
        wanted: dict[str, int | None]
        while True:
            action = dice.choice(["add", "add", "add", "say", "update", "delete", "purge", "sync"])
            if action in ("add", "say"):
                batch = [next(numbers) for _ in range(dice.choice([1, 1, 2, 10]))]
                kind = "m" if action == "add" else "c"
                wanted = {f"{kind}{number}": number for number in batch}
                tell(doing=wanted)
                if action == "add":
                    memory.add_memories([_memory(number) for number in batch])
                else:
                    memory.add_messages("s", [_message(number) for number in batch])
                live += wanted
            elif action == "sync":
                wanted = {}
                memory.sync()
            else:
                memories = [id_ for id_ in live if id_.startswith("m")]
                if not memories:
                    continue
                id_ = dice.choice(memories)
                number = next(numbers)
                wanted = {id_: number if action == "update" else None}
                tell(doing=wanted)
                if action == "update":
                    memory.update_memory(id_, content=text_of(number))
                else:
                    live.remove(id_)
                    (memory.delete if action == "delete" else memory.purge)(id_)
            tell(done=wanted)


def _memory(number: int) -> Memory:
    return Memory(id=f"m{number}", content=text_of(number))


def _message(number: int) -> Message:
    return Message(id=f"c{number}", role="user", content=text_of(number))


def serve(folder: str, umask: int | None = None, **options: Any) -> None:
    """Open a memory and do with it what the lines on stdin say, until they end."""
    if umask is not None:
        os.umask(umask)
    with open_memory(folder, **options) as memory:
        tell(opened=True)
        for line in sys.stdin:
            call = json.loads(line)
            try:
                result = _call(memory, call["method"], call["arguments"])
            except (AgentMemoryError, ValueError, OSError) as error:
                tell(error=f"{type(error).__name__}: {error}")
            else:
                tell(result=result)


def _call(memory: AgentMemory, method: str, arguments: dict[str, Any]) -> Any:
    if method == "add":
        numbers = range(arguments["first"], arguments["first"] + arguments["count"])
        report = memory.add_memories([_memory(number) for number in numbers])
        return {"saved": report.saved, "pending": report.pending, "problem": report.problem}
    if method == "search":
        found = memory.search_memories(**arguments)
        return found.to_dict()
    if method == "missing":
        return missing(memory, arguments["numbers"], by=arguments["by"])
    if method == "sync":
        synced = memory.sync(lambda done, left: tell(progress=[done, left]))
        return {"pending": synced.pending, "problem": synced.problem}
    if method == "status":
        status = memory.status()
        return {name: getattr(status, name) for name in status.__slots__}
    if method == "check":
        return [[each.part, each.ok, each.detail] for each in memory.check(**arguments)]
    if method == "limit_file_size":
        resource.setrlimit(resource.RLIMIT_FSIZE, (arguments["bytes"], resource.RLIM_INFINITY))
        return None
    raise ValueError(method)


def missing(memory: AgentMemory, numbers: list[int], *, by: str) -> list[int]:
    """Those of the memories that a search for their text does not find by keyword or vector."""
    lost = []
    for number in numbers:
        if by == "keyword":
            hits = memory.search_memories(keyword_of(number), limit=2).results
            found = any(hit.id == f"m{number}" and hit.keyword_rank for hit in hits)
        else:
            hits = memory.search_memories(text_of(number), limit=2).results
            found = any(hit.id == f"m{number}" and hit.vector_rank for hit in hits)
        if not found:
            lost.append(number)
    return lost


def evidence(folder: str, port: int | None = None) -> None:
    """Tell what is on disk, as SQLite and Chroma see it, without the package under test."""
    import chromadb

    with sqlite3.connect(Path(folder) / "agentmem.sqlite3") as database:
        state: dict[str, Any] = {
            "integrity": database.execute("PRAGMA integrity_check").fetchone()[0],
            "queue": [list(row) for row in database.execute("SELECT kind, id FROM vector_queue")],
        }
        for kind in ("memories", "messages"):
            check = f"INSERT INTO {kind}_fts ({kind}_fts) VALUES ('integrity-check')"  # noqa: S608
            database.execute(check)
            live = f"SELECT seq, id FROM {kind} WHERE deleted_at IS NULL"  # noqa: S608
            rows = dict(database.execute(live).fetchall())
            state[kind] = sorted(rows.values())
            terms = database.execute(f"SELECT rowid FROM {kind}_fts").fetchall()  # noqa: S608
            state[f"{kind}_keywords"] = sorted(rows.get(seq, f"stray {seq}") for (seq,) in terms)
    client = (
        chromadb.PersistentClient(str(Path(folder) / "chroma"))
        if port is None
        else chromadb.HttpClient(host="127.0.0.1", port=port)
    )
    state["collections"] = sorted(each.name for each in client.list_collections())
    for name in state["collections"]:
        collection = client.get_collection(name, embedding_function=None)
        kind = "memories" if "-memories-" in name else "messages"
        ids = collection.get(include=[])["ids"]
        state[f"{kind}_vectors"] = sorted(ids)
        state[f"{kind}_nearest"] = sorted(_nearest(collection, len(ids)))
    tell(**state)


def _nearest(collection: Any, count: int) -> list[str]:
    """The ids that the nearest-neighbour index knows, which may be fewer than are stored."""
    if not count:
        return []
    size = len(collection.peek(1)["embeddings"][0])
    ids: list[str] = collection.query(query_embeddings=[[1.0] * size], n_results=count)["ids"][0]
    return ids


def fork(folder: str, how: str, action: str, closed: bool = False) -> None:
    """Fork with a memory open (or closed before), and let the child do something with memories.

    The child that does not end within 20 seconds is killed and told as hung.
    """
    memory = open_memory(folder)
    memory.add_memories([_memory(1)])
    memory.search_memories(text_of(1))
    if closed:
        memory.close()
    child = _fork(how, lambda: _in_child(memory, folder, action))
    status = _wait_for(child, 20.0)
    tell(child=status)
    if closed:
        memory = open_memory(folder)
    memory.add_memories([_memory(2)])
    tell(parent_lost=missing(memory, [1, 2], by="vector"), problem=memory.status().problems)
    memory.close()


def fork_while_busy(folder: str) -> None:
    """Fork again and again while other threads write and search with the memory."""
    from threading import Event, Thread

    memory = open_memory(folder)
    stop, numbers = Event(), itertools.count(1)

    def work() -> None:
        while not stop.is_set():
            number = next(numbers)
            memory.add_memories([_memory(number)])
            memory.search_memories(text_of(number))

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        time.sleep(0.05)
        child = _fork("os", lambda: _in_child(memory, folder, "all"))
        tell(child=_wait_for(child, 20.0))
    stop.set()
    for thread in threads:
        thread.join()
    memory.close()


def fork_during_checkpoint(folder: str) -> None:
    """Fork while another thread empties the write-ahead log, which waits for a reader."""
    from threading import Thread

    parent = os.getpid()

    class Telling(sqlite3.Connection):
        def __del__(self, write: Any = os.write, getpid: Any = os.getpid) -> None:
            if getpid() != parent:
                write(1, b'{"freed": "a connection, whose locks are the parent\'s"}\n')

    connect: Any = functools.partial(sqlite3.connect, factory=Telling)
    sqlite3.connect = connect
    memory = open_memory(folder, embedding="none")
    memory.add_memories([_memory(1)])
    # A second one, idle: SQLite's locks are those of the file.
    idle = open_memory(folder, embedding="none")
    idle.search_memories(text_of(1))
    file = str(Path(folder) / "agentmem.sqlite3")
    # In a process of its own: the child would have to let go of a connection of this one's.
    read = (
        "import sqlite3, sys; reader = sqlite3.connect(sys.argv[1]); reader.execute('BEGIN'); "
        "reader.execute('SELECT count(*) FROM memories').fetchone(); print(flush=True); input()"
    )
    command = [sys.executable, "-c", read, file]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert reader.stdout is not None
    reader.stdout.readline()
    thread = Thread(target=memory._database.checkpoint)
    thread.start()
    while not _is_waited_for(file):
        time.sleep(0.01)
    link = f"{folder}-by-another-path"
    Path(link).symlink_to(folder)
    tell(child=_wait_for(_fork("os", lambda: _in_child(memory, link, "reopen")), 20.0))
    reader.communicate("\n")
    thread.join()
    tell(parent_lost=missing(memory, [1], by="keyword") + missing(idle, [1], by="keyword"))
    memory.close()
    idle.close()


def _is_waited_for(file: str) -> bool:
    """Whether somebody empties the log: he keeps others from writing meanwhile."""
    try:
        with closing(sqlite3.connect(file, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.rollback()
    except sqlite3.OperationalError:
        return True
    return False


def fork_after_failed_open(folder: str) -> None:
    """Fork when an opening has failed and its error is kept, beside a memory that is open."""
    memory = open_memory(folder, embedding="none")
    memory.add_memories([_memory(1)])
    broken = Path(folder).with_name("broken")
    broken.mkdir()
    (broken / "agentmem.sqlite3").write_text("no database" * 100)
    kept = None
    try:
        open_memory(str(broken), embedding="none")
    except AgentMemoryError as error:
        kept = error
    with closing(os.fdopen(os.dup(2), "w")) as stderr:
        said = Path(folder).with_name("said")
        with said.open("w") as file:
            os.dup2(file.fileno(), 2)
        tell(child=_wait_for(_fork("os", lambda: _in_child(memory, folder, "reopen")), 20.0))
        os.dup2(stderr.fileno(), 2)
    # From 3.12 on, Python warns of each fork beside threads as well.
    lines = said.read_text().splitlines()
    tell(failed=str(kept), ignored=[line for line in lines if line.startswith("Exception ignored")])
    memory.close()


def orphan(folder: str, child_seconds: float) -> None:
    """Own a folder, fork a child that outlives this process, and wait to be killed."""
    memory = open_memory(folder)
    memory.add_memories([_memory(1)])
    child = os.fork()
    if child == 0:
        time.sleep(child_seconds)
        os._exit(0)
    tell(child=child, strategy=memory.status().strategy)
    time.sleep(600)


def _fork(how: str, work: Callable[[], None]) -> int:
    if how == "os":
        child = os.fork()
        if child == 0:
            work()
            sys.exit(0)  # the whole way out, with everything that Python does at exit
        return child
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    assert process.pid is not None
    return process.pid


def _wait_for(child: int, seconds: float) -> str:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "ended" if status == 0 else f"ended with {status}"
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "hung"


def _in_child(inherited: AgentMemory, folder: str, action: str) -> None:
    faulthandler.dump_traceback_later(15)  # should it hang, the test's output tells where
    actions: dict[str, Callable[[], Any]] = {
        "search": lambda: inherited.search_memories(text_of(1)).strategy,
        "write": lambda: inherited.add_memory("from the child").id,
        "delete": lambda: inherited.delete("m1"),
        "sync": lambda: inherited.sync().problem,
        "status": lambda: inherited.status().strategy,
        "close": inherited.close,
        "reopen": lambda: _reopened(folder),
        "exit": lambda: None,
    }
    for name in actions if action == "all" else [action]:
        try:
            tell(action=name, result=actions[name]())
        except Exception as error:  # noqa: BLE001  (the test looks at it)
            tell(action=name, error=f"{type(error).__name__}: {error}")


def _reopened(folder: str) -> Iterator[str] | list[str]:
    with open_memory(folder) as memory:
        memory.add_memories([_memory(3)])
        found = memory.search_memories(keyword_of(3))
        return [found.strategy, *(hit.id for hit in found.results)]


def import_file(folder: str, file: str, url: str) -> None:
    """Import a file of memories whose embedding service hangs; tell when some are saved."""
    from threading import Thread

    from langchain_agentmem.integrations.imports import import_lines
    from langchain_agentmem.interchange import read_records

    settings = EmbeddingSettings(
        provider="openai_compatible", base_url=url, api_key="any", model="wordllama", timeout=60
    )
    memory = AgentMemory.open(folder, embedding=settings)
    lines = read_records(Path(file))
    Thread(target=import_lines, args=(memory, lines), daemon=True).start()
    give_up = time.monotonic() + 60
    while not (saved := memory.status().memories) and time.monotonic() < give_up:
        time.sleep(0.01)
    tell(saved=saved)
    time.sleep(60)


def import_long_texts(folder: str, file: str) -> None:
    """Import a file of memories; tell by how many megabytes the peak of memory use grew."""
    from langchain_agentmem.integrations.imports import import_lines
    from langchain_agentmem.interchange import read_records

    with open_memory(folder, embedding="none") as memory:
        memory.add_memory("the first")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        report = import_lines(memory, read_records(Path(file)))
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    in_kilobytes = grown / 1024 if sys.platform == "darwin" else grown
    tell(saved=report.saved, grown=in_kilobytes / 1024)


if __name__ == "__main__":
    globals()[sys.argv[1]](**json.loads(sys.argv[2]))
