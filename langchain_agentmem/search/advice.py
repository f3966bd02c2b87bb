"""Why nothing was found, where it is not the query's fault."""

from typing import Any

from langchain_agentmem.quoting import as_json, quote, shortened
from langchain_agentmem.search.request import SearchRequest
from langchain_agentmem.storage.kinds import Condition
from langchain_agentmem.storage.record_store import RecordStore

_VALUES_NAMED = 12


def advise(store: RecordStore, request: SearchRequest[Any]) -> str | None:
    """Tell that nothing is there, or that a filter matches nothing; None: neither is so."""
    kind = request.kind
    everything = kind.where({}, request.visibility, whole=True)
    if not store.ids(kind, everything, limit=1):
        return f"There are no {kind.name} yet: nothing has been saved that could be found."
    for name, value in request.filters.items():
        facet = kind.filters[name].facet
        if facet is None or store.ids(
            kind, kind.where({name: value}, request.visibility, whole=True), limit=1
        ):
            continue
        return _name_values(store, request, name, facet, everything)
    return None


def note_of_range(request: SearchRequest[Any]) -> str | None:
    """Tell that no time can be between `after` and `before`; None: some can."""
    after, before = request.filters.get("after"), request.filters.get("before")
    if after is None or before is None or after <= before:
        return None
    return f"after lies behind before: no {request.kind.singular} can be between them"


def _name_values(
    store: RecordStore, request: SearchRequest[Any], name: str, facet: str, everything: Condition
) -> str:
    kind, asked = request.kind, request.filters[name]
    values = store.values(kind, facet, everything, _VALUES_NAMED + 1)
    if not values:
        return f"No {kind.singular} has any {name}; search without it."
    named = [quote(value, separator=",") for value in values[:_VALUES_NAMED]]
    listed = f"{', '.join(named)}{', ...' if len(values) > _VALUES_NAMED else ''}"
    shown = as_json(shortened(asked))
    return f"No {kind.singular} has {name} {shown}. There are: {listed}."
