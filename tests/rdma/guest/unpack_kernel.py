"""Takes the kernel out of a compressed image: unpack_kernel.py VMLINUZ OUTPUT.

An emulated processor needs seconds to unpack it, and QEMU starts the plain one directly. What cannot be unpacked is copied
as it is.
"""

import lzma
import pathlib
import sys


def unpacked(image):
    at = image.find(b"\xfd7zXZ\0")
    while at >= 0:
        try:
            kernel = lzma.LZMADecompressor().decompress(image[at:])
            if kernel[:4] == b"\x7fELF":
                return kernel
        except lzma.LZMAError:
            pass
        at = image.find(b"\xfd7zXZ\0", at + 1)
    return image


def main():
    source, target = map(pathlib.Path, sys.argv[1:])
    target.write_bytes(unpacked(source.read_bytes()))


if __name__ == "__main__":
    main()
