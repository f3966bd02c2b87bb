"""What comes back: JSON data for checkpointers, a table for notebooks, a row that explains."""

import json
from dataclasses import FrozenInstanceError
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from typing import Any

import pytest
from hits import NOON, memory_hit, message_hit

from langchain_agentmem import MemoryHit, SearchResult
from langchain_agentmem.results import EXPLAIN_HEADS, ContextMessage, explain_row

SCRIPT = "<script>alert('1')</script>"


class Reader(HTMLParser):
    """Reads HTML into its tags and texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


class TestTable:
    def test_it_has_a_head_for_each_cell_and_a_row_for_each_hit(self) -> None:
        result = SearchResult([memory_hit("one"), memory_hit("two")], "hybrid")

        read = Reader(result._repr_html_())

        assert read.texts[0] == "2 results (strategy: hybrid)"
        assert [head for head in EXPLAIN_HEADS if head not in read.texts] == [""]
        assert read.tags.count("th") == len(EXPLAIN_HEADS)
        assert read.tags.count("td") == 2 * len(EXPLAIN_HEADS)
        assert read.texts.index("one") < read.texts.index("two")

    @pytest.mark.parametrize(
        "result",
        [
            SearchResult([memory_hit(SCRIPT)], "fts"),
            SearchResult([memory_hit("x")], "fts", notes=[SCRIPT]),
            SearchResult[MemoryHit]([], "none", message=SCRIPT),
            SearchResult[MemoryHit]([], "none", notes=["first", SCRIPT]),
        ],
        ids=["content", "note", "message", "second note"],
    )
    def test_what_it_shows_is_text(self, result: SearchResult[MemoryHit]) -> None:
        html = result._repr_html_()

        read = Reader(html)
        assert "<script" not in html
        assert set(read.tags) <= {"p", "table", "thead", "tbody", "tr", "th", "td"}
        assert SCRIPT in read.texts

    def test_without_results_there_is_no_table(self) -> None:
        result = SearchResult[MemoryHit]([], "none", message="Configure it.", notes=["a", "b"])

        read = Reader(result._repr_html_())

        assert read.tags == ["p"] * 4
        assert read.texts == ["0 results (strategy: none)", "Configure it.", "a", "b"]


class TestExplainRow:
    def test_all_is_told_in_the_order_of_the_heads(self) -> None:
        hit = memory_hit(
            score=0.123456,
            keyword_rank=1,
            vector_rank=12,
            similarity=0.98765,
            keyword_part=0.1,
            vector_part=0.023456,
            recency=0.5,
            source="m-7",
        )

        assert dict(zip(EXPLAIN_HEADS, explain_row(3, hit), strict=True)) == {
            "": "3",
            "content": "Prefers dark mode",
            "score": "0.1235",
            "keyword rank": "1",
            "vector rank": "12",
            "similarity": "0.9877",
            "from keywords": "0.1",
            "from vectors": "0.02346",
            "recency": "0.5",
            "source message": "m-7",
        }

    def test_what_is_unknown_is_empty_and_nought_is_not(self) -> None:
        assert explain_row(1, memory_hit())[3:] == [""] * 7
        assert explain_row(1, memory_hit(similarity=0.0, recency=0.0))[5:] == ["0", "", "", "0", ""]

    @pytest.mark.parametrize(
        ("content", "shown"),
        [
            ("x" * 120, "x" * 120),
            ("x" * 121, "x" * 120 + " ..."),
            (" a\n\n b\tc\u2028d ", "a b c d"),
        ],
    )
    def test_the_content_is_one_short_line(self, content: str, shown: str) -> None:
        assert explain_row(1, memory_hit(content))[1] == shown

    def test_messages_have_the_same_row(self) -> None:
        assert explain_row(1, message_hit("hello", score=0.5))[:3] == ["1", "hello", "0.5"]


class TestData:
    def test_nested_data_is_json(self) -> None:
        beside = ContextMessage(id="c", role="user", name="Anna", content="hi", recorded_at=NOON)
        result = SearchResult(
            [
                message_hit(
                    before=[beside],
                    after=[beside, beside],
                    metadata={"a": [{"b": [1, 2.5, None, True]}], "ü": {}},
                )
            ],
            "hybrid",
            notes=["slow"],
            query="hello",
        )

        data = result.to_dict()

        assert json.loads(json.dumps(data)) == data
        (hit,) = data["results"]
        assert hit["metadata"] == {"a": [{"b": [1, 2.5, None, True]}], "ü": {}}
        assert hit["after"] == [hit["before"][0]] * 2
        assert hit["before"][0]["recorded_at"] == "2023-05-08T13:56:00Z"
        assert {name: data[name] for name in ("total", "strategy", "notes", "query")} == {
            "total": 1,
            "strategy": "hybrid",
            "notes": ["slow"],
            "query": "hello",
        }

    @pytest.mark.parametrize(
        ("moment", "written"),
        [
            (NOON, "2023-05-08T13:56:00Z"),
            (NOON.replace(microsecond=1), "2023-05-08T13:56:00.000001Z"),
            (NOON.astimezone(timezone(timedelta(hours=2))), "2023-05-08T13:56:00Z"),
        ],
    )
    def test_times_are_iso_8601_in_utc(self, moment: datetime, written: str) -> None:
        data = memory_hit(created_at=moment, updated_at=moment).to_dict()

        assert (data["created_at"], data["updated_at"]) == (written, written)

    def test_it_is_a_copy(self) -> None:
        hit = memory_hit(tags=["tea"], metadata={"a": [1]})
        data = SearchResult([hit], "fts").to_dict()
        data["results"][0]["tags"].append("x")
        data["results"][0]["metadata"]["a"].append(2)

        assert (hit.tags, hit.metadata) == (["tea"], {"a": [1]})


def test_results_are_frozen() -> None:
    result: Any = SearchResult([memory_hit()], "fts")

    with pytest.raises(FrozenInstanceError):
        result.strategy = "none"
    with pytest.raises(FrozenInstanceError):
        result.results[0].score = 1.0
