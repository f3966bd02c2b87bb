"""`AgentMemoryMiddleware`: an agent that remembers by itself.

It needs langchain, the extra `agents`. What it does is in `integrations`, where graphs without
`create_agent` find it: `Recall` and `Capture`.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, SystemMessage

from langchain_agentmem.arguments import instance
from langchain_agentmem.integrations.capture_turns import Capture
from langchain_agentmem.integrations.recall import (
    DEFAULT_MAX_CHARS,
    DEFAULT_MAX_ITEMS,
    SOURCES,
    Recall,
    Source,
)
from langchain_agentmem.integrations.time_limit import DEFAULT_TIMEOUT_SECONDS
from langchain_agentmem.integrations.triviality import is_trivial
from langchain_agentmem.memory import AgentMemory
from langchain_agentmem.tools.toolkit import AgentMemoryToolkit

try:
    from langchain.agents.middleware import (
        AgentMiddleware,
        AgentState,
        ModelRequest,
        ModelResponse,
    )
except ImportError as error:
    msg = 'AgentMemoryMiddleware needs langchain: pip install "langchain-agentmem[agents]"'
    raise ImportError(msg) from error


class AgentMemoryMiddleware(AgentMiddleware[Any, Any, Any]):
    """Puts what a memory holds about the user's message before the model, and saves what is said.

    *Recall* adds a block of notes to the system message of a model call, and to that alone: it is
    in no state, no checkpoint and no captured message. *Capture* saves the messages of user and
    assistant: before each model call what was said so far, so that a run that is interrupted or
    fails has left it, and after the agent its answer. Whose memory it is, the run's config decides.
    A memory that fails or is slow costs the run at most `timeout` seconds before each model call,
    after each that calls tools, and after the last.
    """

    def __init__(
        self,
        memory: AgentMemory,
        *,
        recall: bool | Sequence[Source] = True,
        capture: bool = True,
        tools: bool | AgentMemoryToolkit = False,
        max_items: int = DEFAULT_MAX_ITEMS,
        max_chars: int = DEFAULT_MAX_CHARS,
        min_similarity: float | None = None,
        half_life_days: float | None = None,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        skip: Callable[[str], bool] = is_trivial,
    ) -> None:
        """Give an agent a memory.

        Args:
            memory: Where it is kept.
            recall: What is searched: `memories`, `conversations` (other threads than the present
                one), or both, as with True; False or an empty one turns recall off.
            capture: Whether messages are saved.
            tools: Whether the agent gets the search tools too; a toolkit: its tools.
            max_items: How many notes a block has at the most, 1 to 100.
            max_chars: How long a block may be, from 600 characters on.
            min_similarity: Cosine (-1 to 1) below which a record is not worth a note.
            half_life_days: Age at which a record counts half.
            timeout: Seconds that a run waits for recall, and for capture.
            skip: Tells of the user's text whether it is no reason to search.

        Raises:
            TypeError: `memory` or `tools` is of no usable type.
            ValueError: Another argument is unusable; it is named.
        """
        super().__init__()
        instance("memory", memory, AgentMemory)
        self._recall = None
        if recall:
            self._recall = Recall(
                memory,
                sources=SOURCES if recall is True else recall,
                max_items=max_items,
                max_chars=max_chars,
                min_similarity=min_similarity,
                half_life_days=half_life_days,
                timeout=timeout,
                skip=skip,
            )
        self._capture = Capture(memory, timeout=timeout) if capture else None
        self.tools = _tools(memory, tools)

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Save what was said so far, recall, and call the model."""
        messages = _so_far(request)
        saving = self._capture.start(messages) if self._capture else None
        block = self._recall.block(messages) if self._recall else ""
        if saving:
            saving.result()
        return handler(_with_block(request, block))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Async twin of `wrap_model_call`."""
        messages = _so_far(request)
        saving = self._capture.start(messages) if self._capture else None
        block = await self._recall.ablock(messages) if self._recall else ""
        if saving:
            await saving.aresult()
        return await handler(_with_block(request, block))

    def after_model(self, state: AgentState[Any], runtime: Any) -> None:  # noqa: ARG002
        """Save what was said beside tool calls: the run may be interrupted before they run."""
        if self._capture and _calls_tools(state):
            self._capture.save(state["messages"])

    async def aafter_model(self, state: AgentState[Any], runtime: Any) -> None:  # noqa: ARG002
        """Async twin of `after_model`."""
        if self._capture and _calls_tools(state):
            await self._capture.asave(state["messages"])

    def after_agent(self, state: AgentState[Any], runtime: Any) -> None:  # noqa: ARG002
        """Save what is new in the conversation."""
        if self._capture:
            self._capture.save(state["messages"])

    async def aafter_agent(self, state: AgentState[Any], runtime: Any) -> None:  # noqa: ARG002
        """Async twin of `after_agent`."""
        if self._capture:
            await self._capture.asave(state["messages"])


def _tools(memory: AgentMemory, tools: bool | AgentMemoryToolkit) -> list[Any]:  # noqa: FBT001
    if isinstance(tools, AgentMemoryToolkit):
        return tools.get_tools()
    if not isinstance(tools, bool):
        msg = f"tools must be True, False or an AgentMemoryToolkit, not {type(tools).__name__}"
        raise TypeError(msg)
    return AgentMemoryToolkit(memory=memory, past_only=True).get_tools() if tools else []


def _so_far(request: ModelRequest[Any]) -> list[Any]:
    """Return the conversation: what is sent to the model may be a part of it."""
    return list(request.state.get("messages") or request.messages)


def _calls_tools(state: AgentState[Any]) -> bool:
    messages = state["messages"]
    return bool(messages) and isinstance(messages[-1], AIMessage) and bool(messages[-1].tool_calls)


def _with_block(request: ModelRequest[Any], block: str) -> ModelRequest[Any]:
    """Return the request with the block at the end of its system message.

    At the end, so that what providers cache of a long prompt stays the same.
    """
    if not block:
        return request
    system = request.system_message
    content: Any
    if system is None or not system.content:
        content = block
    elif isinstance(system.content, str):
        content = f"{system.content}\n\n{block}"
    else:
        content = [*system.content, {"type": "text", "text": block}]
    message = (system or SystemMessage("")).model_copy(update={"content": content})
    return request.override(system_message=message)
