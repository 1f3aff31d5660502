"""Ranks that are processes, on devices: conformance of the backends for device memory, what goes wrong, what is
measured; a table of it all at the end, and in OUT/summary.txt.

   worlds.py TESTS [--accelerator fake] [--only PART,...] [--gpus N] [--nccl FILE] [--out FOLDER] [--budget SECONDS]

TESTS is the folder of a build with gpu_probe, gpu_figures and, for `fake`, the modules. Words of judgement:

   ok         as it should be
   FAILED     wrong, or hung
   not run    there was no time for it, or it was not built
   skipped    this machine cannot do it, with the reason
   figure     measured, without a target here
   MISSED     measured, and short of its target

Exit code 1 where something FAILED or was not run.
"""

import argparse
import contextlib
import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BOUND = 15.0  # seconds in which every rank has to know of an error
NO_TIME = "never begun, as no time was left"
STAGED = {"TUTTI_SELECT": "*: .. on cuda=staged"}


def by(backend):
    """Settings by which calls on device memory go by that backend."""
    return STAGED if backend == "staged" else {"TUTTI_DEVICE_BACKENDS": backend}


class Ended:
    """How one rank ended: by itself, with an exit code, or killed as it hung; `cut` says how, where there was no time for it."""

    def __init__(self, code, out="", err="", cut=""):
        self.code, self.out, self.err, self.cut = code, out.strip(), err.strip(), cut

    def why(self):
        lines = [line for line in self.err.splitlines() if line.startswith("gpu_")] or self.err.splitlines() or [f"exit code {self.code}"]
        return self.cut or lines[-1][:400]

    def verdict(self):
        return "not run" if self.cut else "FAILED"

    def refused(self):
        """Whether it said an error, in whatever words, but none of wrong results."""
        return self.code == 1 and not any(words in self.err for words in ("should be", "not the ones sent", "differ", "input was changed"))


def telling(bad):
    """Of ranks that did not end as they should, one that tells most: time that was short may hide a failure, but not make one."""
    return min(bad, key=lambda one: bool(one.cut))


class Machine:
    """Where ranks are started: which devices, which libraries."""

    def __init__(self, options):
        self.tests = options.tests.resolve()
        self.fake = options.accelerator == "fake"
        self.gpus = options.gpus
        self.nccl = str(options.nccl or "")
        self.out = options.out
        self.until = time.monotonic() + options.budget
        self.logs = 0
        if self.fake:
            self.nccl = str(self.tests / "fake" / "libnccl.so.2")
        self.kernels = self.tests / ("modules/libtutti_fake.so" if self.fake else "libuser_kernels.so")

    def environment(self, gpus):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TUTTI_") and k not in ("RANK", "WORLD_SIZE")}
        kept |= {"TUTTI_TUNING": "off", "TUTTI_TIMEOUT": "90", "TUTTI_TEST_KERNELS": str(self.kernels), "TUTTI_NCCL_LIBRARY": self.nccl}
        if self.fake:
            kept |= {"TUTTI_ACCELERATOR": "fake", "FAKE_DEVICES": str(gpus), "FAKE_STUMBLE": "1"}
            kept["TUTTI_MODULE_PATH"] = str(self.tests / "modules")
        return kept

    def play(self, ranks, words, limit=120, gpus=1, before=(), **more):
        """Starts the ranks of one world, and gives how each ended; after `limit` seconds they are killed."""
        if self.time_left() <= 0:
            return [Ended(None, cut=NO_TIME) for _ in range(ranks)]
        name, rest = words[0], [str(word) for word in words[1:]]
        with tempfile.TemporaryDirectory(prefix="tutti_gpu_") as store, contextlib.ExitStack() as files:
            shared = self.environment(gpus) | {"TUTTI_STORE": f"file://{store}", "TUTTI_SECRET": "gpu"} | more
            started = []
            for rank in range(ranks):
                own = {"TUTTI_RANK": str(rank), "TUTTI_SIZE": str(ranks), "TUTTI_LOCAL_RANK": str(rank), "TUTTI_LOCAL_SIZE": str(ranks)}
                out, err = (files.enter_context(tempfile.TemporaryFile("w+", errors="replace")) for _ in range(2))
                process = subprocess.Popen([*before, str(self.tests / name), *rest], env=shared | own, stdout=out, stderr=err)
                started.append((process, out, err))
            ended = self.gather(started, limit)
        self.log(ranks, words, ended)
        return ended

    def gather(self, started, limit):
        """Waits for ranks. Who is still running at the limit hung; at the end of all time nobody can say."""
        left = self.time_left()
        until = time.monotonic() + min(limit, left)
        for process, _, _ in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0, until - time.monotonic()))
        running = [process.poll() is None for process, _, _ in started]
        for process, _, _ in itertools.compress(started, running):  # all at once, before one hears of another's end
            process.kill()
        ended = []
        for (process, *files), killed in zip(started, running, strict=True):
            code = process.wait()
            out, err = (file.seek(0) or file.read() for file in files)
            if not killed:
                ended.append(Ended(code, out, err))
            elif left < limit:
                ended.append(Ended(None, out, err, cut=f"stopped after {left:.0f} s, as no time was left"))
            else:
                ended.append(Ended(None, out, f"{err}\ngpu_probe: still running after {limit:.0f} s, and killed"))
        return ended

    def log(self, ranks, words, ended):
        if not self.out:
            return
        self.logs += 1
        name = "-".join(str(word) for word in words).replace("/", "_")
        text = "".join(f"== rank {i}: {one.cut or f'exit code {one.code}'}\n{one.out}\n{one.err}\n" for i, one in enumerate(ended))
        (self.out / f"{self.logs:02d}-{name}-p{ranks}.log").write_text(text)

    def time_left(self):
        return self.until - time.monotonic()


class Table:
    """Rows: what was to be shown, its target, what was seen, and a word of judgement."""

    def __init__(self):
        self.rows = []

    def add(self, what, target, seen, verdict):
        self.rows.append((what, target, seen, verdict))
        print(f"{verdict:8} {what}: {seen}", flush=True)

    def text(self):
        wide = [max(len(row[i]) for row in self.rows) for i in (0, 1)]
        lines = [f"{verdict:8} {what:{wide[0]}}  {target:{wide[1]}}  {seen[:160]}" for what, target, seen, verdict in self.rows]
        return "\n".join([f"{'':8} {'what':{wide[0]}}  {'target':{wide[1]}}  seen", *lines])

    def exit_code(self):
        return 1 if any(row[3] in ("FAILED", "not run") for row in self.rows) else 0


# ---- conformance --------------------------------------------------------------------------------

def judge_world(table, what, ended, may_refuse=False):
    """`may_refuse`: a library may decline these ranks, but neither hang nor give wrong results."""
    bad = [one for one in ended if one.code != 0 or not one.out.startswith("ok ")]
    if not bad:
        return table.add(what, "right", ended[0].out[3:], "ok")
    if may_refuse and all(one.refused() for one in bad):
        return table.add(what, "right", bad[0].why(), "skipped")
    return table.add(what, "right", telling(bad).why(), telling(bad).verdict())


def conformance(machine, table, small):
    elements = 400_000 if machine.fake else 5_000_011
    for backend, sizes in (("cudaipc", (2, 4, 8)), ("staged", (2, 4, 8))):
        for ranks in sizes:
            for words in (("cases", backend), ("large", backend, elements if ranks < 8 else elements // 2)):
                if small and (ranks > 4 or words[0] == "large" and ranks > 2):
                    continue
                ended = machine.play(ranks, ("gpu_probe", *words), **by(backend))
                judge_world(table, f"{backend} {words[0]}, {ranks} processes on one GPU", ended)
    nccl(machine, table, elements, small)


def nccl(machine, table, elements, small):
    if not machine.nccl:
        return table.add("nccl", "right", "no libnccl.so.2 is named (--nccl)", "skipped")
    several = [machine.gpus] if not machine.fake else [2, 4]
    if several == [1]:
        table.add("nccl, one process on each GPU", "right", "there is one GPU", "skipped")
    for ranks in several if several != [1] else ():
        for words in (("cases", "nccl"), ("large", "nccl", elements)):
            ended = machine.play(ranks, ("gpu_probe", *words), gpus=ranks, **by("nccl"))
            judge_world(table, f"nccl {words[0]}, {ranks} on as many GPUs", ended)
    for ranks in (2,) if small else (2, 4):
        shared = by("nccl") | {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
        ended = machine.play(ranks, ("gpu_probe", "cases", "nccl"), 60, **shared)
        judge_world(table, f"nccl cases, {ranks} processes on one GPU", ended, may_refuse=True)
        if any(one.code != 0 for one in ended):
            break
    return None


# ---- what goes wrong ----------------------------------------------------------------------------

def judge_error(table, what, ended, codes, victim=None):
    """Every rank but the victim has said one of the codes, in time."""
    target = f"{' or '.join(codes)}, {BOUND:.0f} s"
    slowest, text, bad = 0.0, "", []
    for rank, one in enumerate(ended):
        words = one.out.split()
        if rank == victim:
            if one.code != -signal.SIGKILL:
                bad.append(one)
        elif one.code != 0 or len(words) < 3 or words[0] != "error" or words[1] not in codes or float(words[2]) > BOUND:
            bad.append(one)
        else:
            slowest, text = max(slowest, float(words[2])), one.out.split(":", 1)[1].strip()
    if not bad:
        return table.add(what, target, f"{slowest:.2f} s: {text}", "ok")
    one = telling(bad)
    said = one.out if one.code == 0 else one.why()
    return table.add(what, target, f"rank {ended.index(one)}{', the victim' * (ended.index(one) == victim)}: {said}", one.verdict())


def no_device(machine, table):
    none = {"FAKE_DEVICES": "0"} if machine.fake else {"CUDA_VISIBLE_DEVICES": ""}
    judge_error(table, "no device", machine.play(2, ("gpu_probe", "absent"), 40, **none), ["unsupported"])


def errors(machine, table, _small):
    no_device(machine, table)
    short = {"FAKE_MEMORY": str(8 << 20)} if machine.fake else {}
    judge_error(table, "out of device memory, cudaipc", machine.play(2, ("gpu_probe", "full", "cudaipc"), 60, **by("cudaipc"), **short),
                ["unsupported", "resource"])
    for backend in ("cudaipc", "staged"):
        more = by(backend)
        judge_error(table, f"killed peer, {backend}", machine.play(3, ("gpu_probe", "killed", backend, 1), 60, **more), ["peer_lost"], 1)
        judge_error(table, f"illegal address, {backend}", machine.play(2, ("gpu_probe", "illegal", backend, 1), 60, **more),
                    ["internal", "resource"])
    if not machine.nccl or (machine.gpus < 2 and not machine.fake):
        return table.add("errors of nccl", f"{BOUND:.0f} s", f"wants two GPUs and an NCCL; there are {machine.gpus}", "skipped")
    more = by("nccl")
    judge_error(table, "killed peer, nccl", machine.play(2, ("gpu_probe", "killed", "nccl", 1), 60, 2, **more), ["peer_lost"], 1)
    return judge_error(table, "illegal address, nccl", machine.play(2, ("gpu_probe", "illegal", "nccl", 1), 60, 2, **more),
                       ["internal", "resource", "peer_lost"])


# ---- figures ------------------------------------------------------------------------------------

TARGETS = {  # of which backends, at how many ranks: at least, or at most
    "allreduce_device": ("cudaipc", (2, 4), ">=", 75, "256 MiB allreduce, of the device copy's bandwidth by 2*P*N bytes"),
    "allreduce_pinned": ("staged", (2,), ">=", 60, "256 MiB allreduce, of the pinned copy's rate by P*N bytes"),
    "latency_8": ("cudaipc", (2, 4), "<=", 25, "8 bytes allreduce"),
    "latency_4096": ("cudaipc", (2, 4), "<=", 25, "4 KiB allreduce"),
    "products_slower": ("cudaipc", (2,), "<=", 10, "products beside allreduces of 64 MiB take longer by"),
}


def judge_figures(machine, table, backend, ranks, ended):
    bad = [one for one in ended if one.code != 0]
    if bad:
        return table.add(f"figures of {backend}, p = {ranks}", "", telling(bad).why(), telling(bad).verdict())
    for line in ended[0].out.splitlines():
        _, name, value, unit, *more = line.split(maxsplit=4)
        of, sizes, way, target, meaning = TARGETS.get(name, ("", (), "", 0, name))
        judged = of == backend and ranks in sizes
        hit = float(value) >= target if way == ">=" else float(value) <= target
        verdict = "figure" if not judged or machine.fake else "ok" if hit else "MISSED"
        table.add(f"{backend}, p = {ranks}: {meaning}", f"{way} {target} {unit}" if judged else "", " ".join((value, unit, *more)), verdict)
    return None


def figures(machine, table, _small):
    sizes = (1 << 20, 64) if machine.fake else (256 << 20, 4096)
    for backend, ranks in (("cudaipc", 2), ("cudaipc", 4), ("staged", 2), ("staged", 4)):
        ended = machine.play(ranks, ("gpu_figures", backend, *sizes), 60, FAKE_STUMBLE="0", **by(backend))
        judge_figures(machine, table, backend, ranks, ended)
    if machine.gpus > 1 and machine.nccl and not machine.fake:
        ended = machine.play(machine.gpus, ("gpu_figures", "nccl", *sizes), 60, machine.gpus, **by("nccl"))
        judge_figures(machine, table, "nccl", machine.gpus, ended)


# ---- compute-sanitizer --------------------------------------------------------------------------

def sanitizer(machine, table, _small):
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if machine.fake or not tool:
        return table.add("compute-sanitizer", "clean", "the tool is not there" if not machine.fake else "not on the fake devices", "skipped")
    for kind in ("memcheck", "racecheck"):
        before = (tool, "--tool", kind, "--error-exitcode", "9")
        one = machine.play(1, ("gpu_test", "--gtest_filter=Gpu.Folds*:Gpu.Scales*"), 100, before=before, GPU_TEST_FEW="1")[0]
        judge_sanitizer(table, f"{kind}, folds and scales", [one])
        ended = machine.play(2, ("gpu_probe", "large", "cudaipc", 200_000), 60, before=before, **by("cudaipc"))
        judge_sanitizer(table, f"{kind}, cudaipc of 2 processes", ended)
    return None


def judge_sanitizer(table, what, ended):
    bad = [one for one in ended if one.code != 0]
    text = "\n".join(one.out + one.err for one in ended)
    summary = next((line.strip("= ") for line in text.splitlines() if "SUMMARY" in line), ended[0].why())
    if not bad:
        return table.add(what, "clean", summary, "ok")
    if all(one.code is not None for one in bad) and "not supported" in text.lower():
        return table.add(what, "clean", f"this device is not supported by the tool: {summary}", "skipped")
    return table.add(what, "clean", telling(bad).cut or summary, telling(bad).verdict())


# ---- the ctest label gpu --------------------------------------------------------------------------

def ctest(machine, table, _small):
    """Programs of their own: folds bit for bit, streams, training."""
    left = machine.time_left()
    limit = min(240.0, left)
    environment = {**os.environ, "TUTTI_NCCL_LIBRARY": machine.nccl, "TUTTI_TUNING": "off"}
    tool = ("ctest", "--test-dir", str(machine.tests.parent), "-L", "gpu")
    listed = subprocess.run([*tool, "-N"], capture_output=True, text=True, check=False).stdout
    done = subprocess.run(["timeout", "-k", "5", f"{limit:.0f}", *tool, "-V"], capture_output=True, text=True, errors="replace", check=False,
                          env=environment)
    text = done.stdout + done.stderr
    if machine.out:
        (machine.out / "ctest.log").write_text(text)
    cut = f"stopped after {limit:.0f} s" if done.returncode in (124, 137) else ""
    judge_ctest(table, re.findall(r"Test +#\d+: (\S+)", listed), text, cut, "FAILED" if limit < left else "not run")


def judge_ctest(table, names, text, cut="", verdict="FAILED"):
    """`text`: what ctest -V said of these tests; `cut`: how it was stopped, which is the verdict's for the test that ran then."""
    ended = {name: (number, outcome, seconds) for number, name, outcome, seconds in
             re.findall(r"Test +#(\d+): (\S+) \.*[ *]*([A-Z][\w: ]*?) +([\d.]+) sec", text)}
    begun = re.findall(r"Start +\d+: (\S+)", text)
    for name in names:
        number, outcome, seconds = ended.get(name, ("", "", ""))
        if outcome == "Passed":
            table.add(name, "right", f"passed, {seconds} s", "ok")
        elif outcome == "Skipped" and (why := re.search(rf"^{number}: skipped: (.*)", text, re.M)):
            table.add(name, "right", why[1], "skipped")
        elif outcome in ("Skipped", "Not Run"):
            table.add(name, "right", {"Skipped": "skipped without a reason", "Not Run": "not built"}[outcome] + ": see ctest.log", "not run")
        elif outcome:
            table.add(name, "right", f"{outcome}, {seconds} s", "FAILED")
        else:
            table.add(name, "right", cut or "ctest does not say how it ended", verdict if name in begun else "not run")
    if not names:
        table.add("ctest -L gpu", "right", text.strip().splitlines()[-1] if text.strip() else "ctest says nothing", "FAILED")
    if not any("train" in name for name in names):
        table.add("training as one process does", "equal", "this build has no tutti-train, which wants LibTorch", "skipped")


PARTS = {"ctest": ctest, "conformance": conformance, "errors": errors, "figures": figures, "sanitizer": sanitizer}


def play_parts(machine, table, names, small):
    for name in names:
        if machine.time_left() < 10:
            table.add(name, "", NO_TIME, "not run")
            continue
        begin = time.monotonic()
        PARTS[name](machine, table, small)
        print(f"-- {name}: {time.monotonic() - begin:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", type=pathlib.Path)
    parser.add_argument("--accelerator", default="cuda", choices=("cuda", "fake"))
    parser.add_argument("--only", default=",".join(PARTS), help="parts, in the order in which they are played")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--nccl", help="libnccl.so.2")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--budget", type=float, default=360, help="seconds for everything")
    parser.add_argument("--small", action="store_true", help="fewer cases, as under a sanitizer of the compiler")
    options = parser.parse_args()
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    machine = Machine(options)
    table = Table()
    play_parts(machine, table, options.only.split(","), options.small)
    text = table.text()
    print("\n" + text)
    if options.out:
        (options.out / "summary.txt").write_text(text + "\n")
    return table.exit_code()


if __name__ == "__main__":
    sys.exit(main())
