"""What a search decides before and while it runs, and why: for its two branches, and for people."""

from functools import partial
from threading import Lock

from langchain_agentmem.search.request import SearchRequest
from langchain_agentmem.storage.record_store import RecordStore
from langchain_agentmem.storage.selection import Selection


class Plan:
    """The plan of one search.

    Attributes:
        steps: What was decided, a sentence each, in the order in which it was.
    """

    def __init__(self, store: RecordStore, request: SearchRequest) -> None:
        """Decide nothing yet."""
        self.steps: list[str] = []
        self._select = partial(store.select, request.kind, request.condition)
        self._noun = request.kind.name
        self._selection: Selection | None = None
        self._lock = Lock()

    @property
    def selection(self) -> Selection:
        """How many records meet the condition; whichever branch asks first finds it out.

        Raises:
            StorageError: The database cannot be read.
        """
        with self._lock:
            if self._selection is None:
                self._selection = self._select()
                self.steps.append(f"filters: {self._described(self._selection)}")
            return self._selection

    def _described(self, selection: Selection) -> str:
        if selection.few is not None:
            return f"{len(selection.few):,} of about {selection.total:,} {self._noun} match"
        if selection.total == 0 or selection.share >= 1.0:
            return f"none that leaves out many {self._noun}"
        return f"about {selection.share:.1%} of about {selection.total:,} {self._noun} match"
