"""What went wrong when an embedding model was called, and whether calling again can help.

Descriptions name the kind of error and its status, never the body of an answer: services echo
what they were sent, texts and keys included. Of the network's own errors alone the text is told.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

from langchain_agentmem.errors import EmbeddingError, describe

Kind = Literal["busy", "broken", "refused", "input", "other"]

_BUSY = frozenset({408, 409, 425, 429, 502, 503, 504, 529})
_BROKEN = frozenset({500})
_REFUSED = frozenset({401, 402, 403, 404})
_INPUT = frozenset({400, 413, 422})
_KINDS: dict[Kind, frozenset[int]] = {
    "busy": _BUSY,
    "broken": _BROKEN,
    "refused": _REFUSED,
    "input": _INPUT,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A failed call.

    `busy`: the service is overloaded, down or out of reach; a later call may work. `broken`: it
    broke down over this call, as many do over a text that is too long; a later call may work, or
    one with other texts. `refused`: it will not work without a change of settings. `input`:
    something about the texts, so that fewer or other ones may work. `other`: unknown.
    """

    kind: Kind
    description: str
    retry_after: float | None = None
    """Seconds that the service asks to wait."""
    timed_out: bool = False


def read_fault(error: Exception) -> Fault:
    """Tell what an exception of an embedding model means."""
    status = _status(error)
    if status is not None:
        kind: Kind = "other"
        for candidate, statuses in _KINDS.items():
            if status in statuses:
                kind = candidate
        return Fault(kind, f"HTTP status {status}", _retry_after(error))
    for cause in _causes(error):
        kinds = _httpx_kinds(cause)
        if isinstance(cause, TimeoutError) or "TimeoutException" in kinds:
            return Fault("busy", "it did not answer in time", timed_out=True)
        if kinds & {"LocalProtocolError", "UnsupportedProtocol"}:
            # Its text repeats what is wrong, a header with the key in it for one.
            return Fault("refused", f"no request can be sent to it ({type(cause).__name__})")
        if isinstance(cause, ConnectionError) or "NetworkError" in kinds:
            return Fault("busy", f"it cannot be reached ({describe(cause)})")
        if "TransportError" in kinds:
            return Fault("busy", f"it cannot be reached ({type(cause).__name__})")
    name = type(error).__name__
    if name == "APITimeoutError":
        return Fault("busy", "it did not answer in time", timed_out=True)
    if name == "APIConnectionError":
        return Fault("busy", "it cannot be reached")
    if isinstance(error, EmbeddingError):
        return Fault("other", str(error))  # words of this package's own
    # Whatever it says, it may say what it was sent.
    return Fault("other", f"{name}, which the debug log tells more of")


def _httpx_kinds(error: BaseException) -> set[str]:
    # By name: OpenAI's client brings a httpx of its own, whose classes are others.
    return {
        kind.__name__
        for kind in type(error).__mro__
        if kind.__module__.partition(".")[0] in ("httpx", "httpx2")
    }


def _causes(error: BaseException | None) -> list[BaseException]:
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return causes


def _status(error: Exception) -> int | None:
    for source in (error, getattr(error, "response", None)):
        status = getattr(source, "status_code", None)
        if isinstance(status, int) and not isinstance(status, bool):
            return status
    return None


def _retry_after(error: Exception) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None)
    value = headers.get("retry-after") if isinstance(headers, Mapping) else None
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):  # an absurd time zone is the latter
        return None
