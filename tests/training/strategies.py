"""Presets of strategies on real digits: what they learn, and what they exchange for it."""

import json
import re

from setup import Folder, Table, metrics

RANKS, GOAL = 4, 97.0
# Syncs often enough for epochs of 23 steps; the outer rate of sparseloco, which has no momentum, is 1.
PEERS = {
    "bsp": [],
    "dsgd": [],
    "local-sgd": [],
    "post-local-sgd": [],
    "diloco": ["strategy.every=16"],
    "streaming-diloco": ["strategy.every=16", "strategy.fragments=4"],
    "eager-diloco": ["strategy.every=16"],
    "noloco": ["strategy.every=8"],
    "sparseloco": ["strategy.every=16", "strategy.outer_lr=1"],
    "sparta": ["strategy.codec=mask:0.05"],
    "gosgd": ["strategy.probability=0.1"],
}
MASTERS = {  # one master and three workers
    "downpour": ["masters=1", "optimizer.lr=0.02"],
    "asgd": ["masters=1"],
    "easgd": ["masters=1"],
    "gem": ["masters=1"],
    "decoupled-diloco": ["masters=1", "strategy.every=16"],
}


def strategies(setup):
    table = Table(f"lenet-digits by strategy, {RANKS} processes", "strategy", "options", "held-out accuracy", "bytes given by rank 0",
                  "part of bsp's", "goal")
    with Folder() as folder:
        setup.fetch_digits(folder)
        whole = None
        for name, words in (PEERS | MASTERS).items():
            out = setup.train(RANKS, "--config", "lenet-digits", "data=digits", f"strategy={name}", *words, f"run={name}", cwd=folder)
            accuracy = float(re.search(r"held-out accuracy ([0-9.]+) %", out)[1])
            given = exchanged_bytes(folder / name)
            whole = whole or given
            table.add(name, " ".join(words), f"{accuracy:.2f} %", f"{given / 1e6:.2f} MB", f"1/{whole / given:.1f}", f"{GOAL:.0f} %",
                      ok=accuracy >= GOAL)
    return table


# Link, and seconds after which the presets are compared at equal time.
LINKS = {"1gbit,1ms": 5, "50mbit,20ms": 15, "10mbit,50ms": 45}
LINK_EPOCHS = 15


def links(setup):
    """The presets on slow links: at equal samples, and at equal time."""
    table = Table(f"lenet-digits by strategy and link, {RANKS} processes, {LINK_EPOCHS} epochs", "link", "strategy", "options",
                  "held out, same samples", "seconds", "held out, same time", "after")
    with Folder() as folder:
        setup.fetch_digits(folder)
        for link, budget in LINKS.items():
            for name, words in (PEERS | MASTERS).items():
                setup.train(RANKS, "--config", "lenet-digits", "data=digits", f"epochs={LINK_EPOCHS}", f"strategy={name}", *words,
                            "--net", link, f"run={name}-{link}", cwd=folder)
                rows = metrics(folder / f"{name}-{link}")
                seconds = sum(float(row["seconds"]) for row in rows)
                table.add(link, name, " ".join(words), f"{100 * float(rows[-1]['accuracy']):.1f} %", f"{seconds:.1f}",
                          f"{100 * accuracy_after(rows, budget):.1f} %", f"{budget} s")
                print(" | ".join(table.rows[-1]), flush=True)
    return table


def accuracy_after(rows, seconds):
    """Of the last epoch that had ended by then; 0 where none had."""
    accuracy = 0.0
    for row in rows:
        seconds -= float(row["seconds"])
        if seconds < 0:
            break
        accuracy = float(row["accuracy"])
    return accuracy


# Options, the most that the loss may be above bsp's, and the part of bsp's bytes.
TEXT = {
    "bsp": ([], None, None),
    "diloco": (["strategy.every=32"], 1.03, 1 / 30),
    "streaming-diloco": (["strategy.every=32", "strategy.fragments=4"], 1.03, None),
    "sparseloco": (["strategy.every=32", "strategy.outer_lr=1"], 1.03, 1 / 500),
}


def text(setup):
    """A small transformer: what is learned for which bytes, and the most that a step sends."""
    table = Table(f"gpt-text by strategy, {RANKS} processes", "strategy", "options", "held-out loss, nats", "beside bsp's", "bytes given by rank 0",
                  "part of bsp's", "most in a step, of diloco's", "goal")
    losses, given, peaks = {}, {}, {}
    with Folder() as folder:
        for name, (words, worst, part) in TEXT.items():
            config = ("--config", "gpt-text", f"strategy={name}", *words)
            setup.train(RANKS, *config, f"run={name}", cwd=folder)
            losses[name] = float(metrics(folder / name)[-1]["held_out_loss"])
            given[name] = exchanged_bytes(folder / name)
            peaks[name] = most_in_a_step(setup.train(RANKS, *config, "--explain-strategy"))
            ratio, share = losses[name] / losses["bsp"], given[name] / given["bsp"]
            peak = peaks[name] / peaks.get("diloco", peaks[name])
            goals = [f"loss x {worst}"] * bool(worst) + [f"bytes 1/{1 / part:.0f}" if part else ""] + ["peak 0.30"] * (name == "streaming-diloco")
            good = ratio <= (worst or ratio) and share <= (part or share) and (name != "streaming-diloco" or peak <= 0.3)
            table.add(name, " ".join(words), f"{losses[name]:.3f}", f"{ratio:.3f}", f"{given[name] / 1e6:.2f} MB", f"1/{1 / share:.1f}",
                      f"{peak:.2f}", ", ".join(filter(None, goals)), ok=good)
            print(" | ".join(table.rows[-1]), flush=True)
    return table


def most_in_a_step(explained):
    amount, unit = re.search(r"at most ([0-9.]+) (k|M|G)?B in one step", explained).groups()
    return float(amount) * {None: 1, "k": 1e3, "M": 1e6, "G": 1e9}[unit]


def exchanged_bytes(run):
    """What rank 0 of a run gave to the others."""
    history = json.loads((run / "history.json").read_text(encoding="utf-8"))
    return next(part["exchanged_bytes"] for part in walk(history) if "exchanged_bytes" in part)


def walk(node):
    """A JSON value's objects, outermost first."""
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    for each in node if isinstance(node, list) else []:
        yield from walk(each)
