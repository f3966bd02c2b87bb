"""What a forked child inherits and must never free.

The end of such an object touches threads and locks that are the parent's, and hangs.
"""

import ctypes
from typing import Any


def keep_for_ever(inherited: Any) -> None:
    """Have the interpreter never free an object nor what it refers to, not even at its own end."""
    # A reference that nobody gives back: a list in a module is freed with its module.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))
