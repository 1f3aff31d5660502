"""What the tests of the package share: a program built by pkg-config, which has to be there."""

import os
import pathlib
import subprocess
import sys


def tried(*command, timeout=600, **variables):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, env=os.environ | variables)


def run(*command, **options):
    done = tried(*command, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def by_pkg_config(prefix, name, compiler, standard, source):
    """Compiles `source` with the flags of NAME.pc below `prefix`, and returns the program, which finds shared libraries there."""
    library = next(pathlib.Path(prefix).glob("lib*/**/pkgconfig")).parent
    flags = run("pkg-config", "--cflags", "--libs", name, PKG_CONFIG_PATH=f"{library}/pkgconfig").split()
    program = pathlib.Path(source).with_name(f"by_{name}")
    run(compiler, f"-std={standard}", source, "-o", program, *flags, f"-Wl,-rpath,{library}")
    return program
