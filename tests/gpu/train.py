"""tutti train on a GPU: two processes that share one follow the loss curve of one process, and that of the CPU.

   train.py BIN [DEVICE]       DEVICE: cuda by default; cpu tries this program itself

Exit code 77, with the reason, where there is no GPU that LibTorch and tutti can use.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

BIN = pathlib.Path(sys.argv[1]).resolve()
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cuda"
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_") or name == "TUTTI_NCCL_LIBRARY"}
CLEAN |= {"OMP_NUM_THREADS": "1", "NVIDIA_TF32_OVERRIDE": "0", "TUTTI_TUNING": "off"}
SMALL = ["--config", "lenet-digits", "data=random:1x8x8", "random_samples=1000", "steps=50", "batch=70"]
LARGE = ["model=lenet", "data=random:3x96x96", "random_samples=512", "steps=20", "batch=64", "dtype=float64"]
STAGED = {"TUTTI_SELECT": "*: .. on cuda=staged"}


def train(ranks, words, device, **more):
    words = [*words, "progress=off", "run=none", f"device={device}"]
    return subprocess.run([BIN / "tutti", "run", "-np", str(ranks), BIN / "tutti", "train", *words], capture_output=True, text=True,
                          timeout=150, env=CLEAN | more)


def curve(ranks, words, device, least=0, **more):
    """The losses of a run, of a network of at least so many parameters."""
    with tempfile.TemporaryDirectory(prefix="tutti_gpu_") as folder:
        file = pathlib.Path(folder, "losses.csv")
        done = train(ranks, [*words, f"loss_file={file}"], device, **more)
        where = "; this one on " + ("device 0 (" if device == "cuda" else "the CPU")
        if done.returncode != 0 or where not in done.stdout or (ranks > 1 and "bitwise equal" not in done.stdout):
            sys.exit(f"{ranks} x tutti train {' '.join(words)} device={device}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        parameters = int(re.search(r"with (\d+) parameters", done.stdout)[1])
        if parameters < least:
            sys.exit(f"tutti train {' '.join(words)}: {parameters} parameters, but at least {least} are wanted")
        return [float(line.split(",")[1]) for line in file.read_text().splitlines()[1:]]


def same(what, wanted, got, tolerance):
    apart = max(abs(a - b) for a, b in zip(wanted, got, strict=True))
    print(f"{what}: {len(got)} losses from {got[0]:.4f} to {got[-1]:.4f}, at most {apart:.1e} apart", flush=True)
    if not apart <= tolerance:
        sys.exit(f"{what}: losses may be {tolerance:.0e} apart")


def main():
    tried = train(1, [*SMALL, "steps=1"], DEVICE)
    if tried.returncode == 2 and "has no device: " in tried.stderr:
        print("skipped: " + tried.stderr.split("has no device: ", 1)[1].splitlines()[0])
        return 77
    exact = [*SMALL, "dtype=float64"]
    alone = curve(1, exact, DEVICE)
    same("lenet in double precision, the CPU and one process", curve(1, exact, "cpu"), alone, 1e-8)
    same("lenet in double precision, one process and two", alone, curve(2, exact, DEVICE), 1e-8)
    same("lenet in double precision, one process and two, staged", alone, curve(2, exact, DEVICE, **STAGED), 1e-8)
    million = 10**6
    same("lenet of ten million parameters in double precision, one process and two", curve(1, LARGE, DEVICE, 10 * million),
         curve(2, LARGE, DEVICE, 10 * million), 1e-8)
    return 0


if __name__ == "__main__":
    sys.exit(main())
