"""How methods come in pairs, sync and async, without repeating a body."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from langchain_agentmem.results import Hit, SearchResult
from langchain_agentmem.search.pipeline import SearchPipeline
from langchain_agentmem.search.request import SearchRequest

P = ParamSpec("P")
T = TypeVar("T")
SelfT = TypeVar("SelfT")
HitT = TypeVar("HitT", bound=Hit)


class Searches(Protocol):
    """What has a pipeline to search with."""

    _pipeline: SearchPipeline


SearcherT = TypeVar("SearcherT", bound=Searches)


def in_thread(
    method: Callable[Concatenate[SelfT, P], T],
) -> Callable[Concatenate[SelfT, P], Coroutine[Any, Any, T]]:
    """Make the async twin of a method: the same, in a worker thread."""

    @functools.wraps(method)
    async def twin(self: SelfT, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, self, *args, **kwargs)

    return _named(twin, method)


def runs_search(
    build: Callable[Concatenate[SearcherT, P], SearchRequest[HitT]],
) -> Callable[Concatenate[SearcherT, P], SearchResult[HitT]]:
    """Turn a method that builds a request into one that searches."""

    @functools.wraps(build)
    def search(self: SearcherT, *args: P.args, **kwargs: P.kwargs) -> SearchResult[HitT]:
        return self._pipeline.search(build(self, *args, **kwargs))

    return search


def runs_search_async(
    search: Callable[Concatenate[SearcherT, P], SearchResult[HitT]],
) -> Callable[Concatenate[SearcherT, P], Coroutine[Any, Any, SearchResult[HitT]]]:
    """Make the async twin of a method that `runs_search`: the same request, awaited."""
    build: Callable[..., SearchRequest[HitT]] = inspect.unwrap(search)

    @functools.wraps(search)
    async def twin(self: SearcherT, *args: P.args, **kwargs: P.kwargs) -> SearchResult[HitT]:
        return await self._pipeline.asearch(build(self, *args, **kwargs))

    return _named(twin, search)


def _named(twin: Callable[P, T], method: Callable[..., Any]) -> Callable[P, T]:
    name = method.__name__
    twin.__name__ = f"a{name}"
    twin.__doc__ = f"Async twin of `{name}`: the same arguments, result and errors."
    return twin
