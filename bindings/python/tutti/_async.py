"""`await` for calls: one descriptor per event loop becomes readable when some of the loop's calls are done."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Generator
from typing import Any

from tutti import _core


class _Watcher:
    """The calls that one event loop is waiting for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.event = _core._Event()
        self.waiting: list[tuple[_core.Work, asyncio.Future[None]]] = []
        self.loop = weakref.ref(loop)  # weak, because the loop keeps this object alive

    def add(self, loop: asyncio.AbstractEventLoop, work: _core.Work) -> asyncio.Future[None]:
        future = loop.create_future()
        if not self.waiting:
            loop.add_reader(self.event.fileno(), self.look)
        self.waiting.append((work, future))
        work._ring(self.event)
        return future

    def look(self) -> None:
        try:
            os.read(self.event.fileno(), 8)
        except BlockingIOError:
            pass
        still = []
        for work, future in self.waiting:
            if not work.done():
                still.append((work, future))
            elif not future.done():
                future.set_result(None)
        self.waiting = still
        loop = self.loop()
        if not still and loop is not None:
            loop.remove_reader(self.event.fileno())


_watchers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Watcher] = weakref.WeakKeyDictionary()


def wait_in_loop(work: _core.Work) -> Generator[Any, None, Any]:
    """Implements `await work`; the event loop runs meanwhile."""
    if not work.done():
        loop = asyncio.get_running_loop()
        watcher = _watchers.get(loop)
        if watcher is None:
            watcher = _watchers[loop] = _Watcher(loop)
        yield from watcher.add(loop, work).__await__()
    return work.result
