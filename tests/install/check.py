"""Installs into a temporary prefix, builds programs out of tree with find_package(tutti), and runs them alone and under the
installed `tutti run`: the README's and, where this build has the components, those of C, examples/nn_sync.cpp,
examples/train_quadrants.cpp and another one. C and C++ programs are built by find_package and by pkg-config. What is missing ends
the configuring only where it is required."""

import argparse
import functools
import pathlib
import re
import sys
import tempfile

import consumers
from consumers import by_pkg_config

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = """cmake_minimum_required(VERSION 3.22)
project(outside {languages})
find_package(tutti REQUIRED {components})
add_executable(program {source})
set_target_properties(program PROPERTIES C_STANDARD 11 CXX_STANDARD {standard} CXX_EXTENSIONS OFF)
target_link_libraries(program PRIVATE tutti::{library})
"""
LENDING = """// Lends a tensor to a collective.
#include <ATen/ops/ones.h>
#include <cstdio>
#include <nn/tensor.hpp>
#include <tutti.hpp>

int main() {
  auto world = tutti::Communicator::from_env();
  const at::Tensor tensor = at::ones({4});
  world.allreduce(tutti::nn::buffer(tensor), tutti::sum).wait();
  if (world.rank() == 0) std::printf("%d ranks: %g", world.size(), static_cast<double>(tensor.data_ptr<float>()[3]));
}
"""

tried = functools.partial(consumers.tried, timeout=280, OMP_NUM_THREADS="1")
run = functools.partial(consumers.run, timeout=280, OMP_NUM_THREADS="1")


def readme_program():
    blocks = re.findall(r"^```cpp\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    if not blocks:
        sys.exit("README.md has no ```cpp block")
    example = (ROOT / "examples/average.cpp").read_text()
    if example.split("\n", 1)[1] != blocks[0]:
        sys.exit("the program of README.md and examples/average.cpp (without its first line) differ")
    return blocks[0]


def expect(output, wanted):
    if output.strip() != wanted:
        sys.exit(f"expected: {wanted}\nprinted:  {output}")
    print(wanted)


class Outside:
    """Projects of a user of the package, each in a folder of its own."""

    def __init__(self, folder, given):
        self.folder, self.given, self.prefix = pathlib.Path(folder), given, pathlib.Path(folder) / "prefix"
        run(given.cmake, "--install", given.build, "--prefix", self.prefix)

    def configure(self, name, program, components="", library="tutti", file="program.cpp", standard=20, options=()):
        source = self.folder / name
        source.mkdir()
        (source / file).write_text(program)
        (source / "CMakeLists.txt").write_text(PROJECT.format(
            components=components, library=library, source=file, standard=standard,
            languages="C CXX" if file.endswith(".c") else "CXX"))
        return (self.given.cmake, "-S", source, "-B", source / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}",
                f"-DCMAKE_CXX_COMPILER={self.given.compiler}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra", *options)

    def build(self, name, *project, **more):
        run(*self.configure(name, *project, **more))
        run(self.given.cmake, "--build", self.folder / name / "build")
        return self.folder / name / "build/program"

    def refused(self, name, components, *says, options=()):
        """The package is not found, for a reason that says all of `says`."""
        done = tried(*self.configure(name, "", components, options=options))
        told = " ".join(done.stderr.split())  # CMake breaks lines
        for part in says:
            if done.returncode == 0 or part not in told:
                sys.exit(f"find_package(tutti REQUIRED {components}): expected an error with: {part}\nprinted:  {done.stderr}")
        print(f"{components or 'no component'}: {says[0]}")


def c_programs(outside):
    """The component c: C11 and C++17 by CMake, and by pkg-config with the C compiler alone."""
    tutti, example = outside.prefix / "bin/tutti", (ROOT / "examples/c/average.c").read_text()
    wanted = "4 ranks: mean 2.5, worst 1.5"
    for name, file, program in (("c", "program.c", example), ("cxx17", "program.cpp", example)):
        built = outside.build(name, program, "COMPONENTS c", "c", file=file, standard=17)
        expect(run(tutti, "run", "-np", "4", built), wanted)
    expect(run(tutti, "run", "-np", "4", by_pkg_config(outside.prefix, "tutti", "cc", "c11", outside.folder / "c/program.c")), wanted)


def not_required(outside, missing):
    """Components that are not to be had, where the project can do without, and a LibTorch that is none."""
    project = """cmake_minimum_required(VERSION 3.22)
project(careful CXX)
{}
message(STATUS "tutti_FOUND=${{tutti_FOUND}} nn=${{tutti_nn_FOUND}}, ${{tutti_NOT_FOUND_MESSAGE}}${{tutti_{}_NOT_FOUND_MESSAGE}};")
"""
    gone, why = next(iter(missing.items()))
    nowhere = [f"-DTUTTI_TORCH={outside.folder}"]
    no_torch = "is not a torch folder"
    cases = [(f"QUIET COMPONENTS {gone}", gone, False, why, []), (f"COMPONENTS {gone}", gone, False, why, []),
             (f"REQUIRED OPTIONAL_COMPONENTS {gone}", gone, True, why, [])]
    if "nn" not in missing:
        cases += [("QUIET COMPONENTS nn", "nn", False, no_torch, nowhere), ("REQUIRED OPTIONAL_COMPONENTS nn", "nn", True, no_torch, nowhere)]
    for number, (wanted, component, found, says, options) in enumerate(cases):
        source = outside.folder / f"careful_{number}"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(project.format(f"find_package(tutti {wanted})", component))
        done = tried(outside.given.cmake, "-S", source, "-B", source / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={outside.prefix}",
                     f"-DCMAKE_CXX_COMPILER={outside.given.compiler}", *options)
        told = " ".join(done.stdout.split())
        state = re.search(r"tutti_FOUND=(\w+) nn=(\w*), (.*?);", told)
        loud = "CMake Warning" in done.stderr
        if done.returncode != 0 or not state or (state[1] in ("ON", "TRUE", "1")) != found or says not in state[3] or loud == (
                "QUIET" in wanted or found):
            sys.exit(f"find_package(tutti {wanted}): expected success, tutti_FOUND={found} and a reason that says: {says}\n{told}\n{done.stderr}")
        print(f"{wanted}: tutti_FOUND={state[1]}, {state[3]}")


def torch(outside, version):
    """The component nn: with the LibTorch that tutti was built with, and with another one."""
    program = outside.build("lending", LENDING, "COMPONENTS nn", "nn")
    expect(run(outside.prefix / "bin/tutti", "run", "-np", "2", program), "2 ranks: 2")
    program = outside.build("nn_sync", (ROOT / "examples/nn_sync.cpp").read_text(), "COMPONENTS nn", "nn")
    for ranks in "1", "3":
        expect(run(outside.prefix / "bin/tutti", "run", "-np", ranks, program), f"{ranks} ranks: y = 3.00 x + 1.00")
    other = outside.folder / "other"
    for file, text in {"include/torch/csrc/api/include/torch/version.h":
                       "#define TORCH_VERSION_MAJOR 99\n#define TORCH_VERSION_MINOR 7\n",
                       "version.py": "__version__ = '99.7'\n", "lib/libtorch.so": "", "lib/libtorch_cpu.so": "", "lib/libc10.so": ""}.items():
        (other / file).parent.mkdir(parents=True, exist_ok=True)
        (other / file).write_text(text)
    outside.refused("another", "COMPONENTS nn", f"this tutti was built with LibTorch {version}, but the one in {other} is 99.7",
                    "-DTUTTI_TORCH=", options=[f"-DTUTTI_TORCH={other}"])


def training(outside):
    """The component engine: a network of the user's own, and the `tutti train` that was installed."""
    tutti = outside.prefix / "bin/tutti"
    program = outside.build("training", (ROOT / "examples/train_quadrants.cpp").read_text(), "COMPONENTS engine", "engine")
    expect(run(tutti, "run", "-np", "2", program).splitlines()[-1], "2 ranks: held-out accuracy 100 %")
    run(tutti, "run", "-np", "2", tutti, "train", "model=mlp", "data=random:1x4x4", "random_samples=40", "epochs=1")
    if "torch" in run("ldd", tutti):
        sys.exit("the command `tutti` links LibTorch, which only tutti-train and the libraries nn and engine may")


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--cmake", "--build", "--compiler", "--components", "--torch"):
        parser.add_argument(flag, required=True)
    given = parser.parse_args()
    components = given.components.split()
    with tempfile.TemporaryDirectory() as folder:
        outside = Outside(folder, given)
        program = outside.build("average", readme_program())
        expect(run(program), "1 ranks: mean 1, worst 0")
        expect(run(outside.prefix / "bin/tutti", "run", "-np", "4", program), "4 ranks: mean 2.5, worst 1.5")
        program = by_pkg_config(outside.prefix, "tutti-cxx", given.compiler, "c++20", outside.folder / "average/program.cpp")
        expect(run(outside.prefix / "bin/tutti", "run", "-np", "4", program), "4 ranks: mean 2.5, worst 1.5")
        outside.refused("unknown", "COMPONENTS violin", "tutti has the components c, nn and engine, but no violin")
        missing = {"violin": "but no violin"}
        for component in {"c", "nn", "engine"}.difference(components):
            missing[component] = f"this tutti was built without the component {component}: "
            outside.refused(component, f"COMPONENTS {component}", missing[component])
        not_required(outside, missing)
        if "c" in components:
            c_programs(outside)
        if "nn" in components:
            torch(outside, given.torch)
        if "engine" in components:
            training(outside)


main()
