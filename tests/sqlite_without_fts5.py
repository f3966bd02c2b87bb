"""SQLite as it is where it was built without FTS5: a fault that this machine does not have."""

import functools
import sqlite3
from typing import Any

import pytest


class _Connection(sqlite3.Connection):
    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if "USING fts5" in sql:
            msg = "no such module: fts5"
            raise sqlite3.OperationalError(msg)
        return super().execute(sql, *parameters)


def remove_fts5(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every connection made from now on lack FTS5."""
    connect = functools.partial(sqlite3.connect, factory=_Connection)
    monkeypatch.setattr("langchain_agentmem.storage.database.sqlite3.connect", connect)
