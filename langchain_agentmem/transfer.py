"""What comes in from elsewhere in bulk, and what goes out again."""

import dataclasses
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from langchain_agentmem.arguments import whole_number
from langchain_agentmem.capture import as_memories, as_messages
from langchain_agentmem.documents import as_record
from langchain_agentmem.embeddings.embedder import Embedder
from langchain_agentmem.errors import StorageError, describe
from langchain_agentmem.interchange import file_name, write_line
from langchain_agentmem.permissions import Permissions
from langchain_agentmem.records import Record, is_blank
from langchain_agentmem.reports import ImportReport, MemoryStats
from langchain_agentmem.scopes import Config, Turn, Visibility
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.foreign_collection import Document, ForeignCollection
from langchain_agentmem.storage.kinds import KINDS, MEMORIES, MESSAGES, RecordKind
from langchain_agentmem.storage.record_store import RecordStore
from langchain_agentmem.storage.statistics import count_all
from langchain_agentmem.storage.vector_indexer import Progress, ReadyVector
from langchain_agentmem.storage.vectors import VectorHalf
from langchain_agentmem.twins import in_thread

Into = Literal["memories", "conversations"]
_KIND_OF: dict[str, RecordKind] = {"memories": MEMORIES, "conversations": MESSAGES}
_SAMPLES = 3
_LEAST_OWN_SIMILARITY = 0.3
"""Cosine of a text's vectors by two models of no kinship: about 0. By one model, as query and as
document: near 1."""


class Writer(Protocol):
    """Takes text, as a file does that is open for writing."""

    def write(self, text: str, /) -> object:
        """Take some text."""


class Transfer(Permissions):
    """The part of `AgentMemory` that imports collections, exports, and counts what there is."""

    _database: Database
    _store: RecordStore
    _vectors: VectorHalf

    def import_chroma(
        self,
        collection: Any,
        *,
        into: Into = "memories",
        copy_vectors: bool = True,
        config: Config | None = None,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Take the documents of a Chroma collection in, with their ids and vectors.

        With the embedding that made the collection its vectors are copied and no document is
        embedded; one query is, to see that the embedding fits. Without an embedding the documents
        are found by keyword; imported once more with it, they get their vectors. Doing it again
        adds what is new and changes nothing.

        Args:
            collection: A chromadb `Collection`, or a `langchain_chroma.Chroma` vector store.
            into: What documents become: `memories`, or messages of `conversations`.
            copy_vectors: False: have the documents embedded anew, by `sync()`.
            config: The `RunnableConfig` of the turn whose records they are; documents whose
                metadata names a user or a scope id are that one's.
            progress: Called with the number of documents done and of those that remain.

        Raises:
            TypeError: `collection` is no Chroma collection.
            ValueError: `into` is unknown, or the collection's vectors are not those of this
                memory's embedding. Nothing was imported.
            EmbeddingError: The embedding failed to embed a query. Nothing was imported.
            StorageError: The database cannot be written. Earlier pages are kept.
        """
        kind = _kind_of("into", into)
        source = ForeignCollection(collection)
        turn = self._writes_as(config)
        embedder = self._vectors.embedder if copy_vectors else None
        notes = [] if embedder is None else _notes_on_vectors(source, embedder)
        report = ImportReport()
        total, done = source.count(), 0
        for page in source.pages(vectors=embedder is not None):
            report += self._take_in(kind, source.name, page, turn)
            done += len(page)
            if progress is not None:
                progress(done, max(0, total - done))
        report = ImportReport(problems=notes) + report
        return report if report.pending else dataclasses.replace(report, problem=None)

    def export(
        self,
        to: str | Path | Writer,
        *,
        only: Into | None = None,
        replace: bool = False,
        config: Config | None = None,
    ) -> dict[str, int]:
        """Write all live records as JSON Lines, which `agentmem import` reads back.

        Every field and the order are kept; deleted records are left out. A page of records is in
        memory at a time.

        Args:
            to: A folder, made if missing, for `memories.jsonl` and `messages.jsonl`; a path that
                ends in `.jsonl`, for both; or a text file that is open for writing.
            only: `memories` or `conversations`; None: both.
            replace: Write over files that are there.
            config: The `RunnableConfig` of a turn: only what it can see is written.

        Returns:
            The number of `memories` and of `messages`.

        Raises:
            TypeError: `to` is neither a path nor a file.
            ValueError: A file is there already, or `only` is unknown.
            ScopeError: The turn may see nothing; a file that was there is as it was.
            StorageError: The database cannot be read, or a file cannot be written; a file that
                was there is then as it was.
        """
        kinds = list(KINDS) if only is None else [_kind_of("only", only)]
        visibility = self._must_touch(config)
        counts: dict[str, int] = {}
        if not isinstance(to, str | Path):
            if not callable(getattr(to, "write", None)):
                msg = f"to must be a path or a file that is open, not {type(to).__name__}"
                raise TypeError(msg)
            for line in self._lines(kinds, visibility, counts):
                to.write(line)
            return counts
        path = Path(to).expanduser()
        one_file = path.suffix == ".jsonl"
        files = (
            {path: kinds} if one_file else {path / file_name(kind.name): [kind] for kind in kinds}
        )
        for file in files:
            if file.exists() and not replace:
                msg = f"to: {file} is there already (replace=True writes over it)"
                raise ValueError(msg)
        for file, of_file in files.items():
            _write_file(file, self._lines(of_file, visibility, counts))
        return counts

    def stats(self, *, most: int = 10, config: Config | None = None) -> MemoryStats:
        """Count what there is by type, role, scene, session, scope and month, and its size.

        Args:
            most: How many values of each are told, the most frequent ones.
            config: The `RunnableConfig` of a turn: only what it can see is counted.

        Raises:
            ValueError: `most` is no whole number of at least 1.
            ScopeError: The turn may see nothing.
            StorageError: The database cannot be read.
        """
        whole_number("most", most, 1)
        return count_all(
            self._database,
            visibility=self._must_touch(config),
            most=most,
            vectors=self._vectors.folder,
            wants_vectors=self._vectors.wanted,
        )

    aimport_chroma = in_thread(import_chroma)
    aexport = in_thread(export)
    astats = in_thread(stats)

    def _take_in(
        self, kind: RecordKind, name: str, page: list[Document], turn: Turn
    ) -> ImportReport:
        """Save a page of documents, and copy their vectors."""
        filed: list[Record] = []
        documents: list[Document] = []
        problems: list[str] = []
        for document in page:
            if document.text is None or is_blank(document.text):
                problems.append(f"{document.id}: has no text")
                continue
            try:
                record = as_record(
                    kind.record_type, document.id, document.text, document.metadata, name
                )
                filed += _filed(kind, record, turn)
            except ValueError as error:
                problems.append(f"{document.id}: {describe(error)}")
                continue
            documents.append(document)
        skipped = len(problems)
        saved = self._store.save(kind, filed, replace=False)
        problems += [
            f"{documents[i].id}: is there with other content; kept as it was"
            for i in saved.conflicts
        ]
        ready = {
            stored.id: ReadyVector(kind.embedded_text(given), document.vector)
            for stored, given, document in zip(saved.records, filed, documents, strict=True)
            if document.vector is not None
        }
        copied = self._vectors.take_over(kind, ready) if ready else None
        new = {kind.name: len(set(saved.changed))}
        return ImportReport(
            **new,
            duplicates=saved.duplicates,
            conflicts=len(saved.conflicts),
            indexed=copied.written if copied is not None else 0,
            pending=self._vectors.pending(),
            skipped=skipped,
            problems=problems,
            problem=copied.problem if copied is not None else None,
        )

    def _lines(
        self, kinds: list[RecordKind], visibility: Visibility, counts: dict[str, int]
    ) -> Iterator[str]:
        for kind in kinds:
            counts[kind.name] = 0
            for record in self._store.each(kind, kind.where({}, visibility, whole=True)):
                yield write_line(record)
                counts[kind.name] += 1


def _kind_of(argument: str, name: str) -> RecordKind:
    """Return the kind of record that an argument names."""
    if name not in _KIND_OF:
        msg = f"{argument}: use one of {', '.join(_KIND_OF)}, not {name!r}"
        raise ValueError(msg)
    return _KIND_OF[name]


def _filed(kind: RecordKind, record: Record, turn: Turn) -> Iterable[Record]:
    """Return a record, one, under its owner.

    Raises:
        ValueError: It names a scope that the turn lacks the ids for.
    """
    return as_messages(None, [record], turn)[0] if kind is MESSAGES else as_memories([record], turn)


def _notes_on_vectors(source: ForeignCollection, embedder: Embedder) -> list[str]:
    """Check that a collection's vectors are those of a model; returns what is to be known.

    Raises:
        ValueError: They are not.
        EmbeddingError: The model cannot be asked.
    """
    page = next(source.pages(vectors=True), [])
    samples = [d for d in page if d.vector is not None and d.text and not is_blank(d.text)]
    samples = sorted(samples, key=lambda d: len(d.text or ""))[len(samples) // 2 :][:_SAMPLES]
    if not samples:
        return []
    way_out = (
        f'give the embedding that made "{source.name}", or copy_vectors=False to have its '
        'documents embedded anew, or "none" to search them by keyword alone'
    )
    own: list[float] = []
    for document in samples:
        text, theirs = document.text or "", document.vector
        ours = embedder.embed_query(text)
        assert theirs is not None  # noqa: S101  (as chosen above)
        if len(theirs) != len(ours):
            msg = (
                f"embedding: {embedder.name} makes vectors of {len(ours)} dimensions, the "
                f"collection has {len(theirs)}: {way_out}"
            )
            raise ValueError(msg)
        lengths = float(np.linalg.norm(ours)) * float(np.linalg.norm(theirs))
        own.append(float(ours @ theirs) / (lengths or 1.0))
        if own[-1] >= _LEAST_OWN_SIMILARITY:
            break
    else:
        msg = (
            f"embedding: {embedder.name} did not make the collection's vectors: those of its own "
            f"texts are not alike (cosine {max(own):.2f}): {way_out}"
        )
        raise ValueError(msg)
    note = source.other_ranking(page)
    return [note] if note else []


def _write_file(file: Path, lines: Iterator[str]) -> None:
    """Write a file for its user alone; the one that was there goes when it is complete."""
    partial: str | None = None
    try:
        # Made if missing, for its user alone; one that is there keeps its rights.
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Under a name that nobody can guess: in a folder of several users no link waits for it.
        descriptor, partial = tempfile.mkstemp(dir=file.parent, prefix=".agentmem-", suffix=".part")
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as out:
            out.writelines(lines)
            out.flush()
            os.fsync(descriptor)
        Path(partial).replace(file)
    except OSError as error:
        msg = f"cannot write {file}: {error.strerror or error}"
        raise StorageError(msg) from error
    finally:
        if partial is not None:
            with suppress(OSError):
                Path(partial).unlink()
