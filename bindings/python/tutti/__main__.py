"""`python -m tutti`: runs the tutti command; --cmakedir and --includes print the paths for C++ projects."""

from __future__ import annotations

import os
import sys

from tutti._place import PLACES


def command() -> str | None:
    """The path of this installation's compiled command; None if it was built without."""
    path = os.path.join(PLACES["bin"], "tutti")
    return path if os.path.exists(path) else None


def main() -> None:
    arguments = sys.argv[1:]
    if arguments == ["--cmakedir"]:
        print(PLACES["cmake"])
    elif arguments == ["--includes"]:
        print(f"-I{PLACES['include']}")
    else:
        path = command()
        if path is None:
            sys.exit("tutti: this installation has no command: it was built with TUTTI_TOOLS=OFF")
        os.execv(path, [path, *arguments])


if __name__ == "__main__":
    main()
