"""What a turn may see, save and change in one memory."""

from langchain_agentmem.errors import ScopeError
from langchain_agentmem.scopes import Config, Turn, Visibility


class Permissions:
    """The part of `AgentMemory` that judges what the config of a turn allows."""

    _require_scope: bool

    def _sees(self, config: Config | None, scope: str | None = None) -> Visibility:
        """Return what a search of a turn sees."""
        return Turn.from_config(config).sees(scope, require=self._require_scope)

    def _writes_as(self, config: Config | None) -> Turn:
        """Return the turn that new records are filed for.

        Raises:
            ScopeError: The turn may save nothing.
        """
        turn = Turn.from_config(config)
        if self._require_scope and config is not None and not turn.user_id:
            msg = (
                'config["configurable"] names no user_id: with require_scope, what a turn saves '
                "must belong to somebody"
            )
            raise ScopeError(msg)
        return turn

    def _may_touch(self, config: Config | None) -> Visibility:
        """Return what may be read or changed as a whole: by code that names no turn, everything."""
        return Visibility() if config is None else self._sees(config)

    def _must_touch(self, config: Config | None) -> Visibility:
        """Return the same, where it makes no sense to go on without anything.

        Raises:
            ScopeError: The turn may touch nothing at all; it is told why.
        """
        visibility = self._may_touch(config)
        if visibility.denied is not None:
            raise ScopeError(visibility.denied)
        return visibility
