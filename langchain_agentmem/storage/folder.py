"""The folder of a memory: what its files are called, and that it is for its user alone."""

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from langchain_agentmem.errors import StorageError

FILE_NAME = "agentmem.sqlite3"
CHROMA_FOLDER = "chroma"
OWNER_LOCK = "vectors.lock"
TURN_LOCK = "queue.lock"
# Added to the name of the folder of the vectors:
SEAL_SUFFIX = ".seal"
TRIAL_SUFFIX = ".trial"
BROKEN_SUFFIX = ".broken-"
"""A number follows."""
NEW_SUFFIX = ".new"
"""Added to the name of a file that is about to take another one's place."""

_BESIDE_CHROMA = "|".join(
    re.escape(suffix) for suffix in (SEAL_SUFFIX, f"{SEAL_SUFFIX}{NEW_SUFFIX}", TRIAL_SUFFIX)
)
_OURS = re.compile(
    rf"{re.escape(FILE_NAME)}.*"
    rf"|{CHROMA_FOLDER}({_BESIDE_CHROMA}|{re.escape(BROKEN_SUFFIX)}\d+)?"
    rf"|{re.escape(OWNER_LOCK)}|{re.escape(TURN_LOCK)}",
    re.DOTALL,
)


def private_folder(folder: str | Path) -> Path:
    """Return the folder of a memory, made for its user alone if missing.

    Raises:
        StorageError: It cannot be made, or is no folder.
        TypeError: It is no path.
        ValueError: No folder is named.
    """
    if not isinstance(folder, str | os.PathLike):
        msg = f"folder must be a path, not {type(folder).__name__}"
        raise TypeError(msg)
    if not str(folder).strip():
        msg = "folder must not be blank"
        raise ValueError(msg)
    path = Path(folder)
    try:
        path = path.expanduser().resolve()  # it outlives a chdir
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(PermissionError):  # a folder that cannot be listed can be used
            _take_from_others(path)
    except (OSError, RuntimeError) as error:  # RuntimeError: no such user, or links in a circle
        why = getattr(error, "strerror", None) or error
        msg = f"cannot use the folder {path}: {why}"
        raise StorageError(msg) from error
    return path


def _take_from_others(folder: Path) -> None:
    """Narrow the rights of a memory that was there, where they are wider than those of a new one.

    A folder that holds anything else keeps its own: others may need what is beside the memory.
    """
    found = list(folder.iterdir())
    if os.name != "posix" or (found and not (folder / FILE_NAME).is_file()):
        return
    ours = [path for path in found if _OURS.fullmatch(path.name)]
    for path in ours if len(ours) < len(found) else [*ours, folder]:
        with suppress(OSError):  # files come and go
            state = path.stat(follow_symlinks=False)
            others_may = state.st_mode & 0o077 and not stat.S_ISLNK(state.st_mode)
            if others_may and state.st_uid == os.geteuid():
                path.chmod(stat.S_IMODE(state.st_mode) & ~0o077)
