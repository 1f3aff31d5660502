"""`python -m tutti`: runs the tutti command; --cmakedir and --includes print the paths for C++ projects."""

from __future__ import annotations

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))


def command() -> str | None:
    """The path of this installation's compiled command; None if it was built without."""
    path = os.path.join(FOLDER, "bin", "tutti")
    return path if os.path.exists(path) else None


def main() -> None:
    arguments = sys.argv[1:]
    if arguments == ["--cmakedir"]:
        print(os.path.join(FOLDER, "lib", "cmake", "tutti"))
    elif arguments == ["--includes"]:
        print(f"-I{os.path.join(FOLDER, 'include')}")
    else:
        path = command()
        if path is None:
            sys.exit("tutti: this installation has no command: it was built with TUTTI_TOOLS=OFF")
        os.execv(path, [path, *arguments])


if __name__ == "__main__":
    main()
