"""Where a memory's Chroma comes from: a folder, a client of the user's, or this process alone."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_agentmem.storage import vector_index
from langchain_agentmem.storage.folder import CHROMA_FOLDER
from langchain_agentmem.storage.index_files import IndexFiles
from langchain_agentmem.storage.ownership import Ownership, turns
from langchain_agentmem.storage.patience import PatientClient
from langchain_agentmem.storage.vector_index import VectorIndex


@dataclass(frozen=True)
class ChromaSource:
    """Where a memory's Chroma client comes from, and what becomes of it.

    Attributes:
        open: Opens or returns the client.
        end: What closing the memory does to its index; None: nothing, the client is somebody
            else's.
        turn: Makes the lock under which the vector queue is worked on.
        ownership: The ownership that the client needs, or None.
        folder: The embedded client's folder, or None.
        files: The files in it, or None.
    """

    open: Callable[[], Any]
    end: Callable[[VectorIndex], None] | None
    turn: Callable[[], AbstractContextManager[object]]
    ownership: Ownership | None = None
    folder: Path | None = None
    files: IndexFiles | None = None

    @classmethod
    def embedded(cls, folder: Path) -> "ChromaSource":
        """Chroma inside this process, in a folder of the memory's folder."""
        chroma = folder / CHROMA_FOLDER
        return cls(
            open=lambda: vector_index.embedded_client(chroma),
            end=VectorIndex.close,
            turn=turns(folder),
            ownership=Ownership(folder),
            folder=chroma,
            files=IndexFiles.of(chroma),
        )

    @classmethod
    def given(cls, client: Any, folder: Path) -> "ChromaSource":
        """A client of the user's, which may be that of a server that hangs.

        Raises:
            TypeError: It is no synchronous Chroma client.
        """
        patient = PatientClient(vector_index.check_client(client))
        return cls(open=lambda: patient, end=None, turn=turns(folder))

    @classmethod
    def in_memory(cls) -> "ChromaSource":
        """Chroma in memory."""
        # The in-memory system lives as long as the process: the collections are dropped.
        return cls(open=vector_index.in_memory_client, end=VectorIndex.drop, turn=nullcontext)
