"""Whether what is installed is what pyproject.toml declares as the least.

A bound that no environment can have, or that the resolver had to raise, is a bound that nobody
has tested. Prints each that differs.

    python .ci/lowest.py EXTRA ...
"""

import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version


def declared(extras: list[str]) -> dict[str, Version]:
    """Return the lower bounds of the dependencies and of the extras, by package."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    bounds: dict[str, Version] = {}
    waiting = [*project["dependencies"]]
    for extra in extras:
        waiting += project["optional-dependencies"][extra]
    for requirement in map(Requirement, waiting):
        if requirement.name == project["name"]:
            bounds |= declared(sorted(requirement.extras))
            continue
        (bound,) = [each for each in requirement.specifier if each.operator in (">=", "==")]
        bounds[requirement.name] = Version(bound.version)
    return bounds


def main() -> int:
    """Compare, and return the exit code."""
    bounds = declared(sys.argv[1:])
    differing = {name: bound for name, bound in bounds.items() if Version(version(name)) != bound}
    for name, bound in differing.items():
        print(f"{name}: declared {bound}, installed {version(name)}")
    print(f"{len(bounds) - len(differing)} of {len(bounds)} lower bounds are installed")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
