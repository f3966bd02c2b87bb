"""Analysis of text into terms, the same for what is indexed and for what is asked.

Text is normalised (NFKC, case folded, accents and vowel points dropped) and cut into
- words, English ones stemmed (Snowball English, also known as Porter2),
- compounds such as `ADR-016` or `user_id`: their parts, and the whole as one more term,
- for scripts written without spaces (Chinese, Japanese, Korean, Thai, ...): overlapping pairs of
  characters, and the last character of each run, so that every character begins a term,
- symbols such as `{` or an emoji.
Terms hold neither white space nor ASCII punctuation: FTS5's `ascii` tokenizer takes them as they
are, and a quoted term can never be FTS5 syntax.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from threading import Lock
from typing import NamedTuple

import regex
import Stemmer

ANALYSIS_VERSION = 3
"""Raised when terms change; see `analysis_version`."""
# A sample: words that releases of the algorithm are known to stem differently, and some for others
# of its rules. A release that changes none of these goes unnoticed.
_TELLING_WORDS = """
    added adding evening inning organize universal university skis skies dying news sky only early
    arsenal communism generously caresses cries gaps agreed feed plastered hoping happy relational
    rational digitizer conformably formalism hopefulness callously biology fully electrical
    replacement adjustment adoption homologous controlled apologist acceptance existence readable
    darkness realization operator activity creative national famous government helpful
""".split()

MAX_TERM_LENGTH = 64

_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー"
_WORD = rf"[[\p{{L}}\p{{N}}\p{{M}}]--[{_SPACELESS}]]+"
_JOINER = r"(?:[-_./:@#+&'\\]|://)"
_TOKEN = regex.compile(
    rf"(?V1)(?P<run>[{_SPACELESS}]+)"
    rf"|(?P<word>{_WORD}(?:{_JOINER}{_WORD})*)"
    r"|(?P<symbol>(?!\p{Emoji_Modifier})[\p{S}#%&*/@\\{}\[\]_])",
)
# The same for text that is ASCII alone, three times as fast.
_ASCII_TOKEN = re.compile(rf"[a-z0-9]+(?:{_JOINER}[a-z0-9]+)*|[$+<=>`|~^#%&*/@\\{{}}\[\]_]")
_PART = rf"{_WORD}(?:'{_WORD})*"
_PARTS = regex.compile(rf"(?V1){_PART}")
_LAST_PART = regex.compile(rf"(?V1){_PART}$")
# Marks that people leave out when they type. Elsewhere a mark makes another letter (Cyrillic short
# i, Japanese voiced sounds, Indic vowels); of Cyrillic ones, the dots of yo and stress go.
_OPTIONAL_MARKS = regex.compile(
    r"(?V1)(?:(?<=[\p{Latin}\p{Greek}\p{Hebrew}\p{Arabic}])\p{Mn}+"
    "|(?<=\u0435)\u0308|(?<=[\u0430\u0435\u0438\u043e\u0443\u044b\u044d\u044e\u044f])\u0301|\u0640)"
)
# Letters that Unicode does not take apart, as keyboards without them write them.
_PLAIN_LETTERS = str.maketrans(
    {
        "\u00e6": "ae",
        "\u0153": "oe",
        "\u00f8": "o",
        "\u0142": "l",
        "\u0111": "d",
        "\u00f0": "d",
        "\u00fe": "th",
        "\u0131": "i",
        "\u0127": "h",
        "\u0167": "t",
    }
)
# Soft hyphens and their like stand unseen within a word.
_TYPOGRAPHY = (
    {ord(c): "'" for c in "\u2018\u2019\u02bc\uff07"}
    | {ord(c): "-" for c in "\u2010\u2011\u2012\u2013\u2212"}
    | dict.fromkeys(map(ord, "\u00ad\u2060\ufeff"))
)
_CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'ll", "'d", "'m")

# ASCII punctuation is moved to private-use code points, which FTS5 takes as part of a term.
_PRIVATE_USE = 0xE000
_WHOLE_JOINER = chr(_PRIVATE_USE + ord("-"))

# What is left of endings that the stemmer takes off, wherever they are cut: `ing`, `ng`, `g`. With
# these, 13 of the 539,060 beginnings of 87,530 words miss the word, beside those of words that are
# stemmed to a stop word; without, 23,856.
_ENDINGS = {
    ending[start:]
    for ending in "ed ing es er ness ful able ative ization ality ism ous ent".split()
    for start in range(len(ending))
}

STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any are arent as at be because been
    before being below between both but by can cant cannot could couldnt did didnt do does doesnt
    doing dont down during each few for from further had hadnt has hasnt have havent having he her
    here hers herself him himself his how i id if im in into is isnt it its itself ive just me more
    most my myself no nor not now of off on once only or other our ours ourselves out over own same
    she should shouldnt so some such than that thats the their theirs them themselves then there
    these they theyre this those through to too under until up very was wasnt we were werent what
    whats when where which while who whom why will with wont would wouldnt you your youre yours
    yourself yourselves
    """.split()
)


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """One alternative of a keyword query."""

    text: str
    prefix: bool = False
    """Match every term that begins with `text` (one character of a script without spaces)."""


@dataclass(slots=True)
class _Analysis:
    terms: list[str] = field(default_factory=list)
    """Terms in the order of the text."""
    compounds: list[str] = field(default_factory=list)
    """Whole compounds, whose parts are among the terms."""
    run_ends: list[str] = field(default_factory=list)
    """Last characters of runs without spaces, so that each character begins a term."""
    weak: set[str] = field(default_factory=set)
    """Those of the terms that say little: stop words and symbols."""
    single: set[str] = field(default_factory=set)
    """Terms of one character that stand for a whole run."""


class _Piece(NamedTuple):
    """The analysis of what stands between white space, small as many are kept."""

    line: str
    """The terms, each with a space behind it."""
    terms: tuple[str, ...]
    compounds: tuple[str, ...]
    run_ends: tuple[str, ...]
    weak: frozenset[str]
    single: frozenset[str]


def normalize(text: str) -> str:
    """Fold what Unicode and typography write differently: forms, case, accents, quotes."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKC", text).translate(_TYPOGRAPHY).casefold()
    text = _OPTIONAL_MARKS.sub("", unicodedata.normalize("NFKD", text).translate(_PLAIN_LETTERS))
    return unicodedata.normalize("NFKC", text)


def analysis_version() -> str:
    """Return what tells this analysis from others: an index that another filled is made anew.

    Releases of the stemmer differ in single words. It is told by what it does, so that a release
    which stems as before costs nothing.
    """
    stems = " ".join(map(_stem, _TELLING_WORDS))
    return f"{ANALYSIS_VERSION} {blake2b(stems.encode(), digest_size=4).hexdigest()}"


def index_text(text: str) -> str:
    """Return the terms of a text as one string, separated by spaces, for the keyword index.

    Terms that overlap others come last, so that the others stand in the order of the text.
    """
    pieces = _pieces(text)
    lines = "".join([piece.line for piece in pieces])
    last = [term for piece in pieces if piece.compounds for term in piece.compounds]
    last += [term for piece in pieces if piece.run_ends for term in piece.run_ends]
    return (lines + " ".join(last)).rstrip(" ")


def query_terms(text: str) -> list[QueryTerm]:
    """Return the distinct terms of a query, in its order.

    Stop words and symbols are left out unless nothing else is left.
    """
    analysis = _analyze(text)
    terms = dict.fromkeys(analysis.terms + analysis.compounds)
    strong = [term for term in terms if term not in analysis.weak]
    return [QueryTerm(term, prefix=term in analysis.single) for term in strong or terms]


def phrase_terms(text: str) -> list[QueryTerm]:
    """Return the terms of a phrase, in order, as they stand one after another in the index."""
    analysis = _analyze(text)
    return [QueryTerm(term, prefix=term in analysis.single) for term in analysis.terms]


def prefix_forms(text: str) -> list[list[QueryTerm]]:
    """Return phrases whose last word is only a beginning; one of them is to be found."""
    terms, begun = phrase_terms(text), _begun(text)
    if not terms or not begun:
        return [terms]
    forms = dict.fromkeys([QueryTerm(begun, prefix=True), terms[-1]])
    return [[*terms[:-1], form] for form in forms]


def completed_forms(text: str) -> list[list[QueryTerm]]:
    """Return phrases whose last word is one that a beginning may be completed to.

    The index holds stems, and a beginning may be longer than the stem of what it begins: `runn`
    begins `running`, which is `run` there. English endings are tried; what they make may be the
    stem of other words as well: `tenn` begins no `ten`, and could be `tenning`.
    """
    terms, begun = phrase_terms(text), _begun(text)
    if not terms or not _is_english(begun):
        return []
    # `listen` and `oaken` are whole words, and no beginning of `-eness`.
    endings = _ENDINGS - {"ess"} if begun.endswith("en") else _ENDINGS
    stems = {_stem(f"{begun}{rest}") for rest in endings} - _STOP_STEMS
    return [[*terms[:-1], QueryTerm(s)] for s in sorted(stems) if not s.startswith(begun)]


def _begun(text: str) -> str:
    """Return the word that a text ends in the middle of, not stemmed; empty if in none."""
    last = _LAST_PART.search(normalize(text))
    return _split_apostrophe(last.group())[-1] if last else ""


def readable_terms(terms: Iterable[str]) -> str:
    """Return terms as people read them, separated by commas."""
    return ", ".join(
        "".join(
            chr(ord(char) - _PRIVATE_USE) if 0 <= ord(char) - _PRIVATE_USE < 128 else char  # noqa: PLR2004
            for char in term
        )
        for term in terms
    )


def _analyze(text: str) -> _Analysis:
    analysis = _Analysis()
    for piece in _pieces(text):
        analysis.terms += piece.terms
        analysis.compounds += piece.compounds
        analysis.weak |= piece.weak
        analysis.single |= piece.single
    return analysis


def _pieces(text: str) -> list[_Piece]:
    """Read what stands between white space, which nothing that makes a term holds."""
    return [
        _known_piece(piece)
        if piece.isascii() and len(piece) <= _LONGEST_KEPT
        else _analyze_piece(piece)
        for piece in normalize(text).split()
    ]


def _analyze_piece(piece: str) -> _Piece:
    analysis = _Analysis()
    if piece.isascii():
        for token in _ASCII_TOKEN.findall(piece):
            _add_word(analysis, token) if token[0].isalnum() else _add_symbol(analysis, token)
    else:
        for match in _TOKEN.finditer(piece):
            token = match.group()
            if match.lastgroup == "word":
                _add_word(analysis, token)
            elif match.lastgroup == "run":
                _add_run(analysis, token)
            else:
                _add_symbol(analysis, token)
    return _Piece(
        "".join([f"{term} " for term in analysis.terms]),
        tuple(analysis.terms),
        tuple(analysis.compounds),
        tuple(analysis.run_ends),
        frozenset(analysis.weak),
        frozenset(analysis.single),
    )


# Kept, because most words come again, and reading one takes longer than all the rest. Clauses of
# scripts without spaces do not come again, and are many terms each.
_known_piece = lru_cache(maxsize=65536)(_analyze_piece)
_LONGEST_KEPT = 64


def _add_word(analysis: _Analysis, token: str) -> None:
    """Read a word or a compound."""
    parts = [token]
    if not token.isalnum():
        parts = [part for piece in _PARTS.findall(token) for part in _split_apostrophe(piece)]
    terms = [_stem(part) for part in parts]
    analysis.terms += terms
    analysis.weak |= {term for term, part in zip(terms, parts, strict=True) if part in STOP_WORDS}
    if len(parts) > 1:
        analysis.compounds.append(_WHOLE_JOINER.join(parts)[:MAX_TERM_LENGTH])


def _add_symbol(analysis: _Analysis, token: str) -> None:
    term = chr(_PRIVATE_USE + ord(token)) if token.isascii() else token
    analysis.terms.append(term)
    analysis.weak.add(term)


def _add_run(analysis: _Analysis, run: str) -> None:
    """Read characters of a script without spaces."""
    if len(run) == 1:
        analysis.terms.append(run)
        analysis.single.add(run)
    else:
        analysis.terms += [run[i : i + 2] for i in range(len(run) - 1)]
        analysis.run_ends.append(run[-1])


def _split_apostrophe(word: str) -> list[str]:
    """Cut `l'avion` in two, but take `Anna's` as `anna` and `don't` as `dont`."""
    if "'" not in word:
        return [word]
    for ending in _CONTRACTIONS:
        if word.endswith(ending) and word.count("'") == 1:
            stem = word[: -len(ending)]
            is_possessive = ending == "'s" and stem + "s" not in STOP_WORDS
            return [stem if is_possessive else word.replace("'", "")]
    return word.split("'")


_english = Stemmer.Stemmer("english", 0)  # no cache of its own, as `_stem` keeps one
_english_lock = Lock()  # a Snowball stemmer holds the word it works on


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    if _is_english(word):
        with _english_lock:
            return str(_english.stemWord(word))[:MAX_TERM_LENGTH]
    return word[:MAX_TERM_LENGTH]


def _is_english(word: str) -> bool:
    return word.isascii() and word.isalpha()


_STOP_STEMS = frozenset(map(_stem, STOP_WORDS))
