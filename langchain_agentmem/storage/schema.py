"""The tables of the database, as scripts that bring it from one version to the next."""

from langchain_agentmem.records import SOURCE_MESSAGE_IDS

# Keys of the table `meta`:
MEMORY_ID = "memory_id"
KEYWORD_INDEX = "keyword_index"
"""Which engine filled the keyword index, under which analysis of text."""
EMBEDDING_MODEL = "embedding_model"
"""The fingerprint of the model whose vectors are in use."""
VECTORS_PLACE = "vectors_place"
"""What tells the collections in use from those of the same name elsewhere."""

# A script is cut into statements where `;` ends a line, so that inside a trigger none may.

_COMMON_COLUMNS = """
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    given_id TEXT,
    content TEXT NOT NULL,
    content_hash BLOB NOT NULL,
    session_key TEXT NOT NULL,
    scope TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    metadata TEXT,
    deleted_at INTEGER"""

# Times are whole microseconds since 1970-01-01 UTC. `given_id` is the id that a writer gave, where
# that of the record had to be another one.
_SCHEMA_1 = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE memories ({_COMMON_COLUMNS},
    type TEXT NOT NULL COLLATE NOCASE,
    priority INTEGER NOT NULL,
    scene_name TEXT NOT NULL,
    scene_folded TEXT NOT NULL,
    strength REAL NOT NULL,
    tags TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER
);
CREATE INDEX memories_owner ON memories (scope, scope_id, content_hash);
CREATE INDEX memories_given_id ON memories (given_id) WHERE given_id IS NOT NULL;
CREATE INDEX memories_type ON memories (type);
CREATE INDEX memories_scene ON memories (scene_folded);
CREATE INDEX memories_time ON memories (created_at);
CREATE TABLE messages ({_COMMON_COLUMNS},
    role TEXT NOT NULL,
    name TEXT,
    recorded_at INTEGER NOT NULL
);
CREATE INDEX messages_session ON messages (session_key, recorded_at);
CREATE INDEX messages_owner ON messages (scope, scope_id, content_hash);
CREATE INDEX messages_given_id ON messages (given_id) WHERE given_id IS NOT NULL;
CREATE INDEX messages_time ON messages (recorded_at);
CREATE TABLE vector_queue (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    UNIQUE (kind, id)
);
"""

# Which messages a memory was distilled from, kept level with its metadata.
_LINK = (
    "INSERT OR IGNORE INTO memories_sources SELECT trim(named.value), {row}.seq "
    f"FROM {{before}}json_each({{row}}.metadata, '$.{SOURCE_MESSAGE_IDS}') AS named "
    "WHERE named.type IN ('text', 'integer') AND trim(named.value) <> ''"
)
_LINK_NEW = _LINK.format(row="NEW", before="")
_UNLINK = "DELETE FROM memories_sources WHERE seq = OLD.seq"
_SCHEMA_2 = f"""
CREATE TABLE memories_sources (
    source TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (source, seq)
) WITHOUT ROWID;
CREATE INDEX memories_sources_seq ON memories_sources (seq);
CREATE TRIGGER memories_linked AFTER INSERT ON memories WHEN NEW.metadata IS NOT NULL
BEGIN {_LINK_NEW}; END;
CREATE TRIGGER memories_relinked AFTER UPDATE OF metadata ON memories
WHEN OLD.metadata IS NOT NEW.metadata BEGIN {_UNLINK}; {_LINK_NEW}; END;
CREATE TRIGGER memories_unlinked AFTER DELETE ON memories BEGIN {_UNLINK}; END;
{_LINK.format(row="memories", before="memories, ")};
"""

# Copies of the vectors, (dim,) float32, of the records as they are: triggers see to that.
_COPIES = """
CREATE TABLE {0}_vectors (seq INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TRIGGER {0}_vector_outdated AFTER UPDATE OF {1}, deleted_at ON {0}
WHEN {2} OR OLD.deleted_at IS NOT NEW.deleted_at
BEGIN DELETE FROM {0}_vectors WHERE seq = OLD.seq; END;
CREATE TRIGGER {0}_vector_gone AFTER DELETE ON {0}
BEGIN DELETE FROM {0}_vectors WHERE seq = OLD.seq; END;
"""
_SCHEMA_3 = (
    _COPIES.format("memories", "content", "OLD.content <> NEW.content").strip()
    + _COPIES.format(
        "messages", "content, name", "OLD.content <> NEW.content OR OLD.name IS NOT NEW.name"
    )
    + "CREATE INDEX memories_session ON memories (session_key);\n"
)

# Records that may not be filed as their metadata says: few or none, and found without a scan.
MAY_BE_STRAY = "r.scope_id = '' AND instr(r.metadata, '\"scope') > 0"
"""SQL condition on a record `r`, in the words in which the index `<kind>_strays` knows it."""
_SCHEMA_4 = "".join(
    f"CREATE INDEX {kind}_strays ON {kind} (seq) WHERE {MAY_BE_STRAY.replace('r.', '')};\n"
    for kind in ("memories", "messages")
)

MIGRATIONS = (_SCHEMA_1, _SCHEMA_2, _SCHEMA_3, _SCHEMA_4)
"""One script per schema version; `PRAGMA user_version` counts those that ran."""
