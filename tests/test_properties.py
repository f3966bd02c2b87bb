"""No query is an error, and no answer holds what a filter or a scope excludes.

Thousands of generated queries in every script meet a corpus of many owners, types, sessions,
times and roles, by keyword alone and in hybrid mode.
"""

import random
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langchain_agentmem import AgentMemory, Memory, Message
from langchain_agentmem.records import is_blank, parse_time_range
from langchain_agentmem.storage.text import normalize

START = datetime(2023, 1, 1, tzinfo=UTC)
WORDS = [
    *"cat dog violin budget Monday ADR-016 user_id don't naïve Straße C++ 50% NOT AND".split(),
    *"口令 部署方案 微信读书 东京 カフェ 서울 ประชุม Москва हिन्दी سلام שלום \U0001f600 { *".split(),
]
USERS, THREADS, SESSIONS = ["", "anna", "ben"], ["", "t1", "t2"], ["s1", "s 2", "会话"]
TYPES, SCENES = ["persona", "episodic", "Facts"], ["", "Home office", "100% wörk_x", "旅行"]
ROLES = ["user", "assistant", "system", "tool"]


def owners() -> list[tuple[str, str]]:
    scoped = [("user", user) for user in USERS] + [("thread", thread) for thread in THREADS]
    return [*scoped, ("persona", "anna::tutor"), ("organization", "acme")]


@pytest.fixture(scope="module", params=["none", "local"], ids=["keyword", "hybrid"])
def corpus(request: pytest.FixtureRequest) -> Iterator[AgentMemory]:
    """Three hundred memories and as many messages, and some that were deleted."""
    chance = random.Random(7)  # noqa: S311  (a corpus, not a secret)
    with closing(AgentMemory.in_memory(embedding=request.param)) as memory:
        memories, messages = [], []
        for i in range(300):
            scope, scope_id = chance.choice(owners())
            common: dict[str, Any] = {
                "content": " ".join(chance.choices(WORDS, k=chance.randint(1, 12))),
                "scope": scope,
                "scope_id": scope_id,
                "session_key": chance.choice(SESSIONS),
            }
            at = START + timedelta(hours=i)
            memories.append(
                Memory(
                    id=f"memory-{i}",
                    type=chance.choice(TYPES),
                    scene_name=chance.choice(SCENES),
                    created_at=at,
                    **common,
                )
            )
            role: Any = chance.choice(ROLES)
            messages.append(Message(id=f"message-{i}", role=role, recorded_at=at, **common))
        memory.add_memories(memories)
        memory.add_messages(None, messages)
        memory.delete([f"{kind}-{i}" for kind in ("memory", "message") for i in range(0, 300, 11)])
        yield memory


TRICKS = st.sampled_from(
    [
        *WORDS,
        *"\" ' * ( ) { } [ ] : ^ - + ~ | & % _ \\ / @ # $ ; , . ? ! < > = `".split(),
        *"AND OR NOT NEAR NEAR/3 terms: rowid rank --".split(),
        "\x00",
        "\ud800",
        "\udfff",
        "\u200b",
        "\u202e",
        "\ufeff",
        "\u0301",
        "\U0001f1e9\U0001f1ea",
        "\U0001f468\u200d\U0001f469",
        "' OR 1=1 --",
        '"); DROP TABLE memories; --',
        "x" * 3000,
        "部" * 500,
        "the of and",
    ]
)
QUERIES = st.one_of(
    st.lists(TRICKS, min_size=1, max_size=8).map(" ".join),
    st.lists(TRICKS, min_size=1, max_size=5).map("".join),
    st.text(st.characters(), max_size=60),
)
ANY_QUERY = settings(
    max_examples=900,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    database=None,
)
HOURS = st.integers(0, 300).map(lambda hour: START + timedelta(hours=hour))
TIMES = st.none() | HOURS | HOURS.map(lambda at: at.date().isoformat())
CONFIG = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "user_id": st.sampled_from(["anna", "ben", "carl", ""]),
        "thread_id": st.sampled_from(["t1", "t2", "t3"]),
        "persona_id": st.just("tutor"),
        "organization_id": st.sampled_from(["acme", "other"]),
    },
).map(lambda ids: {"configurable": ids})
LIMITS = st.integers(1, 100)
INVENTED = st.sampled_from(["missing", "x' OR '1'='1", "%", "_", "\ud800", "\x00", '"'])


def may_see(hit: Any, config: dict[str, Any] | None) -> bool:
    """Say who sees what, once more and in other words."""
    ids = {key: value for key, value in ((config or {}).get("configurable") or {}).items() if value}
    if not ids or hit.scope_id == "":
        return True
    own = {
        "user": ids.get("user_id"),
        "thread": ids.get("thread_id"),
        "organization": ids.get("organization_id"),
        "persona": f"{ids.get('user_id')}::{ids.get('persona_id')}",
    }
    return bool(hit.scope_id == own[hit.scope])


def check(result: Any, limit: int) -> None:
    ids = [hit.id for hit in result.results]
    scores = [hit.score for hit in result.results]
    assert len(set(ids)) == len(ids) == result.total <= limit
    assert scores == sorted(scores, reverse=True)
    assert result.strategy in ("hybrid", "embedding", "fts", "none")
    assert not any("failed" in note or "longer" in note for note in result.notes), result.notes
    assert not any(int(id_.rpartition("-")[2]) % 11 == 0 for id_ in ids)  # those are deleted


def within(at: datetime, after: Any, before: Any) -> bool:
    first, last = parse_time_range(after, before)
    return (first is None or at >= first) and (last is None or at <= last)


@ANY_QUERY
@given(
    query=QUERIES,
    limit=LIMITS,
    type_=st.none() | st.sampled_from(TYPES) | INVENTED,
    scene=st.none() | st.sampled_from(["home", "WÖRK", "% w", "旅", "office"]) | INVENTED,
    session_key=st.none() | st.sampled_from(SESSIONS) | INVENTED,
    after=TIMES,
    before=TIMES,
    config=CONFIG,
)
def test_memories(
    corpus: AgentMemory,
    *,
    query: str,
    limit: int,
    type_: str | None,
    scene: str | None,
    session_key: str | None,
    after: Any,
    before: Any,
    config: dict[str, Any] | None,
) -> None:
    result = corpus.search_memories(
        query,
        limit,
        type=type_,
        scene=scene,
        session_key=session_key,
        after=after,
        before=before,
        config=config,
    )

    check(result, limit)
    for hit in result.results:
        assert type_ is None or hit.type.lower() == type_.lower()
        assert scene is None or normalize(scene) in normalize(hit.scene_name)
        assert session_key is None or hit.session_key == session_key
        assert within(hit.created_at, after, before)
        assert may_see(hit, config)


@ANY_QUERY
@given(
    query=QUERIES,
    limit=LIMITS,
    session_key=st.none() | st.sampled_from(SESSIONS) | INVENTED,
    role=st.none() | st.sampled_from(ROLES) | INVENTED,
    after=TIMES,
    before=TIMES,
    config=CONFIG,
)
def test_conversations(
    corpus: AgentMemory,
    *,
    query: str,
    limit: int,
    session_key: str | None,
    role: str | None,
    after: Any,
    before: Any,
    config: dict[str, Any] | None,
) -> None:
    result = corpus.search_conversations(
        query, limit, session_key=session_key, role=role, after=after, before=before, config=config
    )

    check(result, limit)
    for hit in result.results:
        assert session_key is None or hit.session_key == session_key
        assert hit.role == role if role else hit.role in ("user", "assistant")
        assert within(hit.recorded_at, after, before)
        assert may_see(hit, config)


@settings(ANY_QUERY, max_examples=150)
@given(words=st.lists(st.sampled_from(WORDS[:10]), min_size=1, max_size=3), config=CONFIG)
def test_what_a_turn_may_see_is_found(
    corpus: AgentMemory, words: list[str], config: dict[str, Any] | None
) -> None:
    """Each record with the word that the turn may see is there, if the answer is long enough."""
    result = corpus.search_memories(words[0], 100, config=config)
    found = {hit.id for hit in result.results}

    records = [corpus.get(f"memory-{i}") for i in range(300)]
    holders = {
        record.id
        for record in records
        if record and words[0] in record.content.split(" ") and may_see(record, config)
    }
    missing = holders - found
    # What is left out has made room for others that hold the word.
    assert not missing or (len(found) == 100 and all(hit.keyword_rank for hit in result.results))
    assert holders or config is not None


@settings(ANY_QUERY, max_examples=200)
@given(text=st.text(min_size=1, max_size=200), label=st.text(max_size=60))
def test_any_text_can_be_kept_and_comes_back(text: str, label: str) -> None:
    with closing(AgentMemory.in_memory(embedding="none")) as memory:
        if is_blank(text):
            with pytest.raises(ValueError, match="content"):
                memory.add_memory(text)
            return
        added = memory.add_memory(text, scene_name=label, tags=[label], metadata={label: label})

        assert memory.get(added.id) == added
        assert memory.add_memory(text).id == added.id
        assert memory.update_memory(added.id, content=f"{text} more").content.endswith(" more")
        assert memory.delete(added.id) == 1
        assert memory.purge(added.id) == 1
