"""A clone whose configuration, hooks and attributes name commands, and whose objects lie elsewhere."""

import subprocess

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    def git(*words):
        subprocess.run(["git", "-C", str(entry), *words], check=True, capture_output=True)

    entry.mkdir()
    git("init", "-q")
    file = entry / FOLDER / "single_gpu_baseline.py"
    file.parent.mkdir(parents=True)
    file.write_text("def knee_batch(*args):\n    return {}\n")
    (entry / ".gitattributes").write_text("* filter=evil diff=evil\n")
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "work")
    evil = f"touch {entry.parent.parent}/outside/git-ran"
    with open(entry / ".git" / "config", "a") as file:
        for section, key in (
            ("core", "fsmonitor"),
            ("core", "pager"),
            ("core", "sshCommand"),
            ('filter "evil"', "smudge"),
            ('diff "evil"', "textconv"),
        ):
            file.write(f"[{section}]\n\t{key} = {evil}\n")
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        hook = entry / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{evil}\n")
        hook.chmod(0o755)
    (entry / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (entry / ".git" / "objects" / "info" / "alternates").write_text(f"{course.root}/.git/objects\n")
