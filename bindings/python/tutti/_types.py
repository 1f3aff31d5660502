"""What the compiled part hands out beside arrays: errors, places, messages that have come."""

from typing import NamedTuple


class Error(RuntimeError):
    """A failure of tutti, with a sentence that says what to do next."""

    code: str
    """What kind: 'peer_lost', 'mismatch', 'timeout', 'aborted', 'unsupported', 'invalid', 'resource', 'protocol', 'internal'."""
    culprit: int | None
    """The world rank that it is about, or None."""

    def __init__(self, message: str, code: str = "internal", culprit: int = -1) -> None:
        super().__init__(message)
        self.code = code
        self.culprit = None if culprit < 0 else culprit

    def __reduce__(self) -> tuple[type["Error"], tuple[str, str, int]]:
        return (Error, (str(self), self.code, -1 if self.culprit is None else self.culprit))


class Place(NamedTuple):
    """Where a rank is."""

    host_name: str
    host: int  #: the number of its host, in the order of their first ranks
    numa_node: int  #: -1: several, or unknown
    gpu_domain: str  #: ranks with equal texts see the same GPUs; empty: none


class Arrived(NamedTuple):
    """A message that has come, or was announced, and that no receive has met."""

    source: int
    tag: int
    bytes: int
    count: int
    dtype: str
