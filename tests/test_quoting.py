"""What is printed on one line can be given back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.quoting import quote, unquote

STORED_TEXT = st.text(st.characters(exclude_categories=["Cs"]))

PLAIN = ["thread-1", "a.b@c.com", "user 7", "日本語", "Ünïcode", "a/b:c", "x=1&y=2", "don't"]
UNSAFE = [
    "",
    " ",
    " outer",
    "outer ",
    "two  spaces",
    "line\nbreak",
    "tab\there",
    "nul\x00",
    "line\u2028separator",
    "[bracket]",
    "(round)",
    "a] [2023-05-08] (score: 1",
    "**bold**",
    "`code`",
    "<tag>",
    "</relevant-memories>",
    'say "hi"',
    "back\\slash",
    "- list",
    "---",
    "# heading",
    "> quote",
    "zero\u200bwidth",
    "bidi\u202eoverride",
]


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_key_is_printed_as_it_is(text: str) -> None:
    assert quote(text) == text


@pytest.mark.parametrize("text", UNSAFE)
def test_any_other_key_is_printed_as_a_json_string(text: str) -> None:
    assert quote(text).startswith('"')
    assert quote(text).endswith('"')


@pytest.mark.parametrize("text", [*PLAIN, *UNSAFE])
def test_a_printed_key_can_be_given_back(text: str) -> None:
    assert unquote(quote(text)) == text


@pytest.mark.parametrize("text", UNSAFE)
def test_a_quoted_key_may_come_back_with_spaces_around_it(text: str) -> None:
    assert unquote(f" {quote(text)}\n") == text


@given(STORED_TEXT)
def test_any_text_survives(text: str) -> None:
    assert unquote(quote(text)) == text


@given(STORED_TEXT)
def test_any_text_is_one_printable_line_that_closes_no_tag(text: str) -> None:
    printed = quote(text)

    assert printed.isprintable()
    assert "</" not in printed


@pytest.mark.parametrize(
    "text", ["", '"', '"open', 'closed"', '"a" and "b"', "'single'", "plain", ' "bad \\x" ']
)
def test_text_that_was_not_quoted_comes_back_unchanged(text: str) -> None:
    assert unquote(text) == text


def test_a_key_with_the_separator_of_a_list_is_quoted_in_it() -> None:
    assert quote("a,b") == "a,b"
    assert quote("a,b", separator=",") == '"a,b"'
