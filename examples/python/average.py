"""A mean and a maximum over all ranks: `tutti run -np 4 python average.py`."""

import numpy

import tutti

world = tutti.init()
gradient = numpy.full(1024, 1.0 + world.rank, dtype=numpy.float32)

pending = world.allreduce(gradient, "avg", async_op=True)  # starts now, returns a Work
worst = world.allreduce(0.5 * world.rank, "max")  # a number gives a number
pending.wait()  # raises tutti.Error on failure

if world.rank == 0:
    print(f"{world.size} ranks: mean {gradient[0]:g}, worst {worst:g}")
