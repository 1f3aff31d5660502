"""What is learned: digits, and text."""

import collections
import math
import pathlib
import re

from setup import Folder, Skipped, Table, metrics

LICENCES = pathlib.Path("/usr/share/common-licenses")


def unigram_entropy(folder):
    """Nats per byte of texts whose bytes are drawn by their frequencies alone."""
    files = sorted(file for file in folder.glob("*") if file.is_file() and not file.is_symlink())
    text = b"".join(file.read_bytes() for file in files)
    shares = [count / len(text) for count in collections.Counter(text).values()]
    return -sum(share * math.log(share) for share in shares)


def targets(setup):
    table = Table("What is learned", "run", "goal", "seen")
    with Folder() as folder:
        try:
            setup.fetch_digits(folder)
            for ranks in (1, 2, 4):
                out = setup.train(ranks, "--config", "lenet-digits", "data=digits", cwd=folder)
                accuracy = float(re.search(r"held-out accuracy ([0-9.]+) %", out)[1])
                table.add(f"lenet-digits, {ranks} processes", "98.5 %", f"{accuracy:.2f} %", ok=accuracy >= 98.5)
        except Skipped as why:
            table.notes.append(str(why))
        if LICENCES.is_dir():
            entropy = unigram_entropy(LICENCES)
            setup.train(2, "--config", "gpt-text", "run=text", cwd=folder)
            loss = float(metrics(folder / "text")[-1]["held_out_loss"])
            table.add("gpt-text, 2 processes", f"below {entropy:.3f} nats (unigram entropy)", f"{loss:.3f} nats", ok=loss < 0.75 * entropy)
    return table
