"""The Debian packages that CPack makes of this build: which there are, what lies in which, what they depend on, and that the command
works from them alone, unpacked into a folder."""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import consumers


def run(*command):
    return consumers.run(*command, timeout=280, OMP_NUM_THREADS="1")


def expect(condition, text):
    if not condition:
        sys.exit(text)


ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = """cmake_minimum_required(VERSION 3.22)
project(average CXX)
find_package(tutti REQUIRED COMPONENTS c)
add_executable(average average.cpp)
target_link_libraries(average PRIVATE tutti::tutti)
"""


class Packages:
    """The .deb files by package."""

    def __init__(self, folder):
        self.files = {run("dpkg-deb", "-f", file, "Package").strip(): file for file in sorted(folder.glob("*.deb"))}

    def contents(self, name):
        return [line.split()[5].removeprefix(".") for line in run("dpkg-deb", "-c", self.files[name]).splitlines() if not line.startswith("d")]

    def field(self, name, field):
        return run("dpkg-deb", "-f", self.files[name], field).strip()


def judge(packages, version, libdir):
    soname = ".".join(version.split(".")[:2]) if version.startswith("0.") else version.split(".")[0]
    library = f"libtutti{soname}"
    for name in (library, "libtutti-dev", "tutti"):
        expect(name in packages.files, f"there is no package {name}: {sorted(packages.files)}")
    owner = {}
    for name in packages.files:
        for file in packages.contents(name):
            expect(file not in owner, f"{file} is in {owner.get(file)} and in {name}")
            owner[file] = name
    lib = f"/usr/{libdir}"
    for file, name in {f"{lib}/libtutti.so.{soname}": library, f"{lib}/libtutti_c.so.0": "libtutti-c0", f"{lib}/libtutti.so": "libtutti-dev",
                       "/usr/include/tutti.hpp": "libtutti-dev", "/usr/include/tutti/tutti.h": "libtutti-dev", "/usr/bin/tutti": "tutti",
                       f"{lib}/pkgconfig/tutti.pc": "libtutti-dev"}.items():
        expect(owner.get(file) == name, f"{file} is in {owner.get(file)}, not in {name}")
    for name in packages.files:
        needs = packages.field(name, "Depends")
        expect(packages.field(name, "Version") == version, f"{name} is not of version {version}")
        expect(name == library or re.search(rf"\b(?:{library}|tutti|tutti-training) \(= {version}\)", needs),
               f"{name} depends on nothing of this version: {needs}")
        expect("torch" not in needs or "training" in name, f"{name} depends on LibTorch: {needs}")
        print(f"{name}: {pathlib.Path(packages.files[name]).stat().st_size // 1000} KB, depends on {needs}")


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--cpack", "--cmake", "--build", "--version", "--libdir"):
        parser.add_argument(flag, required=True)
    given = parser.parse_args()
    for tool in ("dpkg-deb", "dpkg-shlibdeps", "file"):
        if shutil.which(tool) is None:
            print(f"skipped: there is no {tool}")
            sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(given.cpack, "--config", f"{given.build}/CPackConfig.cmake", "-G", "DEB", "-B", folder, "-D", "CPACK_PACKAGING_INSTALL_PREFIX=/usr",
            "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip")
        packages = Packages(folder)
        judge(packages, given.version, given.libdir)
        root = folder / "root"
        for package in ("tutti", *(name for name in packages.files if re.fullmatch(r"libtutti[0-9.]+", name))):
            run("dpkg-deb", "-x", packages.files[package], root)
        tutti = root / "usr/bin/tutti"
        expect(run(tutti, "--version").split()[-1] == given.version, "tutti --version says another version")
        bench = run(tutti, "bench", "allreduce", "-np", "2", "-b", "1K", "-e", "1K", "-n", "5")
        expect(re.search(r"^ +1024 ", bench, re.M), f"tutti bench printed no line for 1024 bytes:\n{bench}")
        print("tutti bench runs from the packages")
        for package in ("libtutti-c0", "libtutti-dev"):
            run("dpkg-deb", "-x", packages.files[package], root)
        source = folder / "program"
        source.mkdir()
        (source / "average.cpp").write_text((ROOT / "examples/average.cpp").read_text())
        (source / "CMakeLists.txt").write_text(PROJECT)
        run(given.cmake, "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={root}/usr")
        run(given.cmake, "--build", source / "build")
        print(run(tutti, "run", "-np", "2", source / "build/average").strip())


if __name__ == "__main__":
    main()
