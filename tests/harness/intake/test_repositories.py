"""Taking submissions in: nothing that a repository configures is run, nothing that it borrows is read."""

from __future__ import annotations

import shutil
import sys

import pytest

from tests.harness.intake.entries import CUDA, MAIN, SECOND, WHOLE, git, needs_git, put, repository

pytestmark = [
    pytest.mark.proof,  # it is the grader's
    pytest.mark.skipif(sys.platform == "win32", reason="needs openat"),
]


HOSTILE = """\
[core]
    repositoryformatversion = 0
    bare = true
    fsmonitor = touch {mark}
    pager = touch {mark}
    hooksPath = {hooks}
    sshCommand = touch {mark}
[filter "x"]
    smudge = touch {mark}
[protocol "ext"]
    allow = always
[remote "origin"]
    url = ext::touch {mark}
    promisor = true
[extensions]
    partialClone = origin
"""


@needs_git
@pytest.mark.parametrize("way", ["bare", "no checkout", "work tree"])
def test_what_a_repository_configures_is_not_started(take, tmp_path, way):
    clone = repository(tmp_path / "ada", {**WHOLE, ".gitattributes": b"* filter=x\n"})
    if way == "bare":
        git(tmp_path, "clone", "-q", "--bare", "ada", "ada.git")
        clone = tmp_path / "ada.git"
    if way == "no checkout":
        shutil.rmtree(clone / "week07")
        (clone / ".gitattributes").unlink()
    mark = tmp_path / "started"
    inner = clone if way == "bare" else clone / ".git"
    (inner / "config").write_text(HOSTILE.format(mark=mark, hooks=tmp_path))
    assert take(clone)["staged"] == WHOLE
    for pack in (inner / "objects").glob("[0-9a-f][0-9a-f]/*"):
        pack.unlink()  # now git would have to fetch them
    take(clone)
    assert not mark.exists()


@needs_git
def test_a_repository_cannot_borrow_anothers_objects(take, tmp_path):
    private = repository(tmp_path / "key", WHOLE)
    commit = git(private, "rev-parse", "HEAD").strip()
    for way in ("alternates", "linked pack", "linked objects"):
        bare = tmp_path / way
        git(tmp_path, "init", "-q", "--bare", str(bare))
        (bare / "HEAD").write_text(commit + "\n")
        if way == "alternates":
            put(bare, {"objects/info/alternates": f"{private}/.git/objects\n".encode()})
        elif way == "linked pack":
            shutil.rmtree(bare / "objects")
            (bare / "objects").mkdir()
            for folder in (private / ".git/objects").iterdir():
                (bare / "objects" / folder.name).symlink_to(folder)
        else:
            shutil.rmtree(bare / "objects")
            (bare / "objects").symlink_to(private / ".git/objects")
        taken = take(bare)
        assert taken["error"] and not taken["staged"], way


@needs_git
def test_links_and_large_files_of_a_commit_are_refused(take, tmp_path):
    (tmp_path / "ada/week07/day1").mkdir(parents=True)
    (tmp_path / "ada" / MAIN).symlink_to("/etc/passwd")
    clone = repository(tmp_path / "ada", {SECOND: b"#" * ((1 << 20) + 1), CUDA: b""})
    git(tmp_path, "clone", "-q", "--bare", "ada", "ada.git")
    files = take(tmp_path / "ada.git")["files"]
    assert "a link" in files[MAIN] and "1 MiB" in files[SECOND] and files[CUDA] == "submitted"
    (clone / ".git/HEAD").write_text("ref: refs/../../../../etc/passwd\n")
    shutil.rmtree(clone / "week07")
    assert "names no commit" in take(clone)["error"]
