"""Python scripts in processes of their own: there one sees what a program loads and leaves."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
_WITHIN_REACH = [str(TESTS.parent), str(TESTS)]


def run_python(
    script: str, *arguments: str | Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end, which it must come to within 100 seconds.

    It can import the package under test and what stands beside the tests.
    """
    path = os.pathsep.join([*_WITHIN_REACH, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
