"""Clones that were handed in: the commit that HEAD names, and nothing that a repository configures."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from grading.grader.intake.archives import Archive, Member
from grading.grader.intake.folders import open_folder, open_parent, read_plain
from grading.grader.intake.refused import DIRECTORY_BYTES, FILE_BYTES, PACK_ANEW, Refused


def is_bare(folder: int) -> bool:
    """Whether a folder is a bare git repository."""
    try:
        kinds = [
            os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            for name in ("HEAD", "objects", "refs")
        ]
    except OSError:
        return False
    return stat.S_ISREG(kinds[0]) and all(map(stat.S_ISDIR, kinds[1:]))


class Repository:
    """The commit that HEAD of a repository names, read by git through a folder of our own.

    git never sees the repository's own configuration, hooks or references, only its objects: what
    the configuration could start (filters, a monitor, a pager, a transport) is not there.
    """

    def __init__(self, path: Path, folder: int, close: contextlib.ExitStack) -> None:
        self.own = Path(close.enter_context(tempfile.TemporaryDirectory(prefix="grade-git-")))
        (self.own / "refs").mkdir()
        (self.own / "objects").mkdir()
        (self.own / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
        (self.own / "config").write_text(
            "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tpackedGitWindowSize = 32m\n"
            "\tpackedGitLimit = 256m\n",
            encoding="ascii",
        )
        self.folder = folder
        self.environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "HOME": str(self.own),
            "GIT_DIR": str(self.own),
            "GIT_OBJECT_DIRECTORY": str(path / "objects"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",
        }

    def git(self, *arguments: str, limit_bytes: int = 1 << 20) -> bytes:
        """What a git command prints. Raises Refused if it fails or prints more."""
        try:
            process = subprocess.Popen(
                ["git", "--no-pager", *arguments],
                env=self.environment,
                cwd=self.own,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except FileNotFoundError:
            raise Refused("it is a git repository, and git is not installed here") from None
        with process:
            assert process.stdout
            out = process.stdout.read(limit_bytes + 1)
            if len(out) > limit_bytes:
                process.kill()
                raise Refused(f"its commit is too large to read; {PACK_ANEW}")
        if process.returncode:
            raise Refused("git cannot read its commit: is the clone complete?")
        return out

    def head(self) -> str:
        """The commit's hash. Raises Refused."""
        try:
            name = self._text("HEAD").strip()
            if name.startswith("ref: "):
                name = self._resolve(name.removeprefix("ref: ").strip())
        except OSError:
            raise Refused("its HEAD cannot be read: is the clone complete?") from None
        if not re.fullmatch(r"[0-9a-f]{40}", name):
            raise Refused("its HEAD names no commit: is the repository empty?")
        return name

    def _text(self, path: str) -> str:
        with open_parent(self.folder, path) as (parent, name):
            return read_plain(parent, name, 4 << 20).decode("utf-8", "replace")

    def _resolve(self, reference: str) -> str:
        if not reference.startswith("refs/") or ".." in reference:
            return ""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return self._text(reference).strip()
        with contextlib.suppress(FileNotFoundError):
            for line in self._text("packed-refs").splitlines():
                commit, _, name = line.partition(" ")
                if name == reference:
                    return commit
        return ""

    def committed_at(self) -> float | None:
        """When the commit was made, as it says; None if that cannot be read."""
        try:
            commit = self.git("cat-file", "commit", self.head())
        except Refused:
            return None
        found = re.search(rb"^committer .*> (\d{1,12}) [-+]\d{4}$", commit, re.MULTILINE)
        return float(found[1]) if found else None

    def read(self) -> Archive:
        """The commit's files. Raises Refused."""
        self._stays_inside()
        commit = self.head()
        archive = Archive(self.committed_at())
        listing = self.git(
            *("ls-tree", "-r", "-l", "-z", "--full-tree", commit), limit_bytes=DIRECTORY_BYTES
        )
        for line in listing.split(b"\0")[:-1]:
            about, _, name = line.partition(b"\t")
            mode, _, blob, size = about.split()
            path = name.decode("utf-8", "surrogateescape")
            if mode not in (b"100644", b"100755"):
                member = Member(refused="it is a link; links are not followed")
            elif int(size) > FILE_BYTES:
                member = Member(refused=f"it is larger than {FILE_BYTES >> 20} MiB")
            else:
                member = Member(self._reader(blob.decode("ascii")))
            archive.members[path] = member
        return archive

    def _reader(self, blob: str) -> Callable[[], bytes]:
        return lambda: self.git("cat-file", "blob", blob, limit_bytes=FILE_BYTES)

    def _stays_inside(self) -> None:
        """Its objects must be its own: a link or an alternate would show another repository's."""
        try:
            objects = open_folder("objects", self.folder)
        except OSError:
            raise Refused("its objects cannot be read: is the clone complete?") from None
        try:
            for _, folders, files, here in os.fwalk(".", dir_fd=objects, follow_symlinks=False):
                for name in (*folders, *files):
                    kind = os.stat(name, dir_fd=here, follow_symlinks=False).st_mode
                    if not (stat.S_ISDIR(kind) or stat.S_ISREG(kind)):
                        raise Refused("its objects hold a link; clone it anew")
                    if name in ("alternates", "http-alternates"):
                        raise Refused("it borrows objects of another repository; clone it anew")
        finally:
            os.close(objects)
