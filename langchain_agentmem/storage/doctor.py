"""Verifies whatever can be verified of a memory, and repairs what can be derived anew.

The records are the truth. Keyword rows and vectors are made from them, so both can be repaired;
a damaged database cannot, and is only reported.
"""

import logging
import sqlite3
from collections.abc import Iterator
from contextvars import copy_context
from functools import partial

from langchain_agentmem.embeddings.embedder import Embedder
from langchain_agentmem.errors import EmbeddingError, StorageError, describe
from langchain_agentmem.results import Finding
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.differences import find_differences
from langchain_agentmem.storage.keyword_index import KeywordIndex
from langchain_agentmem.storage.kinds import KINDS
from langchain_agentmem.storage.vector_indexer import OTHER_MODEL
from langchain_agentmem.storage.vector_queue import VectorQueue
from langchain_agentmem.storage.vectors import VectorHalf
from langchain_agentmem.workers import Workers

logger = logging.getLogger(__name__)

VECTOR_INDEX = "vector index"
_EXAMINED_ELSEWHERE = (
    "another process has it open, and cares for it: it can be examined there, or once that has "
    "closed the memory"
)
_NAMED = 3
_ASKED = "hello"
"""What the embedding model is asked, to see that it answers."""
ANSWER_SECONDS = 60.0
"""How long it may take: a service has its own, shorter limit, an object of the caller's none."""


class Doctor:
    """Examines the parts of one memory."""

    def __init__(
        self, database: Database, keywords: KeywordIndex, queue: VectorQueue, vectors: VectorHalf
    ) -> None:
        """Examine these parts."""
        self._database = database
        self._keywords = keywords
        self._queue = queue
        self._vectors = vectors

    def examine(self) -> list[Finding]:
        """Run every check; nothing is changed. The embedding model is asked for one vector."""
        return list(self._findings())

    def repair(self) -> None:
        """Bring the keyword index and the queue in order; the vectors are then to be synced.

        Raises:
            StorageError: The database cannot be written.
        """
        with self._database.write() as connection:
            if not self._keywords.problem and not all(
                finding.ok for finding in self._keyword_findings(connection)
            ):
                self._keywords.rebuild(connection)
        index = self._vectors.index  # a server may be slow: it is asked outside the transaction
        if index is None or self._vectors.is_left_behind:
            return
        for kind in KINDS:
            try:
                self._queue.put_what_differs(kind, partial(index.reachable, kind))
            except StorageError:
                raise
            except Exception as error:  # noqa: BLE001  (it is made anew altogether)
                logger.debug("the vectors of %s cannot be read: %s", kind.name, describe(error))

    def vectors_are_sound(self) -> bool:
        """Whether the vector index can be read and is level, or none is wanted.

        Raises:
            StorageError: The database cannot be read.
        """
        return all(
            finding.ok for finding in self._vector_findings() if finding.part == VECTOR_INDEX
        )

    def _findings(self) -> Iterator[Finding]:
        try:
            with self._database.read() as connection:
                yield from self._database_findings(connection)
                yield from self._keyword_findings(connection)
            if self._vectors.embedder is not None:
                yield _embedding_finding(self._vectors.embedder)
            yield from self._vector_findings()
        except StorageError as error:
            yield Finding("database", ok=False, detail=str(error))

    def _database_findings(self, connection: sqlite3.Connection) -> Iterator[Finding]:
        problems = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
        sound = problems == ["ok"]
        detail = "sound" if sound else "; ".join(problems)
        yield Finding("database", ok=sound, detail=f"{self._database.location}: {detail}")
        if self._database.read_only is not None:
            detail = f"can be read alone: {self._database.read_only}"
            yield Finding("database", ok=False, detail=detail)

    def _keyword_findings(self, connection: sqlite3.Connection) -> Iterator[Finding]:
        if self._keywords.problem:
            yield Finding("keyword index", ok=False, detail=self._keywords.problem)
            return
        if self._keywords.note:
            yield Finding("keyword index", ok=False, detail=self._keywords.note)
        if self._database.read_only is None:
            try:
                self._keywords.check(connection)
            except sqlite3.DatabaseError as error:
                if _is_busy(error):
                    raise
                yield Finding("keyword index", ok=False, detail=f"damaged: {error}")
                return
        for kind in KINDS:
            live = f"SELECT seq FROM {kind.name} WHERE deleted_at IS NULL"
            indexed = f"SELECT rowid FROM {self._keywords.table(kind)}"
            lacking, stray = (
                connection.execute(f"SELECT count(*) FROM ({wanted} EXCEPT {there})").fetchone()[0]
                for wanted, there in ((live, indexed), (indexed, live))
            )
            level = not (lacking or stray)
            detail = "level" if level else f"{lacking} are missing, {stray} should not be there"
            yield Finding("keyword index", ok=level, detail=f"{kind.name}: {detail}")

    def _vector_findings(self) -> Iterator[Finding]:
        vectors = self._vectors
        if vectors.embedder is None:
            problem = vectors.problem
            yield Finding("embedding", ok=problem is None, detail=problem or "none, by choice")
            return
        pending = vectors.pending()
        detail = vectors.backlog() or f"{pending} records wait for their vectors"
        level = not pending or vectors.is_owned_elsewhere
        yield Finding("vector queue", ok=level, detail=detail if pending else "empty")
        if vectors.is_owned_elsewhere:
            yield Finding(VECTOR_INDEX, ok=True, detail=_EXAMINED_ELSEWHERE)
            return
        if vectors.index is None:
            yield Finding(VECTOR_INDEX, ok=False, detail=vectors.problem or "not open")
            return
        if vectors.is_left_behind:
            yield Finding(VECTOR_INDEX, ok=False, detail=OTHER_MODEL)
            return
        for kind in KINDS:
            try:
                found = find_differences(
                    self._database, kind, partial(vectors.index.reachable, kind)
                )
            except StorageError:
                raise
            except Exception as error:  # noqa: BLE001  (whatever Chroma raises is the finding)
                detail = f"{kind.name}: cannot be read: {describe(error)}"
                yield Finding(VECTOR_INDEX, ok=False, detail=detail)
                continue
            detail = (
                f"{kind.name}: level"
                if not found
                else f"{kind.name}: {_some(found.missing)} lack a vector and wait for none, "
                f"{_some(found.ghosts)} have one and no record"
            )
            yield Finding(VECTOR_INDEX, ok=not found, detail=detail)


def _embedding_finding(embedder: Embedder) -> Finding:
    """Ask the model, unless it failed a moment ago, which is the finding then."""
    embedder.forget(_ASKED)  # an answer of before says nothing of now
    workers = Workers(1, "agentmem-doctor")
    try:
        asked = workers.submit(copy_context().run, embedder.embed_query, _ASKED)
        workers.close()
        asked.result(ANSWER_SECONDS)
    except TimeoutError:
        detail = str(embedder.give_up_query(ANSWER_SECONDS))
    except (EmbeddingError, RuntimeError) as error:  # RuntimeError: there can be no more threads
        detail = describe(error)
    else:
        return Finding("embedding", ok=True, detail=f"{embedder.name} answers")
    return Finding("embedding", ok=False, detail=detail)


def _is_busy(error: sqlite3.Error) -> bool:
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _some(ids: list[str]) -> str:
    if not ids:
        return "0"
    more = ", ..." if len(ids) > _NAMED else ""
    return f"{len(ids)} ({', '.join(ids[:_NAMED])}{more})"
