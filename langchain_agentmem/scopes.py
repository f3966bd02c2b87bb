"""Whose turn it is, and the one rule of who sees what.

A `Turn` holds the ids that an agent's `RunnableConfig` names. `Turn.sees` derives the
`Visibility` of a search from it; `Visibility.where` is that rule as SQL. Every read of records
on behalf of a search goes through it, and nothing else decides what is visible.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from uuid import UUID

from langchain_agentmem.records import SCOPES, Scope, clean_text

Config = Mapping[str, Any]
"""A `RunnableConfig`, or as much of one as names the turn."""

_CONFIG_KEYS = {
    "user_id": ("user_id", "langgraph_user_id"),
    "persona_id": ("persona_id",),
    "thread_id": ("thread_id",),
    "organization_id": ("organization_id",),
}

# What `str.strip` takes for white space, and SQLite does not.
_SPACES = ", ".join(str(code) for code in range(0x3001) if chr(code).isspace())
# A record whose metadata names a scope id belongs to it, even before it is filed there; one that
# names it by something else than text belongs to nobody.
_NAMED = (
    "CASE WHEN json_type(r.metadata, '$.{0}') IN ('text', 'integer') "
    f"THEN trim(json_extract(r.metadata, '$.{{0}}'), char({_SPACES})) "
    "WHEN coalesce(json_type(r.metadata, '$.{0}'), 'null') = 'null' THEN '' ELSE '?' END"
)
METADATA_NAMES_NO_SCOPE = (
    f"(r.metadata IS NULL OR {_NAMED.format('scope_id')} || {_NAMED.format('scopeId')} = '')"
)
UNSCOPED = f"(r.scope_id = '' AND {METADATA_NAMES_NO_SCOPE})"
UNSCOPED_BY_INDEX = UNSCOPED.replace(
    "r.scope_id", f"r.scope IN ({', '.join(map(repr, SCOPES))}) AND r.scope_id", 1
)
"""The same, for which SQLite can use an index of owners."""


@dataclass(frozen=True, slots=True)
class Visibility:
    """The records that a search may see.

    `owners` are pairs of scope and scope id; None: every record. `unscoped` are the scopes whose
    records without a scope id are visible too; None: those of every scope.
    """

    owners: tuple[tuple[str, str], ...] | None = None
    unscoped: tuple[str, ...] | None = None
    denied: str | None = None
    """Why nothing at all is visible, or None."""

    @property
    def everything(self) -> bool:
        """Whether every record is visible."""
        return self.owners is None and self.denied is None

    def where(self) -> tuple[str, list[str]]:
        """Return the rule as an SQL condition on columns `scope` and `scope_id` of `r`."""
        if self.denied is not None:
            return "0", []
        if self.owners is None:
            return "1", []
        parts: list[str] = []
        parameters: list[str] = []
        for scope, scope_id in self.owners:
            parts.append("(r.scope = ? AND r.scope_id = ?)")
            parameters += [scope, scope_id]
        if self.unscoped is None:
            parts.append(UNSCOPED)
        for scope in self.unscoped or ():
            parts.append(f"(r.scope = ? AND r.scope_id = '' AND {METADATA_NAMES_NO_SCOPE})")
            parameters.append(scope)
        return f"({' OR '.join(parts)})", parameters


@dataclass(frozen=True, slots=True)
class Turn:
    """The ids of one run of an agent; empty where the config names none."""

    user_id: str = ""
    persona_id: str = ""
    thread_id: str = ""
    organization_id: str = ""

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> Self:
        """Read the ids from `config["configurable"]`, trimmed.

        Raises:
            ValueError: An id is not text or a number.
        """
        configurable = config.get("configurable") if isinstance(config, Mapping) else config
        if configurable is None:
            return cls()
        if not isinstance(configurable, Mapping):
            msg = f'config["configurable"] must be a mapping, not {configurable!r}'
            raise ValueError(msg)  # noqa: TRY004  (as for every unusable argument)
        ids: dict[str, str] = {}
        for name, keys in _CONFIG_KEYS.items():
            for key in keys:
                value = configurable.get(key)
                if isinstance(value, bool) or not isinstance(value, str | int | UUID | None):
                    msg = f'config["configurable"]["{key}"] must be text, not {value!r}'
                    raise ValueError(msg)  # noqa: TRY004  (as for every unusable argument)
                text = "" if value is None else clean_text(str(value)).strip()
                if text:
                    ids[name] = text
                    break
        return cls(**ids)

    def scope_id(self, scope: str) -> str | None:
        """Return the turn's id in `scope`, or None where the config lacks a part of it."""
        if scope == "persona":
            both = self.user_id and self.persona_id and not self._hides_its_end
            return f"{self.user_id}::{self.persona_id}" if both else None
        return getattr(self, f"{scope}_id") or None

    @property
    def _hides_its_end(self) -> bool:
        """Whether `user_id::persona_id` could be read as a persona of another user, too."""
        return "::" in self.user_id or self.user_id.endswith(":")

    def missing(self, scope: str) -> str:
        """Name the config keys without which `scope` cannot be resolved."""
        if scope == "persona" and self._hides_its_end:
            return 'a config["configurable"]["user_id"] without "::" and without ":" at its end'
        names = ("user_id", "persona_id") if scope == "persona" else (f"{scope}_id",)
        return " and ".join(
            f'config["configurable"]["{name}"]' for name in names if not getattr(self, name)
        )

    def sees(self, scope: str | None = None, *, require: bool = False) -> Visibility:
        """Derive what a search of this turn sees.

        Args:
            scope: Narrow to this scope's own records and its unscoped ones; None: all that the
                turn may see.
            require: A turn without ids sees nothing, where it would see everything.

        Raises:
            ValueError: `scope` is not the name of a scope.
        """
        if scope is not None:
            check_scope(scope)
            scope_id = self.scope_id(scope)
            if scope_id is None:
                denied = f'scope "{scope}" needs {self.missing(scope)}, which this turn lacks'
                return Visibility(owners=(), denied=denied)
            return Visibility(owners=((scope, scope_id),), unscoped=(scope,))
        owners = tuple(
            (name, scope_id) for name in SCOPES if (scope_id := self.scope_id(name)) is not None
        )
        if require and self == Turn():
            keys = ", ".join(_CONFIG_KEYS)
            denied = f'nothing can be seen without one of {keys} in config["configurable"]'
            return Visibility(owners=(), denied=denied)
        # A persona without its user is an id too: such a turn sees unscoped records alone.
        named = owners or self.persona_id
        return Visibility(owners=owners) if named else Visibility()

    def files_under(self, scope: str | None = None) -> tuple[Scope, str]:
        """Return the scope and scope id under which this turn's new records are kept.

        A turn with a user keeps them for that user; one without keeps them unscoped, so that a
        one-user agent's memory crosses its threads. `scope` asks for another scope.

        Raises:
            ValueError: `scope` is unknown, or the turn cannot resolve it.
        """
        if scope is None:
            return "user", self.user_id
        checked = check_scope(scope)
        scope_id = self.scope_id(checked)
        if scope_id is None:
            msg = f'scope "{scope}" needs {self.missing(scope)}'
            raise ValueError(msg)
        return checked, scope_id


def check_scope(scope: Any) -> Scope:
    """Return `scope`, or raise a `ValueError` that names the scopes there are."""
    for known in SCOPES:
        if scope == known:
            return known
    msg = f"scope: unknown scope {scope!r}: use one of {', '.join(SCOPES)}"
    raise ValueError(msg)
