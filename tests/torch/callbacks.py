#!/usr/bin/env python3
"""Callbacks of futures: one after the other in the order of their calls, whatever they wait for, and alike on all ranks.

  callbacks.py [--ranks N ...]    2 and 4 by default
"""

import argparse
import threading
import time

from common import dist, on_ranks, torch

TRIES = 5


def launch(value=1.0, count=1000, group=None):
    """The future of an all_reduce."""
    return dist.all_reduce(torch.full((count,), float(value)), group=group, async_op=True).get_future()


def waits(rank, size):
    """More callbacks than any pool has threads, each of which waits for a further call: of the future, and of the Work."""
    def by_future(future):
        return dist.all_reduce(future.value()[0].clone(), async_op=True).get_future().wait()[0]

    def by_work(future):
        tensor = future.value()[0].clone()
        dist.all_reduce(tensor)
        return tensor

    for callback in (by_future, by_work):
        futures = [launch(k).then(callback) for k in range(20)]
        assert [f.wait()[0].item() for f in futures] == [k * size * size for k in range(20)]


def order(rank, size):
    """Calls of different sizes end in any order; no callback begins before the one of the call before has ended."""
    events = []

    def callback(k):
        def body(future):
            events.append(("begin", k))
            time.sleep(0.002 * ((k + rank) % 3))
            tensor = torch.full((4,), float(k))
            dist.all_reduce(tensor)
            events.append(("end", k))
            return tensor[0].item()
        return body

    for _ in range(TRIES):
        events.clear()
        futures = []
        for k in range(8):
            futures.append(launch(count=(k * 7919) % 50000 + 1).then(callback(k)))
            time.sleep(0.003 * ((k + rank) % 2))  # so that a rank attaches before the call has ended, and another behind it
        assert [f.wait() for f in futures] == [k * size for k in range(8)]
        assert events == [(what, k) for k in range(8) for what in ("begin", "end")], events


def chains(rank, size):
    """Of callbacks, as PowerSGD has, while the main thread makes calls of other sizes."""
    def first(future):
        return dist.all_reduce(torch.full((3,), future.value()[0][0].item()), async_op=True).get_future().wait()[0]

    def second(future):
        return dist.all_reduce(torch.full((5,), future.value()[0].item()), async_op=True).get_future().wait()[0]

    for _ in range(TRIES):
        futures, own = [], []
        for k in range(6):
            future = launch(k, 1 + 100 * k)
            time.sleep(0.002 * ((k + rank) % 2))
            futures.append(future.then(first).then(second).then(lambda f: f.value()[4].item()))
            own.append(dist.all_reduce(torch.ones(17 + k), async_op=True))
        for work in own:
            work.wait()
        assert [f.wait() for f in futures] == [k * size ** 3 for k in range(6)]


def nested(rank, size):
    """A callback waits for callbacks that it has attached: itself, by collect_all, and by an event; ten levels deep."""
    def deeper(left):
        def body(future):
            value = future.value()[0][0].item()
            return launch(value).then(deeper(left - 1)).wait() if left else value
        return body

    def collects(future):
        several = [launch(k).then(lambda f: f.value()[0][0].item()) for k in range(3)]
        return [f.value() for f in torch.futures.collect_all(several).wait()]

    def by_event(future):
        event = threading.Event()
        launch().add_done_callback(lambda f: event.set())
        return event.wait(60)

    futures = [launch().then(callback) for callback in (deeper(10), deeper(3), collects, by_event)]
    assert [f.wait() for f in futures] == [size ** 11, size ** 4, [0, size, 2 * size], True]


def later(rank, size):
    """A callback waits for calls that the main thread launches after it has begun."""
    begun, works = threading.Event(), []
    there = threading.Event()

    def callback(future):
        begun.set()
        assert there.wait(60)
        works[0].wait()
        return works[1].get_future().wait()[0][0].item()

    future = launch().then(callback)
    assert begun.wait(60)
    works += [dist.all_reduce(torch.ones(9), async_op=True), dist.all_reduce(torch.ones(5), async_op=True)]
    there.set()
    assert future.wait() == size


def long_chain(rank, size):
    """Each callback attaches the next one to a call of its own and ends."""
    end, seen = torch.futures.Future(), []

    def callback(future):
        seen.append(future.value()[0][0].item())
        if len(seen) < 300:
            launch(len(seen), 3).add_done_callback(callback)
        else:
            end.set_result(True)

    launch(0, 3).add_done_callback(callback)
    between = [launch(7).then(lambda f: f.value()[0][0].item()).wait() for _ in range(20)]
    assert end.wait() and seen == [k * size for k in range(300)] and between == [7 * size] * 20


def seen(rank, size):
    """torch documents that a callback runs at once where the future is complete; so it does where that was seen."""
    here = []

    def callback(future):
        here.append(threading.get_ident())
        return future.value()[0][0].item()

    work = dist.all_reduce(torch.ones(3), async_op=True)
    work.wait()
    future = work.get_future()
    assert future.done() and future.then(callback).value() == size
    future = launch()
    future.wait()
    future.add_done_callback(callback)
    future = launch()
    while not future.done():
        time.sleep(0.001)
    assert future.then(callback).then(lambda f: f.value() + 1).wait() == size + 1
    assert here == [threading.get_ident()] * 3
    other = []
    launch().then(lambda f: other.append(threading.get_ident())).wait()
    assert other != here[:1]


def messages(rank, size):
    """The callback of a receive that is answered late keeps back no other one."""
    if rank == 0:
        tensor = torch.zeros(3)
        late = dist.irecv(tensor, 1).get_future().then(lambda f: f.value()[0][0].item())
        assert launch().then(lambda f: f.value()[0][0].item()).wait() == size
        dist.send(torch.ones(1), 1)
        assert late.wait() == 5
    elif rank == 1:
        launch().then(lambda f: None).wait()
        dist.recv(torch.ones(1), 0)
        dist.send(torch.full((3,), 5.0), 0)
    else:
        launch().wait()


def sends(rank, size):
    """A message that a callback sends is received outside of callbacks."""
    if rank == 0:
        launch().then(lambda f: dist.send(f.value()[0][:2].clone(), 1)).wait()
    else:
        launch().wait()
    if rank == 1:
        tensor = torch.zeros(2)
        dist.recv(tensor, 0)
        assert tensor.tolist() == [size] * 2


def fails(rank, size):
    """A callback that raises fails its future and those that derive from it, and no other one."""
    def bad(future):
        raise KeyError("the callback's own")

    first, second = launch().then(bad), launch().then(lambda f: f.value()[0][0].item())
    derived = first.then(lambda f: f.value())
    assert second.wait() == size
    for future in (first, derived):
        try:
            future.wait()
        except RuntimeError as error:
            assert "the callback's own" in str(error), error
        else:
            raise AssertionError("no error")


def groups(rank, size):
    """Callbacks of one group make calls on another one, and its callbacks on the first."""
    half = [dist.new_group(range(0, size, 2)), dist.new_group(range(1, size, 2))][rank % 2]
    members = (size + 1 - rank % 2) // 2

    def on(group):
        def body(future):
            tensor = torch.ones(3)
            dist.all_reduce(tensor, group=group)
            dist.barrier(group)
            return tensor[0].item()
        return body

    futures = []
    for _ in range(4):
        futures += [launch(group=None).then(on(half)), launch(group=half).then(on(None))]
    assert [f.wait() for f in futures] == [members, size] * 4


CASES = [waits, order, chains, nested, later, long_chain, seen, messages, sends, fails, groups]


def everything(rank, size):
    for case in CASES:
        case(rank, size)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    for size in parser.parse_args().ranks:
        on_ranks(size, everything)
        print(f"callbacks: {len(CASES)} cases right at {size} ranks")


if __name__ == "__main__":
    main()
