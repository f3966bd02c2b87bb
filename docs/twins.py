"""Tells the reference what the decorators of `langchain_agentmem.twins` make of a method.

The reference is read from the source, where a search returns the request that it builds, and an
async twin is a plain attribute.
"""

from typing import Any

import griffe

_MAKERS = ("in_thread", "runs_search_async")


class Twins(griffe.Extension):
    """Gives searches the type that they return, and async twins their signature."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Rewrite the searches and the twins of a class."""
        for method in cls.members.values():
            if isinstance(method, griffe.Function) and _runs_search(method):
                method.returns = _result(method.returns)
        for name, member in list(cls.members.items()):
            if original := _original(cls, member):
                cls.set_member(name, _twin(name, member, original))


def _runs_search(method: griffe.Function) -> bool:
    return any(str(each.value) == "runs_search" for each in method.decorators)


def _result(request: Any) -> griffe.Expr:
    name = griffe.ExprName("SearchResult", parent=request.left.parent)
    return griffe.ExprSubscript(name, request.slice)


def _original(cls: griffe.Class, member: object) -> griffe.Function | None:
    """Return the method that an attribute is the twin of, if it is one."""
    if not isinstance(member, griffe.Attribute) or not isinstance(member.value, griffe.ExprCall):
        return None
    if str(member.value.function) not in _MAKERS:
        return None
    original = cls.members.get(str(member.value.arguments[0]))
    return original if isinstance(original, griffe.Function) else None


def _twin(name: str, member: Any, original: griffe.Function) -> griffe.Function:
    text = f"Async twin of `{original.name}`: the same arguments, result and errors."
    twin = griffe.Function(
        name,
        parameters=original.parameters,
        returns=original.returns,
        lineno=member.lineno,
        endlineno=member.endlineno,
        docstring=griffe.Docstring(text),
    )
    twin.labels.add("async")
    return twin
