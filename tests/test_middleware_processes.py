"""An agent is told a fact in one process, and answers with it in another, days later as it were."""

import json
from pathlib import Path

import pytest
from python_process import run_python

SCRIPT = """
import json, sys
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from scripted_model import ScriptedModel, repeat_the_system, say, search_then_repeat, system_text
from langchain_agentmem import AgentMemory
from langchain_agentmem.middleware import AgentMemoryMiddleware

folder, mode, user, thread, text = sys.argv[1:]
scripts = {
    "tell": say("I will remember that."),
    "recall": repeat_the_system,
    "tool": search_then_repeat("memory_search", "conversation_search"),
}
recall = () if mode == "tool" else ("memories", "conversations")
model = ScriptedModel(script=scripts[mode])
config = {"configurable": {"user_id": user, "thread_id": thread}}
with (
    AgentMemory.open(folder + "/memory", embedding="local", require_scope=True) as memory,
    SqliteSaver.from_conn_string(folder + "/checkpoints.sqlite3") as saver,
):
    remembers = AgentMemoryMiddleware(memory, recall=recall, tools=True)
    agent = create_agent(model, middleware=[remembers], checkpointer=saver)
    messages = agent.invoke({"messages": [HumanMessage(text)]}, config)["messages"]
print(json.dumps({
    "answer": messages[-1].text,
    "types": [message.type for message in messages],
    "system": system_text(model.seen[0]),
}))
"""
FACT = "My dog is called Rex and must not eat grapes"
QUESTION = "What must my dog not eat?"


def process(folder: Path, mode: str, user: str, thread: str, text: str) -> dict[str, object]:
    """Run one turn of the agent in a process of its own."""
    done = run_python(SCRIPT, folder, mode, user, thread, text)
    assert done.returncode == 0, done.stderr
    told: dict[str, object] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("mode", ["recall", "tool"])
def test_what_one_process_is_told_another_answers_with(tmp_path: Path, mode: str) -> None:
    process(tmp_path, "tell", "ann", "thread-1", FACT)

    answer = process(tmp_path, mode, "ann", "thread-2", QUESTION)
    other = process(tmp_path, mode, "bob", "thread-3", QUESTION)

    assert FACT in str(answer["answer"])
    assert "grapes" not in json.dumps(other)
    if mode == "recall":
        assert answer["types"] == ["human", "ai"]
        assert f'"{FACT}"' in str(answer["system"])
    else:
        assert answer["types"] == ["human", "ai", "tool", "tool", "ai"]
        assert answer["system"] == ""
