"""From what a user types to what the keyword index is asked.

Natural text is the rule: its terms are alternatives. Who knows FTS5 may also use
- `"two words"`, a phrase,
- `pref*`, a beginning,
- `AND`, `OR`, `NOT` in capitals and parentheses, as in FTS5: words and phrases side by side bind
  tightest (all of them), then NOT, then AND, then OR.
Text that does not parse so is natural text. Either way every term is quoted: nothing that is typed
reaches FTS5 as syntax.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import regex

from langchain_agentmem.storage.text import (
    QueryTerm,
    completed_forms,
    phrase_terms,
    prefix_forms,
    query_terms,
)

MAX_QUERY_TERMS = 64
_MAX_TOKENS = 100
_MAX_DEPTH = 20

_TOKEN = regex.compile(r'"(?P<phrase>[^"]*)"|(?P<bracket>[()])|(?P<word>[^\s()"]+)')
_OPERATORS = ("AND", "OR", "NOT")
Dialect = Literal["fts5", "fts4"]


@dataclass(frozen=True, slots=True)
class KeywordQuery:
    """A query in the language of the keyword index."""

    natural: str
    """The terms as alternatives; empty where there is none."""
    terms: tuple[QueryTerm, ...] = ()
    """The terms of `natural`."""
    strict: str | None = None
    """What the operators ask for, or None where there are none."""
    completed: str | None = None
    """The same with beginnings completed to words, see `completed_forms`; None: nothing else."""
    excluded: str | None = None
    """What a top-level NOT excludes, or None."""


class _SyntaxError(Exception):
    """The text is no expression."""


def parse(text: str, dialect: Dialect = "fts5") -> KeywordQuery:
    """Read a query. No text is an error."""
    terms = tuple(query_terms(text)[:MAX_QUERY_TERMS])
    natural = alternatives(terms, dialect)
    if not _has_operators(text):
        return KeywordQuery(natural, terms)
    try:
        parser = _Parser(text, dialect)
        strict = parser.whole()
        completed = _Parser(text, dialect, completing=True).whole()
    except _SyntaxError:
        return KeywordQuery(natural, terms)
    more = completed if completed != strict else None
    return KeywordQuery(natural, terms, strict, more, parser.excluded)


def _has_operators(text: str) -> bool:
    words = text.split()
    return text.count('"') > 1 or any(
        word.strip("()") in _OPERATORS or (word.endswith("*") and len(word) > 1) for word in words
    )


class _Parser:
    """Recursive descent over the tokens; writes the expression as it reads."""

    def __init__(self, text: str, dialect: Dialect, *, completing: bool = False) -> None:
        if len(text) > 100 * _MAX_TOKENS:
            raise _SyntaxError
        self._tokens = list(_TOKEN.finditer(text))
        if len(self._tokens) > _MAX_TOKENS or text.count('"') % 2:
            raise _SyntaxError
        self._dialect = dialect
        self._completing = completing
        self._at = 0
        self._depth = 0
        self.excluded: str | None = None

    def whole(self) -> str:
        expression = self._alternatives()
        if self._at < len(self._tokens):
            raise _SyntaxError
        return expression

    def _peek(self) -> str | None:
        return self._tokens[self._at].group() if self._at < len(self._tokens) else None

    def _accept(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._at += 1
        return True

    def _alternatives(self) -> str:
        parts = [self._conjunction()]
        while self._accept("OR"):
            parts.append(self._conjunction())
        if len(parts) > 1 and self._depth == 0:
            self.excluded = None  # what one alternative excludes, another may hold
        return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"

    def _conjunction(self) -> str:
        parts = [self._difference()]
        while True:
            explicit = self._accept("AND")
            if not explicit and self._peek() in (None, ")", "OR", "NOT"):
                break
            parts.append(self._difference())
        return parts[0] if len(parts) == 1 else f"({' AND '.join(parts)})"

    def _difference(self) -> str:
        left = self._neighbours()
        unwanted: list[str] = []
        completing = self._completing
        while self._accept("NOT"):
            self._completing = False  # nothing is left out on a guess
            unwanted.append(self._neighbours())
        self._completing = completing
        if not unwanted:
            return left
        # One NOT, however many were written: FTS4 takes no deep tree.
        right = unwanted[0] if len(unwanted) == 1 else f"({' OR '.join(unwanted)})"
        if self._depth == 0:
            self.excluded = f"{self.excluded} OR {right}" if self.excluded else right
        return f"({left} NOT {right})"

    def _neighbours(self) -> str:
        parts = [self._operand()]
        while self._peek() not in (None, "(", ")", *_OPERATORS):
            parts.append(self._operand())
        return parts[0] if len(parts) == 1 else f"({' AND '.join(parts)})"

    def _operand(self) -> str:
        if self._at >= len(self._tokens):
            raise _SyntaxError
        token = self._tokens[self._at]
        self._at += 1
        if token.group() == "(":
            self._depth += 1
            if self._depth > _MAX_DEPTH:
                raise _SyntaxError
            inside = self._alternatives()
            self._depth -= 1
            if not self._accept(")"):
                raise _SyntaxError
            return inside
        if token.group() in (")", *_OPERATORS):
            raise _SyntaxError
        if token["phrase"] is not None:
            forms = [phrase_terms(token["phrase"])]
        elif token["word"].endswith("*"):
            begun = token["word"].rstrip("*")
            forms = prefix_forms(begun) + (completed_forms(begun) if self._completing else [])
        else:
            forms = [phrase_terms(token["word"])]
        phrases = list(dict.fromkeys(_phrase(terms, self._dialect) for terms in forms if terms))
        if not phrases:
            raise _SyntaxError
        return phrases[0] if len(phrases) == 1 else f"({' OR '.join(phrases)})"


def alternatives(terms: Iterable[QueryTerm], dialect: Dialect = "fts5") -> str:
    """Return the expression that any of the terms meets; empty where there is none."""
    return " OR ".join(_phrase([term], dialect) for term in terms)


def together(expressions: Iterable[str]) -> str:
    """Return the expression that what meets all of them meets."""
    return " AND ".join(f"({expression})" for expression in expressions)


def _phrase(terms: list[QueryTerm], dialect: Dialect) -> str:
    words = " ".join(term.text for term in terms)
    if not terms[-1].prefix:
        return f'"{words}"'
    return f'"{words}" *' if dialect == "fts5" else f'"{words}*"'
