"""Records with any field that they may have, for tests of what must hold of all."""

from datetime import UTC, datetime
from typing import Any, get_args

from hypothesis import strategies as st

from langchain_agentmem import Memory, Message
from langchain_agentmem.records import SCOPES, Role

TEXT = st.text(max_size=30)
CONTENT = TEXT.filter(lambda text: any(character.isalnum() for character in text))
TIMES = st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
# Keys that name an owner take text alone.
KEYS = TEXT.filter(lambda text: text not in ("scope_id", "scopeId"))
COMMON: dict[str, Any] = {
    "id": TEXT,
    "given_id": TEXT,
    "content": CONTENT,
    "scope": st.sampled_from(SCOPES),
    "scope_id": TEXT,
    "metadata": st.dictionaries(KEYS, JSON, max_size=3),
}
MEMORIES = st.builds(
    Memory,
    **COMMON,
    session_key=TEXT,
    type=CONTENT,
    priority=st.integers(-(2**31), 2**31 - 1),
    scene_name=TEXT,
    strength=st.floats(0, 1),
    tags=st.lists(TEXT, max_size=3),
    created_at=TIMES,
    updated_at=st.none() | TIMES,
)
MESSAGES = st.builds(
    Message,
    **COMMON,
    session_key=CONTENT,
    role=st.sampled_from(get_args(Role)),
    name=st.none() | TEXT,
    recorded_at=TIMES,
)
