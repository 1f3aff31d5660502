"""Presets of strategies on real digits: what they learn, and what they exchange for it."""

import json
import re

from setup import Folder, Skipped, Table

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
        made = setup.run("data", "optdigits", "digits", cwd=folder)
        if made.returncode != 0:
            raise Skipped("the digits cannot be fetched here: " + made.stderr.strip())
        whole = None
        for name, words in (PEERS | MASTERS).items():
            out = setup.train(RANKS, "--config", "lenet-digits", "data=digits", f"strategy={name}", *words, f"run={name}", cwd=folder)
            accuracy = float(re.search(r"held-out accuracy ([0-9.]+) %", out)[1])
            given = json.loads((folder / name / "history.json").read_text(encoding="utf-8"))
            given = next(part["exchanged_bytes"] for part in walk(given) if "exchanged_bytes" in part)
            whole = whole or given
            table.add(name, " ".join(words), f"{accuracy:.2f} %", f"{given / 1e6:.2f} MB", f"1/{whole / given:.1f}", f"{GOAL:.0f} %",
                      ok=accuracy >= GOAL)
    return table


def walk(node):
    """A JSON value's objects, outermost first."""
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    for each in node if isinstance(node, list) else []:
        yield from walk(each)
