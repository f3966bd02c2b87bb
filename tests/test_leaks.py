"""Nobody reads what belongs to others: on no path, in no message, by no tool."""

import asyncio
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from sqlite_without_fts5 import remove_fts5, remove_full_text
from tenants import QUERIES, RECORDS, USERS, fill, ids_of, marks, record_id, visible

from langchain_agentmem import AgentMemory, AgentMemoryToolkit, Memory, SearchResult
from langchain_agentmem.scopes import Visibility
from langchain_agentmem.search.vector_search import VectorSearch
from langchain_agentmem.storage import selection
from langchain_agentmem.storage.keyword_index import KeywordIndex
from langchain_agentmem.storage.kinds import LIVE
from langchain_agentmem.storage.selection import EVERY_RECORD

Kind = Literal["memories", "messages"]
KINDS: tuple[Kind, ...] = ("memories", "messages")
Config = RunnableConfig

PATHS = {
    "hybrid": ("local", None),
    "hybrid, FTS4": ("local", remove_fts5),
    "embedding": ("local", remove_full_text),
    "fts": ("none", None),
    "fts, FTS4": ("none", remove_fts5),
}
EVERYTHING = set(range(len(RECORDS)))


def turn(**ids: Any) -> Config:
    return {"configurable": ids}


TURNS = [
    turn(user_id="ann"),
    turn(user_id="bob", persona_id="coach"),
    turn(user_id="a.b@c.com", thread_id="t1", organization_id="acme"),
    turn(user_id="ann", persona_id="coach", thread_id="t2", organization_id="globex"),
    turn(thread_id="t1"),
    turn(organization_id="acme"),
    turn(persona_id="coach"),
    turn(user_id="somebody new", thread_id="t9"),
]


@pytest.fixture(scope="module", params=PATHS)
def memory(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[AgentMemory]:
    """The tenants' memory, once for each way a search can go."""
    embedding, remove = PATHS[request.param]
    with pytest.MonkeyPatch.context() as patch:
        if remove is not None:
            remove(patch)
        opened = AgentMemory.open(tmp_path_factory.mktemp("tenants"), embedding=embedding)
    with opened:
        fill(opened)
        assert opened.status().strategy == request.param.partition(",")[0]
        yield opened


@pytest.fixture
def own_copy(tmp_path: Path) -> Iterator[AgentMemory]:
    """The tenants' memory, for tests that change it."""
    with AgentMemory.open(tmp_path / "tenants", embedding="none") as opened:
        fill(opened)
        yield opened


@pytest.fixture(params=[0, 1000], ids=["widening", "exact"])
def vector_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of finding neighbours under a condition."""
    monkeypatch.setattr(selection, "few_at_most", lambda _: request.param)


def search(memory: AgentMemory, kind: Kind, query: str, limit: int, **options: Any) -> Any:
    run = memory.search_memories if kind == "memories" else memory.search_conversations
    return run(query, limit, **options)


async def asearch(memory: AgentMemory, kind: Kind, query: str, limit: int, **options: Any) -> Any:
    run = memory.asearch_memories if kind == "memories" else memory.asearch_conversations
    return await run(query, limit, **options)


def read_of(result: SearchResult[Any]) -> set[int]:
    """The marks in all that a search answered: hits, message and notes."""
    assert result.total == len(result.results)
    return marks(result.to_dict())


some_id = st.sampled_from(["", " ", None, "nobody", "nobody::coach", "%", "' OR 1=1 --"])
turns = st.fixed_dictionaries(
    {},
    optional={
        "user_id": st.sampled_from([*USERS, " ann ", "ANN", "ann::coach"]) | some_id,
        "langgraph_user_id": st.sampled_from(USERS) | some_id,
        "persona_id": st.sampled_from(["coach", "coach "]) | some_id,
        "thread_id": st.sampled_from(["t1", "t2", "session-mark0."]) | some_id,
        "organization_id": st.sampled_from(["acme", "globex"]) | some_id,
    },
).map(lambda ids: {"configurable": ids})
mark = st.integers(0, len(RECORDS) - 1)
filters = st.fixed_dictionaries(
    {},
    optional={
        "session_key": mark.map("session-mark{}.".format),
        "after": st.just("2020-01-01"),
        "min_similarity": st.sampled_from([-1.0, 0.0, 0.3, 0.99]),
        "scope": st.sampled_from(["user", "persona", "thread", "organization"]),
    },
)
memory_filters = st.fixed_dictionaries(
    {},
    optional={
        "type": mark.map("type-mark{}.".format),
        "scene": mark.map("scene-mark{}.".format) | st.just("SCENE"),
    },
)


def effective(config: Config) -> Config:
    """A config in the words of the oracle, which knows no platform's key."""
    ids = ids_of(config)
    platform = ids.pop("langgraph_user_id", None)
    return turn(**({"user_id": platform} if platform else {}) | ids)


class TestSearches:
    """Any turn, any query, any filter, on each path."""

    @settings(max_examples=80, deadline=None)
    @given(
        config=turns,
        query=st.sampled_from(QUERIES) | st.text(max_size=20),
        limit=st.integers(1, 100),
        filters=filters,
        memory_filters=memory_filters,
        kind=st.sampled_from(["memories", "messages"]),
    )
    def test_only_what_the_turn_sees_comes_back(
        self,
        memory: AgentMemory,
        *,
        config: Config,
        query: str,
        limit: int,
        filters: dict[str, Any],
        memory_filters: dict[str, Any],
        kind: Kind,
    ) -> None:
        asked = {**filters, **(memory_filters if kind == "memories" else {})}
        seen = visible(effective(config), filters.get("scope"))
        # What was asked for may be named in the answer: the turn knew it.
        result = search(memory, kind, query, limit, config=config, **asked)
        assert {hit.metadata["mark"] for hit in result.results} <= {f"mark{m}." for m in seen}
        assert read_of(result) <= seen | marks(asked)
        same = asyncio.run(asearch(memory, kind, query, limit, config=config, **asked))
        assert [hit.id for hit in same.results] == [hit.id for hit in result.results]
        assert (same.message, same.notes) == (result.message, result.notes)

    @pytest.mark.usefixtures("vector_way")
    @pytest.mark.parametrize("scope", [None, "user", "persona", "thread", "organization"])
    def test_and_all_of_it(self, memory: AgentMemory, scope: str | None) -> None:
        for config, kind in itertools.product(TURNS, KINDS):
            for query in ("harbour boats", "harb* OR boat*"):
                result = search(memory, kind, query, 100, config=config, scope=scope)
                assert read_of(result) == visible(config, scope), (config, kind, query)

    @pytest.mark.parametrize("kind", ["memories", "messages"])
    def test_without_ids_everything_is_seen(self, memory: AgentMemory, kind: Kind) -> None:
        for config in (None, turn(), turn(user_id="  ")):
            assert read_of(search(memory, kind, "harbour boats", 100, config=config)) == EVERYTHING

    @pytest.mark.parametrize("config", [turn(user_id="newcomer"), turn(thread_id="t9")], ids=str)
    def test_others_do_not_starve_the_answer(self, memory: AgentMemory, config: Config) -> None:
        """One record is found behind a crowd that says the same in fewer words."""
        crowd = [Memory(content="zebra crossing", id=f"crowd-{n}") for n in range(120)]
        saved = memory.add_memories(crowd, config=turn(user_id="crowd"))
        scope = "user" if "user_id" in config["configurable"] else "thread"
        own = memory.add_memory(
            "a crossing for one zebra, and more words", scope=scope, config=config
        )
        for query in ("zebra crossing", "zebra AND cross*"):
            result = memory.search_memories(query, 1, config=config)
            assert [hit.id for hit in result.results] == [own.id]
        memory.purge([own.id, *(record.id for record in saved.records)])

    def test_the_last_read_would_be_enough(
        self, memory: AgentMemory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever the two indexes send, what comes back is what the turn sees."""
        keywords, vectors = KeywordIndex.search, VectorSearch.search

        def all_keywords(self: Any, kind: Any, query: str, _: Any, *rest: Any, **more: Any) -> Any:
            return keywords(self, kind, query, LIVE, *rest, **more | {"selection": EVERY_RECORD})

        def all_vectors(self: Any, request: Any, vector: Any, _: Any) -> Any:
            everything = replace(request, visibility=Visibility(), filters={})
            return vectors(self, everything, vector, EVERY_RECORD)

        monkeypatch.setattr(KeywordIndex, "search", all_keywords)
        monkeypatch.setattr(VectorSearch, "search", all_vectors)
        for config, kind in itertools.product(TURNS, KINDS):
            result = search(memory, kind, "harbour boats", 100, config=config)
            assert read_of(result) == visible(config)


class TestMessages:
    """What an answer says beside its hits."""

    @pytest.mark.parametrize("name", ["type", "scene", "session_key"])
    def test_only_values_that_the_turn_sees_are_named(self, memory: AgentMemory, name: str) -> None:
        for config in TURNS:
            result = memory.search_memories("harbour", config=config, **{name: "invented"})  # type: ignore[arg-type]
            named = marks(str(result.message))
            assert named
            assert named <= visible(config)

    @pytest.mark.parametrize("name", ["type", "scene", "session_key"])
    def test_a_value_of_others_is_answered_like_an_invented_one(
        self, memory: AgentMemory, name: str
    ) -> None:
        config = turn(user_id="ann")
        prefix = name.removesuffix("_key")
        (hidden, *_) = EVERYTHING - visible(config)
        messages = [
            str(memory.search_memories("harbour", config=config, **{name: value}).message)  # type: ignore[arg-type]
            for value in (f"{prefix}-mark{hidden}.", f"{prefix}-mark999.")
        ]
        assert messages[0].replace(f"mark{hidden}.", "mark999.") == messages[1]

    def test_who_sees_nothing_hears_of_an_empty_memory(self, tmp_path: Path) -> None:
        with AgentMemory.open(tmp_path / "memory", embedding="none") as memory:
            memory.add_memory("the harbour", config=turn(user_id="ann"))
            result = memory.search_memories("harbour", config=turn(user_id="bob"))
            assert str(result.message).startswith("There are no memories yet")

    def test_waiting_records_of_others_are_not_counted_or_named(self, tmp_path: Path) -> None:
        ann, bob = turn(user_id="ann"), turn(user_id="bob")
        with AgentMemory.open(tmp_path / "memory", embedding=_Fussy()) as memory:
            memory.add_memory("the boats of bob", config=bob)
            memory.add_memories([Memory(id="poisoned", content="poison in the harbour")])
            memory.add_memory("poison of ann", config=ann)
            assert memory.status().pending == 2
            assert any("2 records wait" in note for note in memory.search_memories("x").notes)
            memory.purge(["poisoned"])
            (note,) = memory.search_memories("harbour", config=ann).notes
            assert note.startswith("1 record waits to be found by meaning;")
            assert memory.search_memories("harbour", config=bob).notes == []


class _Fussy(Embeddings):
    """A model that refuses some texts and repeats them in its complaint."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        for text in texts:
            if "poison" in text:
                msg = f"cannot embed {text!r}"
                raise ValueError(msg)
        return [[1.0, 0.5] for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return [1.0, 0.5]


class TestRecordsById:
    """Whoever knows an id gets no further."""

    @pytest.mark.parametrize("config", TURNS, ids=str)
    def test_reading_and_changing(self, own_copy: AgentMemory, config: Config) -> None:
        seen = visible(config)
        for number in EVERYTHING:
            id_ = record_id(number)
            assert (own_copy.get(id_, config=config) is not None) == (number in seen)
            assert (own_copy.get(record_id(number, "messages"), config=config) is not None) == (
                number in seen
            )
            if number in seen:
                continue
            with pytest.raises(ValueError, match=f"^id: there is no memory {id_!r}$"):
                own_copy.update_memory(id_, config=config, content="changed")
            with pytest.raises(ValueError, match=f"^ids: there is no memory {id_!r}$"):
                own_copy.merge_memories([record_id(min(seen)), id_], config=config)
        assert {hit.content for hit in own_copy.search_memories("changed", 100).results} <= {
            text for _, text in RECORDS
        }

    @pytest.mark.parametrize("kind", ["memories", "messages"])
    @pytest.mark.parametrize("config", TURNS, ids=str)
    def test_deleting(self, own_copy: AgentMemory, config: Config, kind: Kind) -> None:
        ids = [record_id(number, kind) for number in EVERYTHING]
        count = len(visible(config))
        assert own_copy.delete(ids, config=config) == count
        assert own_copy.delete(ids, config=config) == 0
        assert own_copy.restore(ids, config=config) == count
        assert own_copy.purge(ids, config=config) == count
        left = search(own_copy, kind, "harbour boats", 100)
        assert read_of(left) == EVERYTHING - visible(config)

    def test_an_id_that_others_have_is_no_way_in(self, own_copy: AgentMemory) -> None:
        ann, bob = turn(user_id="ann"), turn(user_id="bob")
        own_copy.add_memories([Memory(id="note", content="ann's harbour")], config=ann)
        report = own_copy.add_memories([Memory(id="note", content="bob's harbour")], config=bob)
        assert report.records[0].id != "note"
        kept = own_copy.get("note", config=ann)
        assert kept is not None
        assert kept.content == "ann's harbour"
        own = own_copy.get("note", config=bob)  # the id that bob gave, too
        assert own is not None
        assert own.content == "bob's harbour"
        own_copy.update_memory("note", content="bob's quay", config=bob)
        assert own_copy.delete("note", config=bob) == 1
        assert own_copy.get("note", config=bob) is None
        assert own_copy.get("note", config=ann) == kept
        assert own_copy.get("note") == kept

    def test_an_id_that_several_writers_gave_is_nobodys(self, own_copy: AgentMemory) -> None:
        for user in ("ann", "bob", "eve"):
            note = Memory(id="note", content=f"{user}'s harbour")
            own_copy.add_memories([note], config=turn(user_id=user))
        own_copy.purge("note", config=turn(user_id="ann"))
        assert own_copy.get("note") is None  # to code that sees them all, it could be either
        assert own_copy.delete("note") == 0
        for user in ("bob", "eve"):
            assert own_copy.delete("note", config=turn(user_id=user)) == 1


SPOOF: dict[str, Any] = {
    "user_id": "bob",
    "scope": "organization",
    "scope_id": "acme",
    "config": turn(user_id="bob", organization_id="acme"),
    "configurable": {"user_id": "bob"},
    "run_manager": None,
    "memory": None,
    "metadata": {"scope_id": "bob"},
}


def calls(mark: int) -> list[tuple[str, dict[str, Any]]]:
    """A call of each tool that aims at a record, with all that a model could add to it."""
    aims: list[tuple[str, dict[str, Any]]] = [
        ("memory_search", {"query": "harbour boats", "limit": 20}),
        ("memory_search", {"query": "harbour", "type": f"type-mark{mark}."}),
        ("conversation_search", {"query": "harbour boats", "limit": 20}),
        ("conversation_search", {"query": "boats", "session_key": f"session-mark{mark}."}),
        ("memory_update", {"id": record_id(mark), "content": "changed"}),
        ("memory_merge", {"ids": [record_id(mark), record_id(mark + 1)]}),
        ("memory_delete", {"ids": [record_id(mark), record_id(mark, "messages")]}),
    ]
    return [(name, {**arguments, **SPOOF}) for name, arguments in aims]


class TestTools:
    @pytest.mark.parametrize("config", TURNS, ids=str)
    async def test_invoked_alone(self, own_copy: AgentMemory, config: Config) -> None:
        tools = AgentMemoryToolkit(memory=own_copy, editing=True).get_tools()
        by_name = {tool.name: tool for tool in tools}
        seen = visible(config)
        hidden = min(EVERYTHING - seen)
        for name, arguments in calls(hidden):
            call = {"type": "tool_call", "id": "1", "name": name, "args": arguments}
            for answer in (
                by_name[name].invoke(call, config),
                await by_name[name].ainvoke(call, config),
            ):
                told = marks(str(answer.content)) | marks(answer.artifact or {})
                assert told <= seen | marks(arguments)
                results = (answer.artifact or {}).get("results", [])
                assert marks(results) <= seen
        assert own_copy.get(record_id(hidden)) is not None
        assert own_copy.get(record_id(hidden, "messages")) is not None

    def test_what_is_added_belongs_to_the_turn_alone(self, own_copy: AgentMemory) -> None:
        tools = AgentMemoryToolkit(memory=own_copy, editing=True).get_tools()
        add = next(tool for tool in tools if tool.name == "memory_add")
        add.invoke({"content": "a secret of ann", **SPOOF}, turn(user_id="ann"))
        (hit,) = own_copy.search_memories('"secret of ann"').results
        assert (hit.scope, hit.scope_id, hit.metadata) == ("user", "ann", {})

    @pytest.mark.parametrize("asynchronous", [False, True])
    async def test_many_turns_at_once_on_shared_tools(
        self, memory: AgentMemory, *, asynchronous: bool
    ) -> None:
        """One tool node, a run for each turn, again and again and all at the same time."""
        graph = StateGraph(MessagesState)
        graph.add_node("tools", ToolNode(AgentMemoryToolkit(memory=memory).get_tools()))
        graph.add_edge(START, "tools")
        graph.add_edge("tools", END)
        run: Any = graph.compile()
        searches = [call for call in calls(0) if call[0].endswith("_search")]
        request = {
            "messages": [
                AIMessage(
                    "",
                    tool_calls=[
                        {"type": "tool_call", "id": str(i), "name": name, "args": arguments}
                        for i, (name, arguments) in enumerate(searches)
                    ],
                )
            ]
        }
        configs = TURNS * 2
        if asynchronous:
            states = await asyncio.gather(*(run.ainvoke(request, config) for config in configs))
        else:
            with ThreadPoolExecutor(8) as workers:
                states = list(workers.map(lambda config: run.invoke(request, config), configs))
        for config, state in zip(configs, states, strict=True):
            answers = [m for m in state["messages"] if isinstance(m, ToolMessage)]
            assert len(answers) == len(searches)
            for answer in answers:
                assert marks(answer.artifact["results"]) <= visible(config)
                assert marks(str(answer.content)) <= visible(config) | {0}
            assert answers[0].artifact["total"] == min(20, len(visible(config)))
