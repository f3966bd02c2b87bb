"""`agentmem search`: what an agent would read, or all fields as JSON."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from langchain_agentmem import AgentMemory, Memory, Message
from langchain_agentmem.cli import app
from langchain_agentmem.results import EXPLAIN_HEADS
from langchain_agentmem.search.request import MAX_CONTEXT, MAX_LIMIT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
        memory.add_memories(
            [
                Memory(content="Prefers dark mode", type="persona", scene_name="editor setup"),
                Memory(content="Dark roof tiles were ordered", scene_name="house"),
            ]
        )
        memory.add_messages(
            None,
            [
                Message(
                    session_key=f"day {day}",
                    role="user",
                    content="The roof leaks",
                    recorded_at=f"2026-05-0{day}",
                )
                for day in (1, 2, 3)
            ],
        )
    return tmp_path / "m"


def run(folder: Path, *arguments: str, columns: int = 240) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(
        app, ["search", *arguments, "--memory", str(folder), "--embedding", "none"]
    )


def test_memories_are_printed_as_an_agent_reads_them(folder: Path) -> None:
    result = run(folder, "dark mode", "--type", "persona")
    assert result.exit_code == 0
    assert result.output.startswith("Found 1 matching memory (strategy: fts):\n\n- **[persona]**")


def test_conversations_are_filtered_by_session_and_time(folder: Path) -> None:
    result = run(folder, "roof", "--in", "conversations", "--session", "day 2")
    assert "Found 1 matching message" in result.output
    result = run(folder, "roof", "--in", "conversations", "--after", "2026-05-02")
    assert "Found 2 matching messages" in result.output


@pytest.mark.parametrize("user", ["", " "])
def test_a_user_who_is_nobody_is_refused(folder: Path, user: str) -> None:
    """As from an unset variable: it must not show what everybody said."""
    result = run(folder, "roof", "--in", "conversations", "--user", user)
    assert result.exit_code == 2
    assert "--user names nobody" in result.output
    assert "leaks" not in result.output


@pytest.mark.parametrize(("option", "most"), [("--limit", MAX_LIMIT), ("--context", MAX_CONTEXT)])
def test_an_option_goes_as_far_as_a_search_takes_it(folder: Path, option: str, most: int) -> None:
    arguments = ("roof", "--in", "conversations", option)
    assert run(folder, *arguments, str(most)).exit_code == 0
    assert run(folder, *arguments, str(most + 1)).exit_code == 2


def test_a_role_and_a_user_narrow_what_is_found(folder: Path) -> None:
    with AgentMemory.open(folder, embedding="none") as memory:
        said = Message(role="tool", content="The roof was measured")
        memory.add_messages("day 4", [said], config={"configurable": {"user_id": "ann"}})
    arguments = ("roof", "--in", "conversations", "--role", "tool")
    assert "Found 1 matching message" in run(folder, *arguments).output
    assert "Found 1 matching message" in run(folder, *arguments, "--user", "ann").output
    assert "measured" not in run(folder, *arguments, "--user", "ben").output


def test_options_of_ranking_are_passed_on(tmp_path: Path) -> None:
    with AgentMemory.open(tmp_path / "v", embedding="local") as memory:
        memory.add_memories([Memory(content="Prefers dark mode"), Memory(content="Drinks coffee")])
    command = ["search", "dark mode", "--json", "--memory", str(tmp_path / "v")]
    options = ["--min-similarity", "0.5", "--half-life-days", "30", "--diversity", "0.2"]
    result = CliRunner().invoke(app, [*command, *options, "--embedding", "local"])
    answer = json.loads(result.stdout)
    assert [hit["content"] for hit in answer["results"]] == ["Prefers dark mode"]
    assert answer["results"][0]["recency"] == pytest.approx(1.0, abs=1e-3)


def test_json_holds_all_fields(folder: Path) -> None:
    result = run(folder, "roof", "--in", "memories", "--scene", "HOUSE", "--json")
    answer = json.loads(result.output)
    assert answer["total"] == 1
    assert answer["results"][0]["scene_name"] == "house"
    assert answer["results"][0]["keyword_rank"] == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["roof", "--after", "soon"], "after: cannot read 'soon' as a time"),
        (["roof", "--in", "conversations", "--type", "persona"], "--type and --scene are for"),
        (["roof", "--context", "2"], "--context and --role are for --in conversations"),
        (["roof", "--role", "user"], "--context and --role are for --in conversations"),
        (["roof", "--half-life-days", "0"], "half_life_days must be above 0"),
        (["roof", "--min-similarity", "2"], "--min-similarity"),
        (["roof", "--limit", "0"], "--limit"),
    ],
)
def test_bad_options_are_named(folder: Path, arguments: list[str], problem: str) -> None:
    result = run(folder, *arguments)
    assert result.exit_code == 2
    assert problem in result.output


def test_a_search_makes_no_memory(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere", "roof")
    assert result.exit_code == 2
    assert "no memory in" in result.output
    assert not (tmp_path / "nowhere").exists()


def rows(output: str) -> list[list[str]]:
    """The cells of the table that `--explain` prints."""
    lines = [line for line in output.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


class TestExplain:
    def test_a_table_follows_what_an_agent_reads(self, folder: Path) -> None:
        plain = run(folder, "dark mode").output
        explained = run(folder, "dark mode", "--explain").output

        assert explained.startswith(plain)
        heads = explained.removeprefix(plain).splitlines()
        assert heads[0].strip() == "strategy: fts"
        for head in (*EXPLAIN_HEADS[:-1], "matched terms"):
            assert head in heads[2]
        assert EXPLAIN_HEADS[-1] == "source message"
        assert "source message" not in heads[2]  # no result has any

    def test_the_message_that_a_memory_came_from_is_named(self, tmp_path: Path) -> None:
        with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
            memory.add_messages("s", [Message(id="m-7", role="user", content="The zeppelin is in")])
            came = {"source_message_ids": ["m-7"]}
            memory.add_memories([Memory(content="Has a visitor", metadata=came)])
        (row,) = rows(run(tmp_path / "m", "zeppelin", "--explain").output)
        assert row[-2] == "m-7"

    def test_each_row_tells_rank_score_and_terms(self, folder: Path) -> None:
        first, second = rows(run(folder, "dark mode roofs", "--explain").output)

        assert [first[0], second[0]] == ["1", "2"]
        assert {first[1], second[1]} == {"Prefers dark mode", "Dark roof tiles were ordered"}
        assert [first[3], second[3]] == ["1", "2"]
        assert float(first[2]) >= float(second[2]) > 0
        terms = {row[1]: row[-1] for row in (first, second)}
        assert terms["Prefers dark mode"] == "dark, mode"
        assert terms["Dark roof tiles were ordered"] == "dark, roof"

    def test_terms_match_in_scene_and_tags_and_speaker_too(self, tmp_path: Path) -> None:
        with AgentMemory.open(tmp_path / "m", embedding="none") as memory:
            memory.add_memory("Likes it strong", scene_name="tea kitchen", tags=["zeppelin"])
            memory.add_messages("s", [Message(role="user", name="Zeppelin", content="A green tea")])

        for where in ("memories", "conversations"):
            (row,) = rows(run(tmp_path / "m", "tea zeppelin", "--in", where, "--explain").output)
            assert row[-1] == "tea, zeppelin"

    @pytest.mark.parametrize("columns", [80, 120])
    def test_where_a_table_has_no_room_its_cells_stand_below_each_other(
        self, folder: Path, columns: int
    ) -> None:
        with AgentMemory.open(folder, embedding="none") as memory:
            memory.add_memory(f"Paints in [bold]dark[/bold] colours {'and bright ' * 30}")

        plain = run(folder, "dark roof", columns=columns).output
        explained = run(folder, "dark roof", "--explain", columns=columns).output

        assert explained.startswith(plain)
        lines = explained.removeprefix(plain).split("\n")
        assert lines[:2] == ["", "strategy: fts"]
        assert max(map(len, lines)) <= columns
        assert [line[:4] for line in lines if line[:2].strip()][1:] == [" 1  ", " 2  ", " 3  "]
        told = " ".join(" ".join(lines).split())
        assert "1 Dark roof tiles were ordered score" in told
        assert "keyword rank 1 · matched terms dark, roof" in told
        assert "Paints in [bold]dark[/bold] colours" in told
        assert "similarity" not in told

    def test_what_was_not_counted_is_left_empty(self, folder: Path) -> None:
        (row,) = rows(run(folder, "mode", "--explain").output)

        assert row[4:9] == [""] * 5

    def test_with_vectors_both_parts_are_told(self, tmp_path: Path) -> None:
        with AgentMemory.open(tmp_path / "v", embedding="local") as memory:
            memory.add_memories([Memory(content="Prefers dark mode"), Memory(content="Likes tea")])
        arguments = ["search", "dark mode", "--explain", "--memory", str(tmp_path / "v")]
        runner = CliRunner(env={"COLUMNS": "240"})
        output = runner.invoke(app, [*arguments, "--embedding", "local"]).output

        first = rows(output)[0]
        assert "strategy: hybrid" in output
        assert first[1] == "Prefers dark mode"
        assert first[3:5] == ["1", "1"]
        similarity, keyword_part, vector_part = map(float, first[5:8])
        assert 0 < similarity <= 1
        assert keyword_part + vector_part == pytest.approx(float(first[2]), rel=1e-2)

    @pytest.mark.parametrize(
        ("content", "shown"),
        [
            ("tea [bold]strong[/bold]", "tea [bold]strong[/bold]"),
            ("tea [/nonsense]", "tea [/nonsense]"),
            ("tea\n\nat  five", "tea at five"),
            ("tea " + "x" * 200, "tea " + "x" * 116 + " ..."),
            ("tea \x1b[31m", "tea \ufffd[31m"),
        ],
    )
    def test_contents_are_one_short_line_and_no_markup(
        self, folder: Path, content: str, shown: str
    ) -> None:
        with AgentMemory.open(folder, embedding="none") as memory:
            memory.add_memory(content)

        (row,) = rows(run(folder, "tea", "--explain").output)

        assert row[1] == shown

    def test_json_stays_json(self, folder: Path) -> None:
        assert json.loads(run(folder, "roof", "--explain", "--json").output)["total"] == 1


class TestContext:
    @pytest.fixture
    def talk(self, folder: Path) -> Path:
        with AgentMemory.open(folder, embedding="none") as memory:
            memory.add_messages("gym", [("user", text) for text in ("a", "b", "the gym", "d")])
        return folder

    @pytest.mark.parametrize(
        ("context", "shown"),
        [
            ("0", "the gym\n"),
            ("1", "> (before) user: b\n\nthe gym\n\n> (after) user: d\n"),
            ("5", "> (before) user: a\n> (before) user: b\n\nthe gym\n\n> (after) user: d\n"),
        ],
    )
    def test_so_much_stands_around_a_result(self, talk: Path, context: str, shown: str) -> None:
        output = run(talk, "gym", "--in", "conversations", "--context", context).output

        assert output.startswith("Found 1 matching message")
        assert output.endswith(f"\n\n{shown}")

    def test_json_holds_it(self, talk: Path) -> None:
        result = run(talk, "gym", "--in", "conversations", "--context", "1", "--json")
        (hit,) = json.loads(result.output)["results"]

        assert [each["content"] for each in hit["before"]] == ["b"]
        assert [each["content"] for each in hit["after"]] == ["d"]

    @pytest.mark.parametrize("context", ["-1", "6", "many"])
    def test_another_number_is_an_error_that_names_it(self, talk: Path, context: str) -> None:
        result = run(talk, "gym", "--in", "conversations", "--context", context)

        assert result.exit_code == 2
        assert "--context" in result.output


def test_the_version_is_told() -> None:
    from importlib.metadata import version

    result = CliRunner().invoke(app, ["--version"])
    assert result.output == f"langchain-agentmem {version('langchain-agentmem')}\n"
