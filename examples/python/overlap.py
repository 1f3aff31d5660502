"""Several calls in flight in an event loop: `tutti run -np 2 python overlap.py`."""

import asyncio

import numpy

import tutti


async def main() -> None:
    world = tutti.init()
    parts = [numpy.full(1000, float(i + world.rank)) for i in range(8)]
    await asyncio.gather(*(total(world, part) for part in parts))
    print(world.rank, [float(part[0]) for part in parts])


async def total(world: tutti.Communicator, part: object) -> None:
    await world.allreduce(part, async_op=True)


asyncio.run(main())
