"""What `import torch` calls of the entry point group torch.backends: imports tutti.torch where TUTTI_TORCH=1 asks for it.

A module of its own, outside the package: it must cost nothing where nobody asks, and must not fail.
"""

import os


def load():
    if os.environ.get("TUTTI_TORCH") == "1":
        import tutti.torch  # noqa: F401
