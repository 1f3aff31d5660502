"""Where the library lies: in this package, or, where the package was built for an installed one (TUTTI_ROOT), at that one's place."""

from __future__ import annotations

import json
import os

FOLDER = os.path.dirname(os.path.abspath(__file__))


def _places() -> dict[str, str]:
    try:
        with open(os.path.join(FOLDER, "_place.json"), encoding="utf-8") as file:  # written by CMake
            return dict(json.load(file))
    except FileNotFoundError:
        return {"bin": os.path.join(FOLDER, "bin"), "lib": os.path.join(FOLDER, "lib"), "include": os.path.join(FOLDER, "include"),
                "cmake": os.path.join(FOLDER, "lib", "cmake", "tutti")}


PLACES = _places()
