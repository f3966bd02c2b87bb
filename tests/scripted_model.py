"""A chat model that says what a script makes of its input, and notes every input it gets."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field

Script = Callable[[list[BaseMessage]], AIMessage]


def repeat_the_system(messages: list[BaseMessage]) -> AIMessage:
    """Answer with what the system message holds: a model that reads it can use it."""
    return AIMessage(f"I know: {system_text(messages)}")


def say(text: str) -> Script:
    """Always say the same."""
    return lambda _: AIMessage(text)


def call(name: str, number: int = 1, **arguments: Any) -> dict[str, Any]:
    """Make a tool call."""
    return {"type": "tool_call", "id": f"call-{name}-{number}", "name": name, "args": arguments}


def search_then_repeat(*names: str, text: str = "") -> Script:
    """Search for what the user said, then repeat what the tools gave."""
    return call_then_repeat(lambda asked: [call(name, query=asked) for name in names], text)


def call_then_repeat(plan: Callable[[str], list[dict[str, Any]]], text: str = "") -> Script:
    """Make the tool calls that `plan` makes of what the user said, then repeat what they gave."""

    def script(messages: list[BaseMessage]) -> AIMessage:
        if isinstance(messages[-1], ToolMessage):
            start = max(i for i, each in enumerate(messages) if isinstance(each, AIMessage))
            return AIMessage("I read: " + "\n".join(str(m.content) for m in messages[start + 1 :]))
        asked = next(each for each in reversed(messages) if isinstance(each, HumanMessage))
        return AIMessage(text, tool_calls=plan(asked.text))

    return script


def system_text(messages: Sequence[BaseMessage]) -> str:
    """The text of the system messages among a model's input."""
    return "\n".join(each.text for each in messages if isinstance(each, SystemMessage))


class ScriptedModel(BaseChatModel):
    """A chat model without a mind."""

    script: Script
    seen: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.seen.append(messages)
        return ChatResult(generations=[ChatGeneration(message=self.script(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        self.seen.append(messages)
        answer = self.script(messages)
        words = str(answer.content).split(" ")
        for number, word in enumerate(words):
            last = number == len(words) - 1
            chunk = AIMessageChunk(content=word if last else f"{word} ")
            if last:
                chunk.tool_calls = answer.tool_calls
                chunk.chunk_position = "last"
            yield ChatGenerationChunk(message=chunk)
