"""The cases from the field, each with the whole kind that it stands for.

Numbers in the names are those of the table of cases. `side` searches memories or conversations;
where nothing else is said a case holds with and without vectors.
"""

import asyncio
import functools
import json
import math
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import ValidationError
from servers.openai_embeddings import EmbeddingServer, Fault

from langchain_agentmem import AgentMemory, EmbeddingSettings, Memory, Message, SearchResult
from langchain_agentmem.embeddings.local import WordLlamaEmbeddings
from langchain_agentmem.embeddings.provider import NOT_CONFIGURED
from langchain_agentmem.storage.vector_index import embedded_client

NOON = datetime(2023, 5, 8, 12, tzinfo=UTC)


@functools.cache
def local_model() -> WordLlamaEmbeddings:
    """Load WordLlama once for all memories of this module."""
    return WordLlamaEmbeddings()


class Side:
    """One of the two searches, over a memory of its own."""

    def __init__(self, memory: AgentMemory, kind: str) -> None:
        self.memory = memory
        self.kind = kind

    def keep(self, *texts: str, **fields: Any) -> list[Any]:
        """Save texts, one record each, and return the records."""
        return self.keep_all([{"content": text, **fields} for text in texts])

    def keep_all(self, given: list[dict[str, Any]]) -> list[Any]:
        """Save records with these fields, and return them."""
        if self.kind == "memories":
            memories = [Memory.model_validate(each) for each in given]
            return list(self.memory.add_memories(memories).records)
        said = [
            Message.model_validate({"role": "user", "session_key": "s1", **each}) for each in given
        ]
        return list(self.memory.add_messages(None, said).records)

    def search(self, query: str, limit: int = 5, **options: Any) -> SearchResult[Any]:
        if self.kind == "memories":
            return self.memory.search_memories(query, limit, **options)
        return self.memory.search_conversations(query, limit, **options)

    def find(self, query: str, limit: int = 5, **options: Any) -> list[str]:
        return [hit.content for hit in self.search(query, limit, **options).results]


@pytest.fixture(params=["memories", "conversations"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def keyword_side(kind: str) -> Iterator[Side]:
    with closing(AgentMemory.in_memory(embedding="none")) as memory:
        yield Side(memory, kind)


@pytest.fixture
def hybrid_side(kind: str) -> Iterator[Side]:
    with closing(AgentMemory.in_memory(embedding=local_model())) as memory:
        yield Side(memory, kind)


@pytest.fixture(params=["none", "local"])
def side(request: pytest.FixtureRequest, kind: str) -> Iterator[Side]:
    embedding = local_model() if request.param == "local" else "none"
    with closing(AgentMemory.in_memory(embedding=embedding)) as memory:
        yield Side(memory, kind)


@pytest.fixture
def served_side(kind: str, service_settings: EmbeddingSettings) -> Iterator[Side]:
    with closing(AgentMemory.in_memory(embedding=service_settings, timeout=0.5)) as memory:
        yield Side(memory, kind)


NOISE = ["completely unrelated", "something else", "天气很好", "音楽を聴く"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("口令", "专属测试口令是闪电阻尼器"),  # 1
        ("阻尼器", "专属测试口令是闪电阻尼器"),
        ("专属测试口令", "专属测试口令是闪电阻尼器"),
        ("youer", "修改youer服务端"),  # 4
        ("服务端", "修改youer服务端"),
        ("修改", "修改youer服务端"),
        ("API", "请调用API接口"),
        ("iPhone15", "新买的iPhone15手机"),
        ("v2", "升级到v2版本"),
        ("部署", "今天讨论了部署方案"),  # 5
        ("方案", "今天讨论了部署方案"),
        ("今天", "今天讨论了部署方案"),
        ("署", "今天讨论了部署方案"),
        ("東京", "昨日は東京へ行った"),
        ("カフェ", "駅前のカフェで会う"),
        ("서울", "서울에서 만났다"),
        ("ประชุม", "พรุ่งนี้มีประชุมเช้า"),
        ("ພາສາ", "ຂ້ອຍຮຽນພາສາລາວ"),
    ],
)
def test_01_04_05_a_part_of_a_text_without_spaces_is_found(
    keyword_side: Side, query: str, text: str
) -> None:
    keyword_side.keep(text, *NOISE)

    assert keyword_side.find(query) == [text]
    assert keyword_side.search(query).strategy == "fts"


@pytest.mark.parametrize(
    ("query", "ranked"),
    [
        (
            "微信读书 书架 阅读偏好",
            ["微信读书里的书架和阅读偏好", "微信读书的书架", "阅读偏好是科幻小说"],
        ),
        ("red green blue", ["red, green and blue", "only red and green", "nothing but red"]),
        ("Москва зима снег", ["В Москва зима и снег", "зима и снег там", "снег лежал там"]),
    ],
)
def test_02_terms_are_alternatives_and_more_of_them_rank_higher(
    keyword_side: Side, query: str, ranked: list[str]
) -> None:
    keyword_side.keep(*reversed(ranked), *NOISE)

    assert keyword_side.find(query) == ranked


@pytest.mark.parametrize(
    ("query", "both"),
    [
        ("广西 OR 桂林", {"去过广西", "喜欢桂林"}),
        ("广西 AND 桂林", {"去过广西", "喜欢桂林"}),  # it finds nothing, and is plain text then
        ("apple OR pear", {"an apple", "a pear"}),
        ("apple or pear", {"an apple", "a pear"}),
        ("apple AND pear", {"an apple", "a pear"}),
        ("apple NEAR pear", {"an apple", "a pear"}),
        ("apple | pear", {"an apple", "a pear"}),
        ("+apple -pear", {"an apple", "a pear"}),
        ('"apple pear"', {"an apple", "a pear"}),
        ("(apple) (pear)", {"an apple", "a pear"}),
    ],
)
def test_03_what_operators_do_not_find_is_found_as_plain_text(
    keyword_side: Side, query: str, both: set[str]
) -> None:
    keyword_side.keep(*both, *NOISE)

    assert set(keyword_side.find(query)) == both


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("what is the capital of France", "Paris is the capital city"),
        ("who was it that plays the violin", "Anna plays violin"),
        ("do you know where we put the keys", "keys hang by the door"),
    ],
)
def test_06_stop_words_do_not_outweigh_what_is_asked_for(side: Side, query: str, text: str) -> None:
    side.keep("the the is of what", "who was it that where do we", text)

    assert side.find(query)[0] == text


@pytest.mark.parametrize(
    "query", ["not", "do not", "before", "Not", "NOT", "do not call before", "nine"]
)
def test_07_a_query_of_stop_words_alone_still_searches(side: Side, query: str) -> None:
    side.keep("do not call before nine", "completely unrelated")

    assert side.find(query)[0] == "do not call before nine"


LITERALS = [
    "OC-41252",
    "don't use",
    "foo AND",
    "Downloads/transcripts",
    "(python",
    'say "hi',
    "tags:ui",
    "NEAR/3",
    "*",
    "{",
    "\U0001f600",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1e9\U0001f1ea",
    "C++",
    "a'b",
    "x^y",
    "50%",
    "user_id",
    "--flag",
    "[link](url)",
    "a\\b",
    "key=value;",
    "¡hola!",
    "nul\x00byte",
    "\ufffd surrogate",
]


@pytest.mark.parametrize("literal", LITERALS)
def test_08_literal_rows_are_found(side: Side, literal: str) -> None:
    row = f"row with {literal} inside"
    side.keep("completely unrelated", "another thing", row)

    assert side.find(literal)[0] == row


@pytest.mark.parametrize(
    "query",
    [
        *LITERALS,
        "\x00",
        "\ud800",
        "word " * 10_000,
        " ".join(f"word{i}" for i in range(10_000)),
        "x" * 100_000,
        "部署" * 10_000,
        '"' * 1000,
        "((((((",
        "' OR 1=1 --",
        "a AND OR NOT NEAR",
        "\u202e\u200b\ufeff",
        "\u0301\u0301",
    ],
)
def test_08_no_query_is_an_error(side: Side, query: str) -> None:
    side.keep("an ordinary row", "部署方案")

    result = side.search(query)

    assert result.notes == []
    assert result.strategy in ("fts", "hybrid", "embedding")


@pytest.mark.parametrize(
    ("wanted", "others"),
    [
        ("ADR-016", [f"ADR-0{i:02}" for i in range(1, 30) if i != 16] + ["016", "ADR"]),
        ("uteke-cloud-dev", ["uteke-cloud-prod", "uteke-dev", "cloud-dev", "dev cloud uteke"]),
        ("tier1-test", ["tier2-test", "tier1-prod", "test of tier1", "tier1", "test"]),
        ("OC-41252", ["OC-41253", "OC-4125", "41252", "OC"]),
        ("a_b_c", ["a_b", "b_c", "c b a"]),
        ("v1.2.3", ["v1.2.4", "v1.3.2", "3.2.1"]),
        ("src/main.py", ["src/test.py", "main.rs", "py main src"]),
    ],
)
def test_09_the_row_with_the_id_that_is_asked_for_is_first(
    side: Side, wanted: str, others: list[str]
) -> None:
    rows = [f"see {other} for the details" for other in others]
    side.keep(*rows[: len(rows) // 2], f"see {wanted} for the details", *rows[len(rows) // 2 :])

    assert side.find(wanted)[0] == f"see {wanted} for the details"
    assert side.find(f"what does {wanted} say?")[0] == f"see {wanted} for the details"


@pytest.mark.parametrize("crowd", [50, 300])
@pytest.mark.parametrize(
    ("query", "limit"),
    [
        ("XJ9", 5),
        ("what is XJ9", 5),
        ("which cat or kitten plays with XJ9", 20),  # the crowd is in both lists
    ],
)
def test_10_the_exact_term_is_in_the_answer_however_far_its_vector(
    hybrid_side: Side, crowd: int, query: str, limit: int
) -> None:
    row = "XJ9 interest rates budget Monday finance"
    hybrid_side.keep(*(f"a cat and a kitten play, scene {i}" for i in range(crowd)), row)

    result = hybrid_side.search(query, limit)

    assert row in [hit.content for hit in result.results]
    assert result.strategy == "hybrid"


@pytest.mark.parametrize("query", ["same text", "text seven", "completely other words"])
def test_11_every_limit_gives_the_head_of_the_same_list(side: Side, query: str) -> None:
    numbers = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    side.keep(*(f"the same text {numbers[i % 8]} {i}" for i in range(120)))
    longest = side.find(query, 20)

    for limit in range(1, 21):
        assert side.find(query, limit) == longest[:limit]


def test_12_a_session_filter_does_not_starve(side: Side) -> None:
    side.keep(*(f"the violin number {i}" for i in range(50)), session_key="a")
    side.keep("a violin, at last, in the other session", session_key="b")

    assert side.find("violin", session_key="b") == ["a violin, at last, in the other session"]
    assert len(side.find("violin", session_key="a")) == 5


@pytest.mark.parametrize(
    ("crowd", "few", "filters", "kinds"),
    [
        ({"scene_name": "travel"}, {"scene_name": "Home office"}, {"scene": "home"}, "M"),  # 13
        ({"scene_name": "travel"}, {"scene_name": "Büro"}, {"scene": "BÜRO"}, "M"),
        ({"scene_name": "travel"}, {"scene_name": "100% work_x"}, {"scene": "% WORK_"}, "M"),
        ({"type": "episodic"}, {"type": "persona"}, {"type": "persona"}, "M"),
        ({"type": "episodic"}, {"type": "Persona"}, {"type": " PERSONA "}, "M"),
        ({"session_key": "a"}, {"session_key": "b"}, {"session_key": "b"}, "MC"),
        ({"role": "user"}, {"role": "assistant"}, {"role": "assistant"}, "C"),
        ({"role": "user"}, {"role": "tool"}, {"role": "tool"}, "C"),
        ({"role": "tool"}, {"role": "user"}, {}, "C"),
        ({"scope_id": "ben"}, {"scope_id": "anna"}, {"user": "anna"}, "MC"),
        ({"scope": "thread", "scope_id": "x"}, {"scope_id": "anna"}, {"user": "anna"}, "MC"),
    ],
)
def test_13_no_filter_starves(
    side: Side, crowd: dict[str, Any], few: dict[str, Any], filters: dict[str, Any], kinds: str
) -> None:
    if ("M" if side.kind == "memories" else "C") not in kinds:
        pytest.skip(f"{side.kind} have no such filter")
    side.keep(*(f"the violin number {i}" for i in range(200)), **crowd)
    wanted = {"a long text, at the end of which is a violin", "a violin and much besides"}
    side.keep(*wanted, **few)
    if "user" in filters:
        filters = {"config": {"configurable": {"user_id": filters["user"]}}}

    assert set(side.find("violin", **filters)) == wanted


@pytest.mark.parametrize("fault", [Fault(status=500), Fault(delay=60), None])
@pytest.mark.parametrize("is_async", [True, False])
def test_16_without_the_embedding_service_keywords_answer_and_a_note_says_why(
    served_side: Side, server: EmbeddingServer, fault: Fault | None, is_async: bool
) -> None:
    served_side.keep("Anna plays the violin", "completely unrelated")
    if fault is None:
        server.stop()  # connections are refused
    server.fault = fault
    memory = served_side.memory
    search = (
        memory.asearch_memories if served_side.kind == "memories" else memory.asearch_conversations
    )

    if is_async:
        result: SearchResult[Any] = asyncio.run(search("violin"))
    else:
        result = served_side.search("violin")

    assert [hit.content for hit in result.results] == ["Anna plays the violin"]
    assert result.strategy == "fts"
    assert result.message is None
    assert len(result.notes) == 1
    nothing = served_side.search("zeppelin")
    assert nothing.results == []
    assert nothing.notes  # it is not the same as: there is no match


@pytest.mark.parametrize(
    ("embedding", "notes"),
    [
        ("none", []),
        (EmbeddingSettings(provider="none"), []),
        (EmbeddingSettings(provider=None), [NOT_CONFIGURED]),
    ],
)
def test_17_without_an_embedding_keywords_answer(
    kind: str, embedding: Any, notes: list[str]
) -> None:
    with closing(AgentMemory.in_memory(embedding=embedding)) as memory:
        side = Side(memory, kind)
        side.keep("Anna plays the violin")
        result = side.search("violin")

    assert (result.strategy, result.total, result.notes) == ("fts", 1, notes)


def _folder_is_a_file(chroma: Path) -> None:
    chroma.write_text("not a folder")


def _database_is_garbage(chroma: Path) -> None:
    chroma.mkdir()
    (chroma / "chroma.sqlite3").write_bytes(b"garbage " * 1000)


def _database_has_another_schema(chroma: Path) -> None:
    chroma.mkdir()
    with closing(sqlite3.connect(chroma / "chroma.sqlite3")) as future:
        future.execute("CREATE TABLE migrations (dir TEXT, version INTEGER, other TEXT)")
        future.execute("INSERT INTO migrations VALUES ('sysdb', 999, 'from the future')")
        future.commit()


def _database_went_through_other_migrations(chroma: Path) -> None:
    client: Any = embedded_client(chroma)
    client.create_collection("anything", embedding_function=None)
    client.close()
    with closing(sqlite3.connect(chroma / "chroma.sqlite3")) as future:
        future.execute("UPDATE migrations SET sql = 'other', hash = 'other'")
        future.commit()


@pytest.mark.parametrize(
    "spoil",
    [
        _folder_is_a_file,
        _database_is_garbage,
        _database_has_another_schema,
        _database_went_through_other_migrations,
    ],
)
def test_18_with_the_vector_side_unusable_keywords_answer_and_a_note_says_why(
    tmp_path: Path, kind: str, spoil: Callable[[Path], None]
) -> None:
    spoil(tmp_path / "chroma")

    with closing(AgentMemory.open(tmp_path, embedding="local")) as memory:
        side = Side(memory, kind)
        side.keep("Anna plays the violin")
        result = side.search("violin")
        status = memory.status()

    assert (result.strategy, result.total) == ("fts", 1)
    assert result.notes[0].startswith("answered by keywords alone: the vector index cannot be used")
    assert status.problems[0] == result.notes[0]
    assert status.pending == 1  # the vectors come when the index can be used again


@pytest.mark.parametrize("query", ["zeppelin aviation history", "quantum chromodynamics"])
def test_22_a_threshold_on_cosine_leaves_nothing_of_unrelated_rows(
    hybrid_side: Side, query: str
) -> None:
    hybrid_side.keep("Anna plays the violin", "The kitten naps on the couch")
    assert hybrid_side.search(query).total == 2
    highest = max(hit.similarity for hit in hybrid_side.search(query).results)

    above = hybrid_side.search(query, min_similarity=min(1.0, highest + 0.01))
    below = hybrid_side.search(query, min_similarity=highest - 0.01)

    assert above.results == []
    assert below.total >= 1


def test_22_the_threshold_is_not_on_scores_of_fusion(hybrid_side: Side) -> None:
    hybrid_side.keep("Anna plays the violin")

    (hit,) = hybrid_side.search("Anna plays the violin", min_similarity=0.9).results

    assert hit.similarity == pytest.approx(1.0, abs=1e-4)
    assert hit.score == pytest.approx(2 / 61)


def test_23_a_record_in_both_lists_has_all_its_fields_and_both_scores(hybrid_side: Side) -> None:
    (kept, *_) = hybrid_side.keep(
        "Anna plays the violin",
        "The kitten naps on the couch",
        metadata={"source": "chat"},
        scope_id="anna",
    )

    (hit,) = hybrid_side.search("violin", 1).results

    assert (hit.keyword_rank, hit.vector_rank) == (1, 1)
    assert hit.score == pytest.approx(1 / 61 + 1 / 61)
    for name, value in kept.model_dump(exclude={"given_id"}).items():  # which is for writers
        assert getattr(hit, name) == value, name


@pytest.mark.parametrize("differ", ["id", "scope_id", "scope", "session_key"])
def test_24_records_of_one_text_are_each_found_with_their_own_fields(
    side: Side, differ: str
) -> None:
    values = {"scope": ["user", "thread"]}.get(differ, ["one", "other"])
    for position, value in enumerate(values):
        given: dict[str, Any] = {
            "metadata": {"position": position},
            "id": f"id-{position}",
            "scope_id": "x",
        }
        side.keep("Anna plays the violin", **given | {differ: value})

    hits = side.search("violin").results

    assert {hit.content for hit in hits} == {"Anna plays the violin"}
    found = {hit.metadata["position"]: getattr(hit, differ) for hit in hits}
    assert found == dict(enumerate(values))


@pytest.mark.parametrize(
    ("one", "other", "records"),
    [
        ({"id": "m1"}, {"id": "m1"}, 1),
        ({"id": "m1"}, {"id": "m1", "recorded_at": NOON + timedelta(hours=1)}, 1),
        ({}, {}, 1),
        ({"id": "m1"}, {}, 1),
        ({}, {"name": "Anna"}, 1),
        ({"id": "m1"}, {"id": "m1", "session_key": "s2"}, 2),
        ({}, {"session_key": "s2"}, 2),
        ({}, {"role": "assistant"}, 2),
        ({}, {"content": "hello!"}, 2),
        ({}, {"recorded_at": NOON + timedelta(seconds=1)}, 2),
        ({"id": "m1"}, {"id": "m2"}, 2),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_26_the_same_message_captured_twice_is_one_record(
    keyword_memory: AgentMemory,
    one: dict[str, Any],
    other: dict[str, Any],
    records: int,
    at_once: bool,
) -> None:
    common = {"role": "user", "content": "hello", "session_key": "s1", "recorded_at": NOON}
    messages = [Message.model_validate(common | each) for each in (one, other)]
    if at_once:
        keyword_memory.add_messages(None, messages)
    else:
        for message in messages:
            keyword_memory.add_messages(None, [message])

    assert keyword_memory.status().messages == records
    assert keyword_memory.search_conversations("hello").total == records


def test_26_a_langchain_history_captured_after_every_turn_is_kept_once(
    keyword_memory: AgentMemory,
) -> None:
    history: list[Any] = []
    for turn in range(5):
        history += [
            HumanMessage(f"question {turn}", id=f"q{turn}"),
            AIMessage(f"answer {turn}", id=f"a{turn}"),
        ]
        keyword_memory.add_messages("t1", history)

    assert keyword_memory.status().messages == 10


@pytest.mark.parametrize("texts", [1, 10, 11, 25])
@pytest.mark.parametrize("batch_size", [10, 3, None])
def test_27_a_service_with_a_limit_gets_no_more_at_once_and_embeds_all(
    server: EmbeddingServer,
    service_settings: EmbeddingSettings,
    kind: str,
    texts: int,
    batch_size: int | None,
) -> None:
    server.fault = Fault(max_inputs=10)
    update = {"batch_size": batch_size} if batch_size else {}
    with closing(AgentMemory.in_memory(embedding=service_settings.model_copy(update=update))) as m:
        side = Side(m, kind)
        side.keep(*(f"text number {i}" for i in range(texts)))

        assert m.sync().pending == 0
        hits = side.search("something else", 100).results
        assert sum(hit.similarity is not None for hit in hits) == texts


def test_30_a_compatible_service_gets_strings(server: EmbeddingServer, served_side: Side) -> None:
    served_side.keep("Anna plays the violin", "修改youer服务端", "\U0001f600")
    served_side.search("violin 口令")

    bodies = [request.body for request in server.requests]
    assert len(bodies) == 2
    for body in bodies:
        inputs = [body["input"]] if isinstance(body["input"], str) else body["input"]
        assert all(isinstance(text, str) for text in inputs)


@pytest.mark.parametrize("embedding", ["none", "local"])
def test_31_what_was_said_is_found_and_prompts_and_tool_output_only_when_asked_for(
    embedding: str,
) -> None:
    with closing(AgentMemory.in_memory(embedding=embedding)) as memory:
        memory.add_messages(
            "t1",
            [
                SystemMessage("You know the violin"),
                HumanMessage("Where is the violin?"),
                ToolMessage('{"violin": "shelf"}', tool_call_id="1"),
                AIMessage("The violin is on the shelf"),
            ],
        )

        found = memory.search_conversations("violin", 10).results
        by_role = {
            role: [hit.role for hit in memory.search_conversations("violin", role=role).results]
            for role in ("user", "assistant", "system", "tool")
        }

    assert {hit.role for hit in found} == {"user", "assistant"}
    assert by_role == {role: [role] for role in by_role}


def test_31_asking_for_tool_output_in_vain_is_not_an_empty_store(
    keyword_memory: AgentMemory,
) -> None:
    keyword_memory.add_messages("t1", [ToolMessage("disk full", tool_call_id="1")])

    assert keyword_memory.search_conversations("disk", role="tool").total == 1
    assert keyword_memory.search_conversations("zebra", role="tool").message is None


@pytest.mark.parametrize(
    ("invented", "there_are", "kinds"),
    [
        ({"type": "facts"}, ["episodic", "persona"], "M"),
        ({"type": "instructions"}, ["episodic", "persona"], "M"),
        ({"scene": "garage"}, ["Home office", "travel"], "M"),
        ({"session_key": "thread_1"}, ["t-1", "t-2"], "MC"),
        ({"role": "narrator"}, ["user", "assistant", "tool"], "C"),
    ],
)
def test_32_an_invented_filter_value_is_answered_with_those_there_are(
    side: Side, invented: dict[str, Any], there_are: list[str], kinds: str
) -> None:
    if ("M" if side.kind == "memories" else "C") not in kinds:
        pytest.skip(f"{side.kind} have no such filter")
    if side.kind == "memories":
        side.keep("a violin", type="persona", scene_name="travel", session_key="t-1")
        side.keep("the violin", type="episodic", scene_name="Home office", session_key="t-2")
    else:
        side.keep("a violin", role="user", session_key="t-1")
        side.keep("the violin", role="assistant", session_key="t-2")
        side.keep("no violin", role="tool", session_key="t-2")

    result = side.search("violin", **invented)

    assert result.results == []
    assert result.message is not None
    assert json.dumps(next(iter(invented.values()))) in result.message
    for value in there_are:
        assert value in result.message


def test_33_an_empty_store_is_told_from_a_store_without_a_match(keyword_side: Side) -> None:
    empty = keyword_side.search("violin")
    keyword_side.keep("completely unrelated")
    no_match = keyword_side.search("violin")

    assert empty.results == no_match.results == []
    assert empty.message is not None
    assert "yet" in empty.message
    assert no_match.message is None


def test_33_a_store_of_others_is_as_good_as_empty(keyword_side: Side) -> None:
    keyword_side.keep("a violin", scope_id="ben")
    anna = {"configurable": {"user_id": "anna"}}

    assert "yet" in (keyword_side.search("violin", config=anna).message or "")


METADATA: list[Any] = [
    {},
    {"a": 1},
    {"nested": {"list": [1, 2.5, True, None, {"deep": "é"}]}},
    {"": "empty key"},
    {"big": 2**60, "small": -1e-9},
    {"text": '"quotes" and \n lines and \x00'},
    {f"key{i}": i for i in range(500)},
]
UNUSABLE_METADATA: list[Any] = [
    [],
    ["a"],
    "text",
    5,
    {"when": NOON},
    {"x": math.nan},
    {"x": -math.inf},
    {"x": [{"y": object()}]},
    {"x": b"bytes"},
    {1: "x"},
]


@pytest.mark.parametrize("metadata", METADATA)
def test_34_metadata_is_returned_as_it_was_given(side: Side, metadata: Any) -> None:
    (kept,) = side.keep("Anna plays the violin", metadata=metadata)

    (hit,) = side.search("violin").results

    assert hit.metadata == metadata
    stored = side.memory.get(kept.id)
    assert stored is not None
    assert stored.metadata == metadata
    json.dumps(hit.to_dict())


def test_34_no_metadata_is_an_empty_object(side: Side) -> None:
    side.keep("Anna plays the violin", metadata=None)

    assert side.search("violin").results[0].metadata == {}


@pytest.mark.parametrize("metadata", UNUSABLE_METADATA)
def test_34_what_json_cannot_hold_is_refused_and_search_is_unharmed(
    side: Side, metadata: Any
) -> None:
    side.keep("Anna plays the violin")

    with pytest.raises(ValidationError, match="metadata"):
        side.keep("Ben plays the violin", metadata=metadata)

    assert side.find("violin") == ["Anna plays the violin"]


INSIDE = NOON + timedelta(hours=50)


@pytest.mark.parametrize(
    ("after", "before"),
    [
        (INSIDE, INSIDE),
        (INSIDE - timedelta(minutes=1), INSIDE + timedelta(minutes=1)),
        ("2023-05-10T13:59:59Z", "2023-05-10T14:00:01Z"),
        ("2023-05-10T15:59:59+02:00", "2023-05-10T16:00:01+02:00"),
        (INSIDE.timestamp(), INSIDE.timestamp()),
        (INSIDE.timestamp() * 1000, INSIDE.timestamp() * 1000),
    ],
)
def test_35_one_of_a_hundred_lies_within_the_range(side: Side, after: Any, before: Any) -> None:
    time_field = "created_at" if side.kind == "memories" else "recorded_at"
    side.keep_all(
        [
            {"content": f"violin {hour}", time_field: NOON + timedelta(hours=hour)}
            for hour in range(100)
        ]
    )

    assert side.find("violin", after=after, before=before) == ["violin 50"]
    assert len(side.find("violin", 100, before=before)) == 51
    assert len(side.find("violin", 100, after=after)) == 50


def test_35_a_date_as_the_end_is_the_whole_day_and_ends_are_open(side: Side) -> None:
    time_field = "created_at" if side.kind == "memories" else "recorded_at"
    for day in (7, 8, 9):
        side.keep(f"violin {day}", **{time_field: datetime(2023, 5, day, 23, 30, tzinfo=UTC)})

    assert side.find("violin", after="2023-05-08", before="2023-05-08") == ["violin 8"]
    assert set(side.find("violin", after="2023-05-08")) == {"violin 8", "violin 9"}
    assert set(side.find("violin", before="2023-05-08")) == {"violin 7", "violin 8"}


@pytest.mark.parametrize(
    "user_id",
    [
        "a.b@c.com",
        "user|with|pipes",
        "50% off_x",
        "o'brien",
        'say "hi"',
        "用户",
        "\U0001f600",
        "a::b",
        "x" * 5000,
        "../../etc/passwd",
        12345,
    ],
)
def test_36_any_user_id_works(side: Side, user_id: Any) -> None:
    config = {"configurable": {"user_id": user_id, "thread_id": "t"}}
    other = {"configurable": {"user_id": f"{user_id}x", "thread_id": "t"}}
    if side.kind == "memories":
        side.memory.add_memory("Anna plays the violin", config=config)
    else:
        side.memory.add_messages("t", [HumanMessage("Anna plays the violin")], config=config)

    assert side.find("violin", config=config) == ["Anna plays the violin"]
    assert side.find("violin", config=other) == []


@pytest.mark.parametrize("query", ["tied text", "none of the words there"])
def test_37_tied_records_have_one_order(side: Side, query: str) -> None:
    side.keep_all([{"content": "the tied text", "id": f"id{i * 7 % 40:02}"} for i in range(40)])

    orders = {tuple(hit.id for hit in side.search(query, 20).results) for _ in range(50)}

    assert len(orders) == 1


def test_37_the_order_outlives_the_process(tmp_path: Path, kind: str) -> None:
    orders: list[list[str]] = []
    for _ in range(3):
        with closing(AgentMemory.open(tmp_path, embedding="local")) as memory:
            side = Side(memory, kind)
            if not orders:
                ids = [f"id{i * 7 % 40:02}" for i in range(40)]
                side.keep_all([{"content": "the tied text", "id": id_} for id_ in ids])
            orders.append([hit.id for hit in side.search("tied text", 20).results])

    assert orders[0] == orders[1] == orders[2]
    assert len(orders[0]) == 20
