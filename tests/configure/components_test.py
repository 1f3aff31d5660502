"""Configures the project where dependencies are missing: every part that is off says why, and so does the package."""

import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEAN = [f"-DTUTTI_WITH_{part}=OFF" for part in ("TORCH", "CUDA", "GLOO", "OPENMPI", "MPICH", "IBVERBS", "NCCL")]
USER = "cmake_minimum_required(VERSION 3.22)\nproject(user CXX)\nfind_package(tutti REQUIRED COMPONENTS {})\n"


def configure(given, source, build, *options):
    command = [given.cmake, "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={given.compiler}", *options]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=100)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--cmake", "--compiler"):
        parser.add_argument(flag, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        build, user = pathlib.Path(folder) / "build", pathlib.Path(folder) / "user"

        def expect(what, result, fails, *says):
            code, output = result
            if (code != 0) != fails or not all(part in output for part in says):
                sys.exit(f"{what}: expected {says} and {'an error' if fails else 'success'}, found exit code {code}:\n{output}")
            print(f"{what}: {says[-1]}")

        def without(*packages, options=()):
            gone = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}={'ON' if name in packages else 'OFF'}" for name in ("ZLIB", "yaml-cpp")]
            return configure(given, ROOT, build, "-DTUTTI_TESTS=OFF", "-DTUTTI_TOOLS=OFF", *LEAN, *gone, *options)

        expect("without zlib", without("ZLIB"), False, "engine off the part data, which it needs, is off",
               "data off zlib was not found (zlib1g-dev)")
        expect("without yaml-cpp", without("yaml-cpp"), False, "data on zlib 1", "engine off yaml-cpp was not found (libyaml-cpp-dev)")
        for component in ("nn", "engine"):
            user.mkdir(exist_ok=True)
            (user / "CMakeLists.txt").write_text(USER.format(component))
            expect(f"COMPONENTS {component} without LibTorch", configure(given, user, user / component, f"-Dtutti_DIR={build}/generated/package"),
                   True, f"this tutti was built without the component {component}: TUTTI_WITH_TORCH=OFF")
        expect("zlib demanded", without("ZLIB", options=["-DTUTTI_WITH_DATA=ON"]), True,
               "TUTTI_WITH_DATA=ON, but zlib was not found (zlib1g-dev).")


main()
