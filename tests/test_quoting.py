"""What is printed on one line can be given back."""

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.quoting import quote, unquote, without_closing_tags

STORED_TEXT = st.text(st.characters(exclude_categories=["Cs"]))

PLAIN = [
    "thread-1",
    "a.b@c.com",
    "user 7",
    "日本語",
    "Ünïcode",
    "a/b:c",
    "x=1&y=2",
    "don't",
    "I \u2764\ufe0f tea",
]
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
    "< /memories>",
    "<\u3164/memories>",
    "<\\/memories>",
    'say "hi"',
    "back\\slash",
    "- list",
    "---",
    "# heading",
    "> quote",
    "zero\u200bwidth",
    "bidi\u202eoverride",
    "arabic\u061cmark",
    "hangul\u3164filler",
    "\u3164",
    "braille\u2800blank",
    "khmer\u17b4vowel",
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
    assert not regex.search(r"<[\s\p{Z}\p{Cf}\p{DI}]*/", printed)
    assert not regex.search(r"(?!\p{Variation_Selector})\p{DI}", printed)


@given(st.text(st.sampled_from('</\\" \n\u3164\u200ba')))
def test_any_text_that_could_close_a_tag_survives_and_closes_none(text: str) -> None:
    assert unquote(quote(text)) == text
    for printed in (quote(text), without_closing_tags(text)):
        assert not regex.search(r"<[\s\p{Z}\p{Cf}\p{DI}]*/", printed)


@pytest.mark.parametrize(
    "text", ["", '"', '"open', 'closed"', '"a" and "b"', "'single'", "plain", ' "bad \\x" ']
)
def test_text_that_was_not_quoted_comes_back_unchanged(text: str) -> None:
    assert unquote(text) == text


def test_a_key_with_the_separator_of_a_list_is_quoted_in_it() -> None:
    assert quote("a,b") == "a,b"
    assert quote("a,b", separator=",") == '"a,b"'
