"""Reads LangChain's messages, whatever form they come in, with one kind of error."""

from typing import Any

from langchain_core.messages import BaseMessage, convert_to_messages

from langchain_agentmem.errors import describe


def read_message(item: Any) -> BaseMessage:
    """Return a message, or what LangChain reads as one, such as `("user", "text")`.

    Raises:
        ValueError: It cannot be read.
    """
    if isinstance(item, BaseMessage):
        return item
    try:
        return convert_to_messages([item])[0]
    # By what is wrong, LangChain raises a ValueError, TypeError, KeyError, NotImplementedError, ...
    except Exception as error:
        raise ValueError(describe(error)) from error


def text_of(message: BaseMessage) -> str:
    """Return what a message says: its text blocks, joined by line breaks.

    Other blocks (images, tool calls) have no text.
    """
    if isinstance(message.content, str):
        return message.content
    texts = (
        block if isinstance(block, str) else block.get("text", "")
        for block in message.content
        if isinstance(block, str) or block.get("type") in ("text", "text-plain")
    )
    return "\n".join(text for text in texts if isinstance(text, str) and text)
