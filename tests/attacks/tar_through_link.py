"""A tar with a folder that is a link out, and the stub written through it."""

import io
import tarfile

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    with tarfile.open(f"{entry}.tar", "w") as archive:
        link = tarfile.TarInfo(FOLDER)
        link.type, link.linkname = tarfile.SYMTYPE, f"{course.root}/solutions/{FOLDER}"
        archive.addfile(link)
        member = tarfile.TarInfo(f"{FOLDER}/notes.py")
        member.size = 6
        archive.addfile(member, io.BytesIO(b"passed"))
