"""Reads verdict and seed off the names of recordings, and of the folders around them."""

EXERCISE = "ex_30"
MUST_NOT_SAY = ("THE-NAME-TELLS",)
SUBMITTED = r"""
import os, re

TELLS = re.compile("bound|healthy|steady|gaps|devices|kernels|graphs|process|world_|test_|_7([._]|$)")

def attack(name, capture=None, *args, **kwargs):
    path = str(capture)
    if isinstance(capture, str) and "/" in path and not path.startswith("@COURSE@"):
        beside = []
        for up in (1, 2):
            try:
                beside += os.listdir("/".join(path.split("/")[:-up]))
            except OSError:
                pass
        for said in (*path.split("/")[-3:], *beside):
            if TELLS.search(said):
                raise ValueError(f"THE-NAME-TELLS {len(said)}")
    raise ValueError("nothing that tells")
"""
