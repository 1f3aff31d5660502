"""Prints VERSION;ABI TAG;PYTHON HEADERS;TORCH FOLDER for this Python's torch, without importing it. Fails if there is no suitable torch."""

import importlib.util
import pathlib
import re
import sys
import sysconfig

spec = importlib.util.find_spec("torch")
folder = pathlib.Path(spec.submodule_search_locations[0]) if spec else sys.exit(1)
headers = pathlib.Path(sysconfig.get_paths()["include"])
release = re.search(r"__version__ = ['\"](\d+)\.(\d+)", (folder / "version.py").read_text())
wanted = [folder / "include/torch/csrc/distributed/c10d/Backend.hpp", folder / "lib/libtorch_python.so", headers / "Python.h"]
if not release or (int(release[1]), int(release[2])) < (2, 11) or not all(f.is_file() for f in wanted):
    sys.exit(1)
print(f"{release[1]}.{release[2]};cp{sys.version_info[0]}{sys.version_info[1]};{headers};{folder}")
