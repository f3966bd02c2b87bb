"""SQLite as it is where it was built without FTS5, or without any full-text search.

A fault that this machine does not have. As there, the tables of a module that is missing can be
neither made, read, written nor dropped; the ordinary tables behind them can.
"""

import functools
import re
import sqlite3
from typing import Any

import pytest

_TOUCHES = {
    "fts5": re.compile(r"USING fts5|\b(memories|messages)_fts\b"),
    "fts4": re.compile(r"USING fts4|\b(memories|messages)_fts4\b"),
}


def _check(sql: str, missing: tuple[str, ...]) -> None:
    for module in missing:
        if _TOUCHES[module].search(sql):
            msg = f"no such module: {module}"
            raise sqlite3.OperationalError(msg)


class _WithoutFts5(sqlite3.Connection):
    missing: tuple[str, ...] = ("fts5",)

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        _check(sql, self.missing)
        return super().execute(sql, *parameters)

    def executemany(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        _check(sql, self.missing)
        return super().executemany(sql, *parameters)


class _WithoutFullText(_WithoutFts5):
    missing = ("fts5", "fts4")


_connect = sqlite3.connect


def _let_connections_be(monkeypatch: pytest.MonkeyPatch, factory: type[sqlite3.Connection]) -> None:
    connect = functools.partial(_connect, factory=factory)
    monkeypatch.setattr("langchain_agentmem.storage.database.sqlite3.connect", connect)


def remove_fts5(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every connection made from now on lack FTS5."""
    _let_connections_be(monkeypatch, _WithoutFts5)


def remove_full_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every connection made from now on lack FTS5 and FTS4."""
    _let_connections_be(monkeypatch, _WithoutFullText)
