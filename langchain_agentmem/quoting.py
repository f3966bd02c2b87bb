"""How text is printed so that it cannot be taken for what is around it, and can be given back.

A plain key is printed as it is. One that holds line breaks, brackets, outer spaces, characters that
cannot be seen or other things that could be taken for the text around it is printed as a JSON
string.
"""

import json
from functools import lru_cache

import regex

LONGEST_REPEATED = 200
"""How many characters are repeated of what somebody sent: he knows what it was."""

INVISIBLE = r"\p{Cf}\p{Default_Ignorable_Code_Point}\u2800"
"""Characters that show nothing and take no room or are blank, for a character class of `regex`."""
BLANK = rf"\s\p{{Z}}{INVISIBLE}"
"""Those and white space."""

# Without the selectors that make a symbol an emoji: they change what is seen.
_UNSEEN = rf"(?!\p{{Variation_Selector}})[{INVISIBLE}]"
_NOT_PLAIN = regex.compile(rf'^\s|\s$|[\[\]()<>*`"\\]|\s{{2}}|[^\S ]|^[-#>]|{_UNSEEN}')
_NOT_SHOWN = regex.compile(_UNSEEN)
_CONTROL = regex.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_CLOSING_TAG = regex.compile(rf"<([{BLANK}]*\\*)/")


@lru_cache(maxsize=1024)  # an answer repeats the same few types, scenes and sessions
def quote(text: str, separator: str | None = None) -> str:
    """Return `text` as one line of printable characters, free of `separator` unless quoted."""
    plain = text.isprintable() and not _NOT_PLAIN.search(text)
    if text and plain and not (separator and separator in text):
        return text
    return as_json(text)


def shortened(text: str, most: int = LONGEST_REPEATED) -> str:
    """Return `text`, cut after `most` characters with a mark."""
    return text if len(text) <= most else f"{text[:most]} ..."


def as_json(text: str) -> str:
    """Return `text` as a JSON string of printable characters that closes no tag."""
    # What JSON leaves as it is but a line cannot hold (a line separator, say) is escaped too.
    quoted = json.dumps(text, ensure_ascii=False)
    shown = "".join(
        char if char.isprintable() and not _NOT_SHOWN.match(char) else json.dumps(char)[1:-1]
        for char in quoted
    )
    return without_closing_tags(shown)


def without_closing_tags(text: str) -> str:
    """Return `text` with a backslash before the slash of whatever could close a tag around it.

    Backslashes before it count, so that the escaping can be undone without doubt. A JSON string
    stands for the same text as before.
    """
    return _CLOSING_TAG.sub(r"<\1\\/", text) if "<" in text else text


def without_controls(text: str) -> str:
    """Return `text` with U+FFFD for control characters, but for tabs and those that part lines."""
    return text if text.isprintable() else _CONTROL.sub("\ufffd", text)


def unquote(text: str) -> str:
    """Undo `quote`; text that is no JSON string comes back unchanged."""
    stripped = text.strip()
    if len(stripped) > 1 and stripped[0] == stripped[-1] == '"':
        try:
            return str(json.loads(stripped))
        except ValueError:
            return text
    return text
