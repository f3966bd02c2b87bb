"""Text becomes the same terms, whether it is indexed or asked for."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.storage import text as analysis
from langchain_agentmem.storage.text import (
    MAX_TERM_LENGTH,
    index_text,
    normalize,
    query_terms,
)


def terms(text: str) -> list[str]:
    return index_text(text).split(" ") if index_text(text) else []


def finds(query: str, text: str) -> bool:
    """Tell whether a text has a term of the query."""
    indexed = terms(text)
    return any(
        any(term.startswith(asked.text) if asked.prefix else term == asked.text for term in indexed)
        for asked in query_terms(query)
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Café", "cafe"),
        ("CAFÉ", "cafe\u0301"),
        ("naïve", "NAIVE"),
        ("Straße", "STRASSE"),
        ("İstanbul", "istanbul"),
        ("ﬁle", "file"),
        ("Ｆｕｌｌ　Ｗｉｄｔｈ", "full width"),
        ("soft\u00adhyphen", "softhyphen"),
        ("word\u2060joiner\ufeff", "wordjoiner"),
        ("ｶﾀｶﾅ", "カタカナ"),
        ("don’t", "don't"),
        ("en–dash", "en-dash"),
        ("Ångström", "angstrom"),
        ("Łódź", "lodz"),
        ("Søren", "soren"),
        ("ısparta", "isparta"),
        ("œuvre", "oeuvre"),
        ("ΑΘΉΝΑ", "αθηνα"),
        ("שָׁלוֹם", "שלום"),
        ("مُحَمَّد", "محمد"),
        ("مـحمد", "محمد"),
        ("أحمد", "احمد"),
        ("Ёлка", "елка"),
        ("за́мок", "замок"),
        # where a mark makes another letter, it stays
        ("йод", "йод"),
        ("їжак", "їжак"),
        ("が", "が"),
        ("नमस्ते", "नमस्ते"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("한글", "한글"),
    ],
)
def test_what_is_written_differently_is_normalized_alike(one: str, other: str) -> None:
    assert normalize(one) == normalize(other)


@pytest.mark.parametrize(
    ("one", "other"), [("が", "か"), ("й", "и"), ("क", "कि"), ("กา", "ก"), ("a", "b")]
)
def test_marks_that_make_another_letter_are_kept(one: str, other: str) -> None:
    assert normalize(one) != normalize(other)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("run", "She was running"),
        ("running", "He runs"),
        ("preference", "Preferences"),
        ("ADR-016", "see ADR-016 for why"),
        ("016", "see ADR-016 for why"),
        ("adr 016", "see ADR-016 for why"),
        ("user_id", "the user_id column"),
        ("user", "the user_id column"),
        ("main.py", "edit src/main.py now"),
        ("a.b@c.com", "write to A.B@c.com please"),
        ("https://example.org/path", "at https://example.org/path today"),
        ("C++", "likes C++ best"),
        ("c#", "likes C# best"),
        ("Anna", "Anna's bike"),
        ("Anna's", "Anna rides"),
        ("avion", "l'avion est en retard"),
        ("dont", "don't do that"),
        ("don't", "dont do that"),
        ("O'Brien", "met O'Brien"),
        ("brien", "met O'Brien"),
        ("2023-05-08", "on 2023-05-08 we met"),
        ("3.14", "pi is 3.14"),
        ("口令", "专属测试口令是闪电阻尼器"),
        ("部署", "今天讨论了部署方案"),
        ("署", "今天讨论了部署方案"),
        ("今", "今天讨论了部署方案"),
        ("案", "今天讨论了部署方案"),
        ("方", "方"),
        ("youer", "修改youer服务端"),
        ("服务", "修改youer服务端"),
        ("カラオケ", "昨日カラオケに行った"),
        ("カ", "昨日カラオケに行った"),
        ("東京", "東京タワー"),
        ("서울", "서울에 갔다"),
        ("กรุงเทพ", "ไปกรุงเทพมา"),
        ("Москва", "МОСКВА зимой"),
        ("Αθήνα", "αθήνα το καλοκαίρι"),
        ("हिन्दी", "वह हिन्दी बोलता है"),
        ("سلام", "قال سلام لهم"),
        ("שלום", "אמר שלום לכולם"),
        ("\U0001f600", "happy \U0001f600 today"),
        ("\U0001f44d", "\U0001f44d\U0001f3fd"),
        ("{", "open { brace"),
        ("*", "a * b"),
        ("50%", "about 50% off"),
        ("$", "costs $ 5"),
        ("not", "do not call before nine"),
        ("the", "only the best"),
    ],
)
def test_a_query_finds_the_text(query: str, text: str) -> None:
    assert finds(query, text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("cat", "concatenate"),
        ("art", "start"),
        ("口令", "口头命令"),
        ("ADR-016", "item 0160"),
        ("\U0001f600", "\U0001f601"),
        ("", "anything"),
        ("   ", "anything"),
        ("?!.", "What?! Yes."),
    ],
)
def test_a_query_does_not_find_the_text(query: str, text: str) -> None:
    assert not finds(query, text)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("what is the capital of France", ["capit", "franc"]),
        ("the not of", ["the", "not", "of"]),
        ("not", ["not"]),
        ("tea or coffee", ["tea", "coffe"]),
        ("cats cat CATS", ["cat"]),
        ("don't use", ["use"]),
    ],
)
def test_a_query_leaves_out_stop_words_and_repetitions(query: str, expected: list[str]) -> None:
    assert [term.text for term in query_terms(query)] == expected


@pytest.mark.parametrize(("query", "prefix"), [("署", True), ("部署", False), ("a", False)])
def test_one_character_of_a_spaceless_script_is_asked_for_as_a_prefix(
    query: str, prefix: bool
) -> None:
    assert [term.prefix for term in query_terms(query)] == [prefix]


def test_a_compound_is_asked_for_as_a_whole_too() -> None:
    assert len(query_terms("uteke-cloud-dev")) == 4


def test_terms_that_overlap_others_come_last() -> None:
    assert terms("ADR-016 first")[:3] == ["adr", "016", "first"]


def test_long_words_are_cut_alike_in_index_and_query() -> None:
    word = "x9" * 500

    assert max(map(len, terms(f"{word} {'y' * 500} {'部' * 500} {'a-' * 500}b"))) <= MAX_TERM_LENGTH
    assert finds(word, f"see {word}")


ANY_TEXT = st.text(max_size=80) | st.text(
    st.sampled_from("aB'- _\u00e9\u0301部カ한ก\U0001f600\U0001f3fd\"*(){}:^\x00\ud800\u200d\u3000"),
    max_size=40,
)


@given(ANY_TEXT)
def test_terms_of_any_text_are_safe_and_bounded(text: str) -> None:
    for term in [*terms(text), *(term.text for term in query_terms(text))]:
        assert term
        assert len(term) <= MAX_TERM_LENGTH
        assert not any(char.isspace() or char in '"\x00' for char in term)
        assert all(char.isalnum() for char in term if char.isascii())


@given(ANY_TEXT, ANY_TEXT)
def test_every_term_of_a_query_is_found_in_a_text_that_holds_the_query(
    query: str, rest: str
) -> None:
    indexed = terms(f"{query} {rest}")

    for asked in query_terms(query):
        assert any(
            term.startswith(asked.text) if asked.prefix else term == asked.text for term in indexed
        )


@given(ANY_TEXT)
def test_normalizing_twice_changes_nothing(text: str) -> None:
    assert normalize(normalize(text)) == normalize(text)


@pytest.mark.parametrize(
    "text",
    [
        "word " * 40_000,
        "x" * 200_000,
        "a-" * 100_000,
        "日\u0301" * 50_000,
        "e" + "\u0301" * 50_000,
        "日" + "\u0301" * 50_000,
    ],
    ids=["words", "word", "compound", "marked", "marks on one letter", "marks on one ideograph"],
)
def test_long_texts_are_analyzed_in_time_that_grows_with_their_length(text: str) -> None:
    started = time.monotonic()
    index_text(text)

    assert time.monotonic() - started < 5  # tenths of a second at most where it is linear


def test_what_does_not_come_again_is_not_kept() -> None:
    before = analysis._known_piece.cache_info().currsize
    index_text("a word that was never seen: qzxwv")
    after = analysis._known_piece.cache_info().currsize
    index_text(f"{'部署失败后如何回滚' * 5} {'x' * 200} {'вчера' * 3}")

    assert after > before
    assert analysis._known_piece.cache_info().currsize == after


def test_threads_stem_alike() -> None:
    words = [f"running{i} preferences{i} happily jumping" for i in range(300)]
    expected = [index_text(word) for word in words]
    got: dict[int, list[str]] = {}

    def work(worker: int) -> None:
        got[worker] = [index_text(word) for word in words]

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(got[worker] == expected for worker in range(4))
