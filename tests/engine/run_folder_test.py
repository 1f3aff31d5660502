"""What a run leaves in its folder: phases that add up, scalars for TensorBoard, a trace, pictures."""

import collections
import json
import struct
import time
import unittest
import xml.etree.ElementTree

from training import TINY, InFolder, command

def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    """(number, value) of each field of a protocol buffer."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            length = {1: 8, 5: 4}.get(kind) or varint()
            value = data[at:at + length]
            at += length
        yield key >> 3, value


def read_events(file):
    """(step, tag, value) of every scalar in a file for TensorBoard."""
    data, scalars, versions = file.read_bytes(), [], []
    while data:
        length, length_sum = struct.unpack("<QI", data[:12])
        record, (record_sum,) = data[12:12 + length], struct.unpack("<I", data[12 + length:16 + length])
        assert length_sum == masked_crc32c(data[:8]) and record_sum == masked_crc32c(record), file
        data = data[16 + length:]
        event = dict(fields(record))
        assert abs(struct.unpack("<d", event[1])[0] - time.time()) < 3600
        versions += [event[3]] if 3 in event else []
        for _, value in fields(event.get(5, b"")):
            scalar = dict(fields(value))
            scalars.append((event[2], scalar[1].decode(), struct.unpack("<f", scalar[2])[0]))
    assert versions == [b"brain.Event:2"], versions
    return scalars


class RunFolder(InFolder):
    """What a run leaves in its folder, and the pictures of it."""

    WORDS = ["train", "-np", 2, *TINY[:-1], "batch=8", "epochs=3"]

    def only(self, pattern):
        found = list(self.folder.glob(pattern))
        self.assertEqual(len(found), 1, found)
        return found[0]

    def run_here(self, *words):
        done = command(*words, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_is_made_where_none_is_named(self):
        text = self.run_here(*self.WORDS)
        run = self.only("runs/*")
        self.assertRegex(run.name, r"^mlp-\d{8}-\d{6}$")
        self.assertRegex(text, r"(?m)^best +accuracy [0-9.]+ % in epoch [123] of 3$")
        self.assertRegex(text, r"(?m)^speed +\d+ samples/s; time per 5,120 samples \S+ s: compute \S+ s, communication \S+ s, waiting \S+ s "
                               r"\(most for rank [01]\), load \S+ s, other \S+ s$")
        self.assertRegex(text, rf"(?m)^run +runs/{run.name}; the (best checkpoint|network) is runs/{run.name}/checkpoints/")
        self.assertTrue((run / "checkpoints/last/model.safetensors").is_file())
        self.assertRegex(text, rf"(?m)^next +tutti plot runs/{run.name}; tutti train -np 2 --resume runs/{run.name} epochs=6$")
        self.assertTrue({"config.yaml", "environment.txt", "metrics.csv", "waiting.csv"} <= {file.name for file in run.iterdir()})
        again = command(*self.WORDS, "--resume", cwd=self.folder)
        self.assertEqual(again.returncode, 2)
        self.assertIn(f"Say --resume DIR; the newest one in runs/ is runs/{run.name}", again.stderr)

    def test_phases_add_up_to_the_time_of_the_epoch(self):
        self.run_here(*self.WORDS, "run=mine")
        rows = [line.split(",") for line in (self.folder / "mine/metrics.csv").read_text().splitlines()]
        self.assertEqual([row[0] for row in rows], ["epoch", "1", "2", "3"])
        for row in rows[1:]:
            at = dict(zip(rows[0], map(float, row), strict=True))
            parts = sum(at[phase] for phase in ("compute", "communication", "waiting", "load", "other"))
            self.assertAlmostEqual(parts, at["seconds"], delta=1e-6)
            self.assertAlmostEqual(at["samples_per_second"] * at["seconds"], 40, delta=0.01)
        waiting = (self.folder / "mine/waiting.csv").read_text().splitlines()
        self.assertEqual(waiting[0], "epoch,late_rank,waiting_rank,seconds")
        for line in waiting[1:]:
            epoch, late, waits, seconds = map(float, line.split(","))
            self.assertTrue(epoch in (1, 2, 3) and {late, waits} == {0, 1} and seconds > 0, line)

    def test_history_is_as_mpi_learn_writes_it(self):
        self.run_here(*self.WORDS, "run=mine")
        history = json.loads((self.folder / "mine/history.json").read_text())
        self.assertEqual(set(history), {"train_time", "exchanges", "exchanged_bytes", "history", "args"})
        # 16x8 + 8 and 8x10 + 10 parameters, and a mark for each of the four tensors, in 15 steps
        self.assertEqual((history["exchanges"], history["exchanged_bytes"]), (15, 15 * 4 * (226 + 4)))
        self.assertEqual(history["args"]["batch.global"], "8")
        self.assertEqual({rank: len(lists["waited_for"]) for rank, lists in history["history"].items()}, {"0:0:0": 3, "0:0:1": 3})
        rows = [line.split(",") for line in (self.folder / "mine/metrics.csv").read_text().splitlines()]
        for name, column in (("loss", "train_loss"), ("val_loss", "held_out_loss"), ("val_accuracy", "accuracy")):
            listed = history["history"]["0:0:0"][name]
            for value, row in zip(listed, rows[1:], strict=True):
                self.assertAlmostEqual(value, float(row[rows[0].index(column)]), delta=1e-6)

    def test_tensorboard_reads_what_metrics_csv_has(self):
        self.run_here(*self.WORDS, "run=mine", "loss_file=losses.csv")
        scalars = read_events(self.only("mine/events.out.tfevents.*"))
        losses = [(step, value) for step, tag, value in scalars if tag == "loss"]
        expected = [float(line.split(",")[1]) for line in (self.folder / "losses.csv").read_text().splitlines()[1:]]
        self.assertEqual([step for step, _ in losses], list(range(15)))
        for (_, value), loss in zip(losses, expected, strict=True):
            self.assertAlmostEqual(value, loss, delta=1e-5)
        lines = (self.folder / "mine/metrics.csv").read_text().splitlines()
        for tag, column in (("epoch/loss", "train_loss"), ("epoch/learning_rate", "learning_rate"), ("held_out/accuracy", "accuracy"),
                            ("epoch/samples_per_second", "samples_per_second"), ("held_out/loss", "held_out_loss")):
            at = lines[0].split(",").index(column)
            found = [(step, value) for step, name, value in scalars if name == tag]
            self.assertEqual([step for step, _ in found], [5, 10, 15])
            for (_, value), line in zip(found, lines[1:], strict=True):
                self.assertAlmostEqual(value, float(line.split(",")[at]), delta=1e-5 * max(1, value))

    def test_a_trace_has_all_ranks_on_one_clock(self):
        self.run_here(*self.WORDS, "run=mine", "trace=7")
        events = json.loads((self.folder / "mine/trace.json").read_text())["traceEvents"]
        spans = collections.defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                spans[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"], event["name"], event["args"]["step"]))
        self.assertEqual(set(spans), {(rank, row) for rank in range(2) for row in range(3)})
        for rows in spans.values():  # of one row, none begins before the one before has ended
            rows.sort()
            for before, after in zip(rows, rows[1:]):
                self.assertLessEqual(before[1], after[0] + 0.002)
        for rank in range(2):
            self.assertEqual([name for _, _, name, _ in spans[rank, 0]], [f"step {i}" for i in range(7)])
            inside = {name for _, _, name, _ in spans[rank, 1]}
            self.assertTrue({"load", "forward and backward", "exposed communication", "update", "other"} >= inside)
            self.assertTrue({"forward and backward", "update"} <= inside, inside)
        # Both are in it when the sum is made. A span is drawn back from where it was noted, late by what a rank had no core then.
        for mine, other in zip(spans[0, 2], spans[1, 2], strict=True):
            self.assertLess(max(mine[0], other[0]), min(mine[1], other[1]) + 5000)
        refused = command(*self.WORDS, "run=none", "trace=7", cwd=self.folder)
        self.assertEqual((refused.returncode, "say run=DIR" in refused.stderr), (2, True), refused.stderr)

    def test_runs_are_drawn(self):
        for run, rate in (("one", 0.01), ("two & more", 0.1)):
            self.run_here(*self.WORDS, f"run={run}", f"lr={rate}")
        self.assertEqual(self.run_here("plot", "one"), "one/curves.svg\n")
        self.run_here("plot", "one", "two & more", "-o", "both.svg")
        alone, both = (xml.etree.ElementTree.parse(self.folder / file).getroot() for file in ("one/curves.svg", "both.svg"))
        lines = "{http://www.w3.org/2000/svg}polyline"
        self.assertEqual([len(list(picture.iter(lines))) for picture in (alone, both)], [4, 8])  # 2 losses, metric, speed
        for line in both.iter(lines):
            self.assertEqual(len(line.get("points").split()), 3)
        text = "".join(both.itertext())
        for part in ("loss", "held-out accuracy (%)", "samples/s", "one: best accuracy", "two & more: best accuracy"):
            self.assertIn(part, text)
        for words, says in ((["none"], "none: has no metrics.csv"), ([], "runs is required")):
            done = command("plot", *words, cwd=self.folder)
            self.assertEqual((done.returncode, says in done.stderr), (2, True), done.stderr)


if __name__ == "__main__":
    unittest.main()
