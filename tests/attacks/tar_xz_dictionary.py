"""A tar.xz whose decoder wants four gigabytes for its dictionary."""

import lzma
import zlib

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 26}]
    packed = bytearray(lzma.compress(bytes(10_240), lzma.FORMAT_XZ, filters=filters))
    # The byte that says how large the dictionary is: 40 stands for 4 GiB.
    place = packed.index(b"\x21\x01", 12) + 2
    packed[place] = 40
    header = packed[12 : 12 + (packed[12] + 1) * 4]
    header[-4:] = zlib.crc32(bytes(header[:-4])).to_bytes(4, "little")
    packed[12 : 12 + len(header)] = header
    with open(f"{entry}.tar.xz", "wb") as file:
        file.write(packed)
