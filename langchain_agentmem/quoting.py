"""How keys and labels are printed on one line, so that what is printed can be given back.

A plain key is printed as it is. One that holds line breaks, brackets, outer spaces or other
things that could be taken for the text around it is printed as a JSON string.
"""

import json
import re

_NOT_PLAIN = re.compile(r'^\s|\s$|[\[\]()<>*`"\\]|\s{2}|[^\S ]|^[-#>]')


def quote(text: str, separator: str | None = None) -> str:
    """Return `text` as one line of printable characters, free of `separator` unless quoted."""
    plain = text.isprintable() and not _NOT_PLAIN.search(text)
    if text and plain and not (separator and separator in text):
        return text
    return as_json(text)


def as_json(text: str) -> str:
    """Return `text` as a JSON string of printable characters that closes no tag."""
    # What JSON leaves as it is but a line cannot hold (a line separator, say) is escaped too.
    quoted = json.dumps(text, ensure_ascii=False).replace("</", "<\\/")
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in quoted)


def unquote(text: str) -> str:
    """Undo `quote`; text that is no JSON string comes back unchanged."""
    stripped = text.strip()
    if len(stripped) > 1 and stripped[0] == stripped[-1] == '"':
        try:
            return str(json.loads(stripped))
        except ValueError:
            return text
    return text
