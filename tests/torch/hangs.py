#!/usr/bin/env python3
"""What is known of a job that hangs: by `tutti doctor`, and by torch's analyser of the flight recorder's dumps.

  hangs.py TUTTI    the tutti command; without it the doctor is not asked
"""

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time

from common import dist, on_ranks, start, torch

LIMIT = 20  # seconds after which the group of the rank that is waited for fails


def analysed(folder, *flags):
    """What torch's analyser says of the dumps in a folder."""
    done = subprocess.run([sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", folder, "-p", "rank_", *flags],
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def loses_its_way():
    time.sleep(3 * LIMIT)


def job():
    """One rank under torchrun: rank 2 makes no third all_reduce on the group `pipeline`."""
    import datetime

    import tutti.torch  # noqa: F401

    dist.init_process_group("tutti")
    group = dist.new_group([0, 1, 2], timeout=datetime.timedelta(seconds=LIMIT), group_desc="pipeline")
    if dist.get_rank() == 3:
        return time.sleep(3 * LIMIT)
    for call in range(4):
        if dist.get_rank() == 2 and call == 2:
            loses_its_way()
        dist.all_reduce(torch.ones(10, 3), group=group)


def ask(tutti, pid):
    """The doctor's finding of the job that a process started, once there is one."""
    found, until = {}, time.monotonic() + 100
    while found.get("finding") != "late" and time.monotonic() < until:
        done = subprocess.run([tutti, "doctor", str(pid), "--json"], capture_output=True, text=True, timeout=60)
        found = json.loads(done.stdout)[0] if done.stdout else {}
        time.sleep(0.3)
    return found


def end(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        return process.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[1]


def test_a_rank_that_skips_a_call():
    tutti, said = (sys.argv[1:2] or [""])[0], ""
    with tempfile.TemporaryDirectory(prefix="tutti_torch.") as folder:
        torchrun = subprocess.Popen([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4", __file__, "--job"],
                                    env={**os.environ, "TORCH_FR_DUMP_TEMP_FILE": f"{folder}/rank_"},
                                    stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            if os.access(tutti, os.X_OK):
                found = ask(tutti, torchrun.pid)
                said = found.get("text", "")
                assert (found.get("finding"), found.get("culprits")) == ("late", [2]), found
                for word in ("has not entered all_reduce", "ranks 0, 1 have waited", "sleep"):
                    assert word in said, f"no '{word}' in: {said}"
            torchrun.wait(150)
        finally:
            error = end(torchrun)
        assert torchrun.returncode == 1 and "all_reduce" in error, error
        dumps = sorted(os.listdir(folder))
        assert dumps == [f"rank_{rank}" for rank in range(4)], f"{dumps}\n{error}"
        told = analysed(folder)
    for word in (r"Not all ranks joining collective, sequence number: 3\b", r"group info: \w+:pipeline", "collective: gloo:all_reduce",
                 r"missing ranks: \{2\}", r"input sizes: \[\[10, 3\]\]", "collective state: started", r"(?m)^job at .*hangs.py"):
        assert re.search(word, told), f"no '{word}' in:\n{told}"
    return f"torch's analyser names rank 2 and the all_reduce{'; the doctor says: ' if said else ''}{said}"


def failing():
    """One of two ranks, of which rank 1 dies amid its calls; the other one writes a dump."""
    rank, store = int(sys.argv[2]), sys.argv[3]
    start(rank, 2, store)
    for call in range(100):
        if rank == 1 and call == 3:
            os._exit(0)
        try:
            dist.all_reduce(torch.ones(1))
        except dist.DistBackendError:
            os._exit(0)


def of_failing(folder, **variables):
    """What rank 0 writes to stderr."""
    with tempfile.TemporaryDirectory(prefix="tutti_torch.") as own:
        ranks = [subprocess.Popen([sys.executable, "-B", __file__, "--failing", str(r), f"{own}/store"], stderr=subprocess.PIPE,
                                  text=True, env={**os.environ, "TORCH_FR_DUMP_TEMP_FILE": f"{folder}/rank_", **variables})
                 for r in range(2)]
        try:
            texts = [one.communicate(timeout=100)[1] for one in ranks]
        finally:
            for one in ranks:
                one.kill()
    assert [one.returncode for one in ranks] == [0, 0], texts
    return texts[0]


def test_a_rank_that_dies():
    with tempfile.TemporaryDirectory(prefix="tutti_torch.") as folder:
        said = of_failing(folder)
        assert f"fr_trace {folder} -p rank_" in said and said.count("\n") == 1, said
        with open(f"{folder}/rank_0", "rb") as file:
            states = [(one["state"], one["retired"]) for one in pickle.load(file)["entries"]]
        assert states == [("completed", True)] * 3 + [("started", False)], states
        os.remove(f"{folder}/rank_0")
        assert of_failing(folder, TORCH_NCCL_DUMP_ON_TIMEOUT="0") == "" and not os.listdir(folder)
        said = of_failing(f"{folder}/missing")
        assert said.count("\n") == 1 and f"cannot write the flight recorder to '{folder}/missing/rank_0': let" in said, said
    return "a dump, and one line where it cannot be written"


def calls(rank, size, folder):
    """Calls of each kind that end; the dump of each rank."""
    import tutti.torch

    ones, before, after = torch.ones(4, 2), (rank - 1) % size, (rank + 1) % size
    dist.all_reduce(ones)
    dist.broadcast(torch.zeros(3, dtype=torch.int64), 0)
    dist.all_gather([torch.zeros(4, 2) for _ in range(size)], ones)
    dist.all_gather_into_tensor(torch.zeros(size * 4), torch.ones(4))
    dist.reduce_scatter_tensor(torch.zeros(4), torch.ones(size * 4))
    dist.gather(ones, [torch.zeros(4, 2) for _ in range(size)] if rank == 0 else None)
    dist.scatter(torch.zeros(4, 2), [ones] * size if rank == 0 else None)
    dist.all_to_all_single(torch.zeros(size), torch.ones(size))
    dist.all_to_all([torch.zeros(2) for _ in range(size)], [torch.ones(2)] * size)
    work = dist.isend(ones, after)
    dist.recv(torch.zeros(4, 2), None if rank == 0 else before)
    work.wait()
    dist.barrier(dist.new_group(list(range(size)), group_desc="others"))
    return tutti.torch.dump_flight_recorder(f"{folder}/rank_") == open(f"{folder}/rank_{rank}", "rb").read()


def test_calls_that_end():
    with tempfile.TemporaryDirectory(prefix="tutti_torch.") as folder:
        assert all(on_ranks(3, calls, folder))
        told = analysed(folder)
        assert not re.search("Not all ranks|has errors|mismatch|MISMATCH|cannot decide", told), told
        with open(f"{folder}/rank_0", "rb") as file:
            dump = pickle.load(file)
    assert dump["version"] == "2.10" and {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"} in dump["pg_config"].values()
    entries = {one["profiling_name"]: one for one in dump["entries"]}
    expected = {  # of rank 0: sizes of inputs and outputs, type
        "gloo:all_reduce": ([[4, 2]], [[4, 2]], "Float"), "gloo:broadcast": ([[3]], [[3]], "Long"),
        "gloo:all_gather": ([[4, 2]], [[3, 4, 2]], "Float"), "gloo:_all_gather_base": ([[4]], [[12]], "Float"),
        "gloo:_reduce_scatter_base": ([[12]], [[4]], "Float"), "gloo:gather": ([[4, 2]], [[3, 4, 2]], "Float"),
        "gloo:scatter": ([[3, 4, 2]], [[4, 2]], "Float"), "gloo:all_to_all": ([[3, 2]], [[3, 2]], "Float"),
        "gloo:send 0->1": ([[4, 2]], [[4, 2]], "Float"), "gloo:recv 0<-1": ([[4, 2]], [[4, 2]], "Float"), "gloo:barrier": ([], [], None)}
    assert set(entries) == set(expected), set(entries) ^ set(expected)
    for name, (inputs, outputs, kind) in expected.items():
        one = entries[name]
        assert (one["input_sizes"], one["output_sizes"]) == (inputs, outputs), (name, one)
        assert set(one["input_dtypes"] + one["output_dtypes"]) == ({kind} if kind else set()), (name, one)
        assert one["state"] == "completed" and one["retired"] and one["timeout_ms"] == (1800000 if "barrier" in name else 60000), (name, one)
        assert one["time_discovered_completed_ns"] >= one["time_created_ns"] and one["duration_ms"] >= 0, (name, one)
        assert any(frame["name"] == "calls" and frame["filename"] == __file__ for frame in one["frames"]), (name, one["frames"])
    numbers = [one["collective_seq_id"] for one in dump["entries"] if not one["is_p2p"] and one["process_group"][1] == "default_pg"]
    assert numbers == list(range(1, 10)), numbers
    assert entries["gloo:barrier"]["process_group"][1] == "others" and entries["gloo:barrier"]["collective_seq_id"] == 1
    return f"{len(dump['entries'])} entries of {len(entries)} kinds"


def small(rank, size):
    import tutti.torch

    for _ in range(12):
        dist.all_reduce(torch.ones(1))
    return [one["record_id"] for one in pickle.loads(tutti.torch.dump_flight_recorder(stacks=False))["entries"]]


def off(rank, size):
    import tutti.torch

    dist.all_reduce(torch.ones(1))
    try:
        tutti.torch.dump_flight_recorder()
    except RuntimeError as error:
        return str(error)


def of_size(size, body):
    os.environ["TORCH_FR_BUFFER_SIZE"] = size
    try:
        return on_ranks(2, body)
    finally:
        del os.environ["TORCH_FR_BUFFER_SIZE"]


def test_its_size():
    assert of_size("5", small) == [[7, 8, 9, 10, 11]] * 2
    for text in of_size("0", off):
        assert "TORCH_FR_BUFFER_SIZE" in text, text
    return "the last 5 of 12 calls; none with 0"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        job()
    elif sys.argv[1:2] == ["--failing"]:
        failing()
    else:
        for test in (test_calls_that_end, test_its_size, test_a_rank_that_dies, test_a_rank_that_skips_a_call):
            print(f"hangs: {test.__name__[5:]}: {test()}", flush=True)
