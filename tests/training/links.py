"""Communication that hides behind computation, and scaling."""

import re
import statistics

from hosts_lab import Lab, Refused
from setup import Folder, Skipped, Table, metrics

IMAGES = 5120  # Theano-MPI reports seconds per so many


def speed(run):
    return float(metrics(run)[-1]["samples_per_second"])


def overlap(setup):
    """GoogLeNet's gradients over 1 Gbit/s: one bucket leaves when backward is over, small ones while it goes on."""
    table = Table("Overlap on a link of 1 Gbit/s", "network", "seconds a step, gradients after backward", "seconds a step, during it",
                  "ratio", "goal")
    ways = {"after": ["sync.bucket_bytes=268435456", "sync.first_bucket_bytes=268435456"], "during": []}
    batch, steps = 40, 8
    found = {way: [] for way in ways}
    try:
        with Lab(2, rate="1gbit") as lab, Folder() as folder:
            for turn in range(setup.rounds):
                for way, words in ways.items():
                    run = folder / f"{way}{turn}"
                    done = lab.run(0, setup.tutti, "run", "--hosts", lab.list(1), "--remote-start", "ip netns exec {host}", setup.tutti,
                                   "train", "model=googlenet", "data=random:3x64x64", f"data.samples={batch * steps}",
                                   f"batch.global={batch}", "epochs=2", "progress=off", f"run={run}", *words, timeout=600,
                                   env=setup.environment)
                    if done.returncode != 0:
                        raise SystemExit(f"overlap: {done.stdout}{done.stderr}")
                    found[way].append(batch / speed(run))
    except Refused as why:
        raise Skipped(str(why)) from None
    ratio = statistics.median(during / after for after, during in zip(found["after"], found["during"]))
    medians = (f"{statistics.median(found[way]):.3f}" for way in ways)
    table.add("googlenet at 64x64, 20 images a rank", *medians, f"{ratio:.2f}", "0.75", ok=ratio <= 0.75)
    return table


def fusion(setup):
    """200 gradients of 1 KiB, in buckets and each in an allreduce of its own."""
    program = setup.tutti_of_torch.parent.parent / "tests/fusion_time"
    if not program.exists():
        raise Skipped("wants the target fusion_time in --torch-build")
    table = Table("200 gradients of 1 KiB", "ranks, transport", "in buckets", "an allreduce each", "ratio", "goal")
    for ranks in (2, 4):
        for transport in ("shm", "tcp"):
            pairs = []
            for _ in range(setup.rounds):
                out = setup.run("run", "-np", ranks, "env", f"TUTTI_TRANSPORT={transport}", program, program=setup.tutti_of_torch).stdout
                pairs.append([float(each) for each in re.search(r"buckets ([0-9.]+) us, an allreduce each ([0-9.]+) us", out).groups()])
            ratio = statistics.median(fused / each for fused, each in pairs)
            medians = (f"{statistics.median(each):.0f} us" for each in zip(*pairs))
            table.add(f"{ranks}, {transport}", *medians, f"{ratio:.2f}", "0.20", ok=ratio <= 0.2)
    return table


def tiles(setup):
    """Convolutions over images in tiles: what halos cost beyond the arithmetic."""
    program = setup.tutti.parent.parent / "tests/tower_time"
    if not program.exists():
        raise Skipped("wants the target tower_time in --build")
    table = Table("Six convolutions over images of 512x512 in tiles", "ranks, transport", "overlapped", "waited for", "sending nothing",
                  "exposed, overlapped", "exposed, waited for", "goal")
    for transport in ("shm", "tcp"):
        seen = []
        for _ in range(setup.rounds):
            out = setup.run("run", "-np", 2, "env", f"TUTTI_TRANSPORT={transport}", program).stdout
            seen.append([float(each) for each in re.findall(r" ([0-9.-]+) (?:ms|%)", out)])
        *times, overlapped, waited = (statistics.median(each) for each in zip(*seen))
        table.add(f"2x1, {transport}", *(f"{each:.1f} ms" for each in times), f"{overlapped:.1f} %", f"{waited:.1f} %", "20 %",
                  ok=min(overlapped, waited) < 20)
    return table


FORECAST_LINK = "5us,56gbit"  # InfiniBand FDR, which the literature's tables were measured on
SCALED = [("alexnet", "3x64x64", 16), ("googlenet", "3x64x64", 16), ("vgg16", "3x32x32", 16)]


def scaling(setup):
    """The batch of a process stays; so twice the processes are to take half as long for as many images."""
    table = Table(f"Seconds per {IMAGES} images", "network", "processes", "seconds", "efficiency", "goal")
    for model, shape, batch in SCALED:
        found = {ranks: [] for ranks in (1, 2)}
        for _ in range(setup.rounds):
            for ranks, seconds in found.items():
                with Folder() as folder:
                    setup.train(ranks, f"model={model}", f"data=random:{shape}", f"data.samples={6 * batch * ranks}",
                                f"batch.global={batch * ranks}", "epochs=2", "run=run", cwd=folder)
                    seconds.append(IMAGES / speed(folder / "run"))
        for ranks, seconds in found.items():
            efficiency = statistics.median(alone / (ranks * each) for alone, each in zip(found[1], seconds))
            table.add(f"{model} at {shape}, {batch} images a process", ranks, f"{statistics.median(seconds):.1f}",
                      f"{100 * efficiency:.0f} %", "90 %", ok=efficiency >= 0.9)
        for ranks in (8, 16):
            out = setup.train(ranks, f"model={model}", f"data=random:{shape}", f"data.samples={6 * batch * ranks}",
                              f"batch.global={batch * ranks}", "--dry-run", "--link", FORECAST_LINK)
            alone = float(re.search(r"step +([0-9.]+) ms by one rank alone", out)[1])
            step = float(re.search(r"; ([0-9.]+) ms a step", out)[1])
            table.add(f"{model} at {shape}, {batch} images a process", f"{ranks}, forecast", f"{IMAGES / (batch * ranks) * step / 1000:.1f}",
                      f"{100 * alone / step:.0f} %", "90 %", ok=alone >= 0.9 * step)
    table.notes.append(f"A forecast is --dry-run's: the compute measured here on one process, and ring allreduces over {FORECAST_LINK}.")
    return table
