"""How the commands word what they print: counts, and what the library says to whoever calls it."""

_SINGULAR = {"memories": "memory", "messages": "message", "vectors": "vector"}


def counted(count: int, plural: str) -> str:
    """Return a count with its noun, in the singular for 1: `1 memory`, `2 memories`."""
    return f"{count} {_SINGULAR[plural] if count == 1 else plural}"


def in_commands(text: str) -> str:
    """Return a text of the library with the command to type in place of the method to call."""
    return text.replace("memory.sync()", "`agentmem sync`")
