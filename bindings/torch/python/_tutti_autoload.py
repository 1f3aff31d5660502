"""Entry point in the group torch.backends, which `import torch` calls: imports tutti.torch if TUTTI_TORCH=1.

A separate module outside the package, so that it costs nothing and cannot fail if TUTTI_TORCH is not set.
"""

import os


def load():
    if os.environ.get("TUTTI_TORCH") == "1":
        import tutti.torch  # noqa: F401
