"""A message is ranked with its neighbours: they lend it their words, and nothing else."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from storage_parts import StorageParts

from langchain_agentmem import AgentMemory, Message
from langchain_agentmem.records import parse_time
from langchain_agentmem.scopes import Turn, Visibility
from langchain_agentmem.storage.database import Database
from langchain_agentmem.storage.kinds import MESSAGES
from langchain_agentmem.storage.windows import WINDOW_HITS, inverse_document_frequency

QUESTION = "How is the gym in winter?"
ANSWER = "The gym is open three times a week"
SMALL_TALK = "Good morning to you all"


def at(minute: int) -> str:
    return f"2026-05-01T10:{minute:02}:00Z"


class Talk(StorageParts):
    """A keyword index, and what is said in it."""

    def say(self, id_: str, content: str, minute: int = 0, **fields: Any) -> None:
        given = {"session_key": "s", "role": "user", "recorded_at": at(minute), **fields}
        message = Message.model_validate({"id": id_, "content": content, **given})
        self.store.save(MESSAGES, [message])

    def search(
        self, query: str, visibility: Visibility | None = None, **filters: Any
    ) -> dict[str, float]:
        """Return scores by ids, best first."""
        condition = MESSAGES.where(filters, visibility or Visibility())
        return dict(self.keywords.search(MESSAGES, query, condition, 60).ranking)


@pytest.fixture
def talk() -> Iterator[Talk]:
    with closing(Database(None)) as database:
        yield Talk(database)


@pytest.fixture
def gym(talk: Talk) -> Talk:
    """One text twice: `far`, which is older, after small talk; `near` after a question."""
    talk.say("small talk", SMALL_TALK, 0, session_key="f")
    talk.say("far", ANSWER, 1, session_key="f")
    talk.say("question", QUESTION, 2)
    talk.say("near", ANSWER, 3)
    return talk


class TestNeighboursLendTheirWords:
    def test_a_message_beside_one_that_matches_more_rises(self, gym: Talk) -> None:
        scores = gym.search("gym winter week")

        assert list(scores).index("near") < list(scores).index("far")
        assert scores["near"] > scores["far"]

    def test_without_them_equals_keep_their_order(self, gym: Talk) -> None:
        gym.store.delete(["question", "small talk"])

        scores = gym.search("gym winter week")

        assert list(scores) == ["far", "near"]
        assert scores["far"] == scores["near"]

    @pytest.mark.parametrize("side", [1, -1], ids=["after", "before"])
    def test_the_nearer_lends_more(self, talk: Talk, side: int) -> None:
        for distance in (1, 2, 3):
            session = f"at {distance}"
            for place in range(1, distance):
                talk.say(f"{session} {place}", SMALL_TALK, 30 + side * place, session_key=session)
            talk.say(f"{session} q", QUESTION, 30 + side * distance, session_key=session)
            talk.say(session, ANSWER, 30, session_key=session)
            # Small talk to the other side, so that all windows are as long.
            for place in (1, 2):
                talk.say(f"{session} -{place}", SMALL_TALK, 30 - side * place, session_key=session)
        talk.say("at 3 4", SMALL_TALK, 30 + side * 2, session_key="at 3")

        scores = talk.search("gym winter")

        assert scores["at 1"] > scores["at 2"] > scores["at 3"]

    def test_what_matches_no_word_itself_is_no_result(self, gym: Talk) -> None:
        gym.say("reply", "Three of them, I believe", 4)

        assert set(gym.search("gym winter")) == {"far", "question", "near"}

    def test_memories_have_no_windows(self) -> None:
        with closing(AgentMemory.in_memory(embedding="none")) as memory:
            for text in (QUESTION, f"{ANSWER} (a)", SMALL_TALK, f"{ANSWER} (b)"):
                memory.add_memory(text, session_key="s")

            hits = memory.search_memories("gym week").results

        assert [hit.score for hit in hits if hit.content.startswith(ANSWER)] == [
            hits[0].score,
            hits[0].score,
        ]


class TestWhoLendsNothing:
    """`near` and `far` hold one text; only a true neighbour makes one of them more."""

    @pytest.mark.parametrize(
        ("fields", "lends"),
        [
            pytest.param({}, True, id="a neighbour"),
            pytest.param({"role": "assistant"}, True, id="the other speaker"),
            pytest.param({"session_key": "t"}, False, id="another session"),
            pytest.param({"scope_id": "ben"}, False, id="another user"),
            pytest.param(
                {"scope": "organization", "scope_id": "acme"}, False, id="an organization"
            ),
            pytest.param({"role": "tool"}, False, id="tool output"),
            pytest.param({"role": "system"}, False, id="a system prompt"),
        ],
    )
    def test_only_what_was_said_in_the_same_conversation(
        self, talk: Talk, fields: dict[str, str], lends: bool
    ) -> None:
        talk.say("far", ANSWER, 1, session_key="f")
        talk.say("near", ANSWER, 1)
        talk.say("beside", QUESTION, 0, **fields)

        scores = talk.search("gym winter")

        assert (scores["near"] > scores["far"]) is lends
        assert (scores["near"] == scores["far"]) is not lends

    def test_a_deleted_message_lends_nothing_until_it_is_restored(self, gym: Talk) -> None:
        gym.store.delete(["question", "small talk"])
        deleted = gym.search("gym winter")
        gym.store.restore(["question"])
        restored = gym.search("gym winter")

        assert deleted["near"] == deleted["far"]
        assert restored["near"] > restored["far"]

    def test_what_a_turn_cannot_see_lends_it_nothing(self, talk: Talk) -> None:
        for user in ("ann", "ben"):
            talk.say(f"{user} far", ANSWER, 1, session_key="f", scope_id=user)
            talk.say(f"{user} near", ANSWER, 1, scope_id=user)
        talk.say("question", QUESTION, 0, scope_id="ben")

        ann, ben = (Turn(user_id=user).sees() for user in ("ann", "ben"))

        of_ann, of_ben = talk.search("gym winter", ann), talk.search("gym winter", ben)
        assert of_ann["ann near"] == of_ann["ann far"]
        assert of_ben["ben near"] > of_ben["ben far"]
        assert set(of_ann) == {"ann near", "ann far"}


class TestFilters:
    """A neighbour that does not meet a filter may lend its words; it is no result."""

    @pytest.mark.parametrize(
        "filters",
        [
            pytest.param({"after": at(3)}, id="after"),
            pytest.param({"role": "assistant"}, id="role"),
        ],
    )
    def test_an_earlier_question_of_the_user_is_lent(
        self, talk: Talk, filters: dict[str, str]
    ) -> None:
        talk.say("far", ANSWER, 3, session_key="f", role="assistant")
        talk.say("question", QUESTION, 2)
        talk.say("near", ANSWER, 3, role="assistant")
        bounds: dict[str, Any] = {
            k: parse_time(v) if k == "after" else v for k, v in filters.items()
        }

        scores = talk.search("gym winter", **bounds)

        assert list(scores) == ["near", "far"]
        assert scores["near"] > scores["far"]

    def test_a_later_answer_is_lent(self, talk: Talk) -> None:
        talk.say("far", ANSWER, 3, session_key="f")
        talk.say("near", ANSWER, 3)
        talk.say("later", QUESTION, 4)

        scores = talk.search("gym winter", before=parse_time(at(3)))

        assert list(scores) == ["near", "far"]
        assert scores["near"] > scores["far"]

    def test_tool_output_borrows_from_what_was_said(self, talk: Talk) -> None:
        talk.say("far", ANSWER, 3, session_key="f", role="tool")
        talk.say("question", QUESTION, 2)
        talk.say("near", ANSWER, 3, role="tool")

        scores = talk.search("gym winter", role="tool")

        assert list(scores) == ["near", "far"]
        assert scores["near"] > scores["far"]

    def test_of_one_session_nothing_else_is_found(self, gym: Talk) -> None:
        assert list(gym.search("gym winter", session_key="f")) == ["far"]
        assert set(gym.search("gym winter", session_key="s")) == {"question", "near"}


def strength(score: float) -> float:
    """The BM25 behind a score."""
    return score / (1.0 - score)


class TestSpeakers:
    @pytest.mark.parametrize(
        ("name", "query", "ratio"),
        [
            ("Anna", "What did Anna say about tea?", 1.75),
            ("Anna", "ANNA'S tea", 1.75),
            ("José", "tea of jose", 1.75),
            ("Anna Maria Berg", "tea, Maria?", 1.75),
            ("Anna", "tea", 1.0),
            ("Anna", "Annabel's tea", 1.0),
        ],
    )
    def test_who_is_named_weighs_more(
        self, talk: Talk, name: str, query: str, ratio: float
    ) -> None:
        # The same words are searched; only one of them has a speaker.
        talk.say("spoken", "I like tea", session_key="a", name=name)
        talk.say("quoted", f"{name}: I like tea", session_key="b")

        scores = talk.search(query)

        assert strength(scores["spoken"]) == pytest.approx(ratio * strength(scores["quoted"]))


class TestScriptsWithoutSpaces:
    def test_one_character_is_lent_as_a_beginning(self, talk: Talk) -> None:
        talk.say("far", "我要喝茶", 1, session_key="f")
        talk.say("near", "我要喝茶", 1)
        talk.say("beside", "茶杯很漂亮", 0)

        scores = talk.search("茶")

        assert set(scores) == {"far", "near", "beside"}
        assert scores["near"] > scores["far"]

    def test_a_character_within_another_word_is_lent_too(self, talk: Talk) -> None:
        talk.say("far", "茶", 1, session_key="f")
        talk.say("near", "茶", 1)
        talk.say("beside", "有绿茶吗", 0)
        talk.say("plain", "有绿酒吗", 0, session_key="f")

        scores = talk.search("茶")

        assert set(scores) == {"far", "near", "beside"}
        assert scores["near"] > scores["far"]


class TestOperators:
    """Who writes operators knows what is to be found; it is ranked by its own words alone."""

    @pytest.mark.parametrize(
        "query", ["gym OR winter", "gym NOT morning", '"gym is"', "gym*", "three AND week"]
    )
    def test_they_are_not_ranked_by_windows(self, gym: Talk, query: str) -> None:
        scores = gym.search(query)

        assert scores["near"] == scores["far"]

    def test_what_they_do_not_find_is_searched_as_natural_text(self, gym: Talk) -> None:
        scores = gym.search('"gym winter"')

        assert scores["near"] > scores["far"]


WORDS = "gym winter week roof leak tea garden train Monday ticket".split()


@pytest.fixture(scope="module")
def long_talk() -> Iterator[AgentMemory]:
    """240 messages in six sessions; each holds two or three of ten words."""
    with closing(AgentMemory.in_memory(embedding="none")) as memory:
        memory.add_messages(
            None,
            [
                Message(
                    id=f"m{n:03}",
                    session_key=f"s{n % 6}",
                    role="user" if n % 12 < 6 else "assistant",
                    name="Anna" if n % 5 == 0 else None,
                    content=" ".join(WORDS[(n * step) % 10] for step in range(1, 3 + n % 3)),
                    recorded_at=at(n // 6),
                )
                for n in range(240)
            ],
        )
        yield memory


QUERIES = [
    "gym",
    "gym winter",
    "What did Anna say about the roof?",
    "tea leak garden Monday",
    "train",
]


@pytest.mark.parametrize("query", QUERIES)
class TestOrder:
    def test_scores_fall_within_0_and_1(self, long_talk: AgentMemory, query: str) -> None:
        scores = [hit.score for hit in long_talk.search_conversations(query, limit=100).results]

        assert len(scores) > WINDOW_HITS
        assert scores == sorted(scores, reverse=True)
        assert 0 < scores[-1] <= scores[0] < 1

    @pytest.mark.parametrize("session_key", [None, "s1"])
    def test_a_shorter_answer_is_the_head_of_a_longer_one(
        self, long_talk: AgentMemory, query: str, session_key: str | None
    ) -> None:
        def ids(limit: int) -> list[str]:
            found = long_talk.search_conversations(query, limit, session_key=session_key)
            return [hit.id for hit in found.results]

        longest = ids(100)
        assert len(longest) > 5
        assert {limit: ids(limit) for limit in (1, 2, 5, 20, 35, 60)} == {
            limit: longest[:limit] for limit in (1, 2, 5, 20, 35, 60)
        }


@pytest.mark.parametrize("total", [1, 2, 1000])
def test_a_rarer_term_says_more_and_none_says_nothing(total: int) -> None:
    said = [inverse_document_frequency(matching, total) for matching in range(total + 1)]

    assert said == sorted(said, reverse=True)
    assert said[-1] > 0


@pytest.mark.parametrize("query", QUERIES[1:3])
def test_50_runs_give_one_order(long_talk: AgentMemory, query: str) -> None:
    runs = {
        tuple((hit.id, hit.score) for hit in long_talk.search_conversations(query, 20).results)
        for _ in range(50)
    }

    assert len(runs) == 1


def test_hits_that_are_not_looked_at_with_their_neighbours_follow_behind(talk: Talk) -> None:
    talk.say("long", "word " * 60, 0, session_key="s0")  # which makes its neighbour weigh less
    for n in range(WINDOW_HITS + 10):
        talk.say(f"hit {n}", "gym", 1, session_key=f"s{n}")
        for place in (2, 3, 4):
            talk.say(f"small talk {n} {place}", SMALL_TALK, place, session_key=f"s{n}")

    scores = talk.search("gym")

    assert len(scores) == WINDOW_HITS + 10
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    assert list(scores).index("hit 0") == WINDOW_HITS - 1
