"""Types that the compiled module returns: errors, places of ranks, arrived messages."""

from typing import NamedTuple


class Error(RuntimeError):
    """An error of tutti. The message says what happened and what to do about it."""

    code: str
    """The kind: 'peer_lost', 'mismatch', 'timeout', 'aborted', 'unsupported', 'invalid', 'resource', 'protocol', 'internal'."""
    culprit: int | None
    """The world rank that the error is about, or None."""

    def __init__(self, message: str, code: str = "internal", culprit: int = -1) -> None:
        super().__init__(message)
        self.code = code
        self.culprit = None if culprit < 0 else culprit

    def __reduce__(self) -> tuple[type["Error"], tuple[str, str, int]]:
        return (Error, (str(self), self.code, -1 if self.culprit is None else self.culprit))


class Place(NamedTuple):
    """The host and hardware of a rank."""

    host_name: str
    host: int  #: index of the host; hosts are ordered by their first rank
    numa_node: int  #: -1: more than one, or unknown
    gpu_domain: str  #: ranks with equal values see the same GPUs; empty: no GPU
    rack: str = ""  #: of the host, as rack7 or pod1/rack7; empty: unknown


class Arrived(NamedTuple):
    """A message that has arrived, or has been announced, and that no receive has matched."""

    source: int
    tag: int
    bytes: int
    count: int
    dtype: str
