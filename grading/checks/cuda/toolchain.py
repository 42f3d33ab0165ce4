"""Compiling CUDA sources without a GPU, and linking them to the recording stand-in.

One compilation a source, kept by the hash of everything that went into it: several checks, and
several runs, share it. The mistakes of one stub are compiled together in one translation
unit, because nearly all of the time goes into the headers that they share.
"""

from __future__ import annotations

import functools
import getpass
import hashlib
import itertools
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from grading.checks import commands
from grading.checks.commands import Completed
from profiling_lab.course import doctor

RUNTIME_SOURCE = Path(__file__).with_name("runtime.cpp")
ARCHITECTURE = "sm_90"  # that of the course's recordings
NVCC_FLAGS = ("-std=c++17", "-O0", f"-arch={ARCHITECTURE}")
CXX_FLAGS = ("-std=c++17", "-O0")
COMPILE_TIMEOUT_S = 300  # a guard against a compiler that hangs


class ToolchainError(Exception):
    """This machine cannot compile CUDA sources: says which tool is missing or broken."""


class BuildError(Exception):
    """A source does not compile, or calls what the stand-in does not have: says where and what."""


SIBLINGS = "siblings-"  # so begins the name of a folder of sources that are compiled together

# What main() is to run, of sources that say it in a table.
TABLE = r"^const (std::vector<\w+>) (k\w+) ="


@dataclass(frozen=True)
class Program:
    """A program linked to the stand-in. variant: which of several sources inside it is meant."""

    executable: Path
    variant: int = 0


@functools.cache
def nvcc() -> Path:
    """The CUDA compiler, from PATH or from NVIDIA's wheels. Raises ToolchainError without one."""
    found = doctor.find_nvcc()
    if found is None:
        raise ToolchainError(
            "no nvcc: it is not in PATH, and this environment lacks the wheels nvidia-cuda-nvcc, "
            "nvidia-nvvm, nvidia-cuda-crt, nvidia-cuda-runtime and nvidia-cuda-cccl"
        )
    return Path(found)


@functools.cache
def cxx() -> Path:
    """The host C++ compiler, one that takes gcc's options. Raises ToolchainError without one."""
    found = doctor.find_cxx()
    if found is None or Path(found).stem == "cl":
        raise ToolchainError("no host C++ compiler: the stand-in is built with g++ or clang++")
    return Path(found)


@functools.cache
def _nvcc_setting(name: str) -> str:
    """What nvcc itself uses, from its dry run."""
    command = [str(nvcc()), "--dryrun", "-x", "cu", "-c", "-o", os.devnull, os.devnull]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(rf"^#\$ {name}=(.*)$", result.stderr, re.MULTILINE)
    if found is None:
        raise ToolchainError(f"{nvcc()} --dryrun names no {name}: {result.stderr.strip()}")
    return found.group(1).strip()


def _include_folders() -> list[str]:
    return re.findall(r'"-I([^"]+)"', _nvcc_setting("INCLUDES"))


def run(command: Sequence[str], *, out: Path | None = None, read: Iterable[Path] = ()) -> Completed:
    """Run a compiler. out: where its product goes, if it makes one. read: the files that it needs."""
    argv = [*command, "-o", out.name] if out else list(command)
    done = commands.run(
        argv, timeout_s=COMPILE_TIMEOUT_S, keep=[out.name] if out else [], readable=read
    )
    name = Path(command[0]).name
    if done.cause:
        raise BuildError(f"{name} did not end within {COMPILE_TIMEOUT_S} s or its memory")
    if out and done.returncode == 0:
        if out.name not in done.files:
            raise BuildError(f"{name} left no file, or one too large")
        out.write_bytes(done.files[out.name])
        out.chmod(0o755)
    return done


def cache_folder() -> Path:
    """Where compiled programs are kept: $LAB_CUDA_CACHE, else a private folder for this user.

    Raises ToolchainError when the folder belongs to someone else.
    """
    if chosen := os.environ.get("LAB_CUDA_CACHE"):
        folder = Path(chosen)
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    folder = Path(tempfile.gettempdir()) / f"profiling-lab-cuda-{getpass.getuser()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022:
        raise ToolchainError(f"{folder} belongs to, or can be written by, another user; remove it")
    return folder


@contextmanager
def locked(folder: Path, key: str) -> Iterator[None]:
    """One process compiles, the others wait and find the result."""
    import fcntl  # not on Windows, where cxx() has refused before

    with open(folder / f"{key}.lock", "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _key(*parts: bytes | str | Path) -> str:
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            part = part.read_bytes()
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()[:24]


def _toolchain_key() -> str:
    status = nvcc().resolve().stat()
    return _key(str(nvcc()), f"{status.st_size} {status.st_mtime_ns}", str(cxx()), *NVCC_FLAGS)


def key_of(source: Path, folders: list[Path], *more: str) -> str:
    """Of everything that goes into compiling a source: where its results are kept."""
    return _key(source, *_headers(*folders), _toolchain_key(), str(source), *more)


def _headers(*folders: Path) -> list[Path]:
    found = {
        p.resolve() for f in folders for p in f.glob("*") if p.suffix in (".cuh", ".h", ".hpp")
    }
    return sorted(found)


def stand_in() -> Path:
    """The stand-in as an object file, compiled once for a toolchain."""
    folder = cache_folder()
    key = _key(RUNTIME_SOURCE, _toolchain_key(), *CXX_FLAGS)
    target = folder / f"runtime-{key}.o"
    with locked(folder, f"runtime-{key}"):
        if not target.exists():
            includes = [f"-I{path}" for path in _include_folders()]
            made = target.with_suffix(".tmp.o")
            command = [str(cxx()), *CXX_FLAGS, *includes, "-c", str(RUNTIME_SOURCE)]
            result = run(command, out=made, read=[RUNTIME_SOURCE])
            if result.returncode != 0:
                raise ToolchainError(f"the stand-in does not compile here:\n{result.stderr}")
            made.replace(target)
    return target


def build(source: Path, given: Path) -> Program:
    """Compile a source with nvcc and link it to the stand-in.

    source: the .cu file. given: the folder of the headers that come with the exercise.
    Raises BuildError with the compiler's first errors, or with the functions that the stand-in
    lacks; ToolchainError when this machine cannot compile at all.
    """
    source, given = source.resolve(), given.resolve()
    if siblings := _siblings(source):
        program = _build_together(siblings, given)
        if program is not None:
            return Program(program, siblings.index(source))
    return Program(_build(source, [source.parent, given]))


def build_alone(source: Path, given: Path) -> Program:
    """As `build`, one source by itself; for stubs of which no two can share a program."""
    source, given = source.resolve(), given.resolve()
    return Program(_build(source, [source.parent, given]))


def write_siblings(name: str, texts: Mapping[str, str]) -> dict[str, Path]:
    """Write sources that are all called `name`, to be compiled together: text by key, file by key.

    Where they are depends on all of them, so that their programs are found again.
    """
    folder = cache_folder() / f"{SIBLINGS}{_key(name, *itertools.chain(*sorted(texts.items())))}"
    out = {key: folder / key / name for key in texts}
    with locked(cache_folder(), folder.name):
        if not folder.is_dir():
            made = folder.with_suffix(".tmp")
            for key, text in texts.items():
                (made / key).mkdir(parents=True, exist_ok=True)
                (made / key / name).write_text(text, encoding="utf-8")
            made.replace(folder)
    return out


def _siblings(source: Path) -> list[Path]:
    """The sources that were written together with this one, itself among them; none if it is alone."""
    folder = source.parent.parent
    return sorted(folder.glob(f"*/{source.name}")) if folder.name.startswith(SIBLINGS) else []


def with_siblings(source: Path, given: Path) -> tuple[Path, Program] | None:
    """A source that holds this one and its siblings, and its program; None if there is none.

    It saves one compilation for each of them. They share a program where each includes one header of the
    exercise and nothing else, and gives main() its work in a table of one name; each is in a namespace of
    its own, and main() gets the table that $LAB_VARIANT names.
    """
    source, given = source.resolve(), given.resolve()
    siblings = _siblings(source)
    if not siblings:
        return None
    texts = [path.read_text(encoding="utf-8") for path in siblings]
    headers = {tuple(re.findall(r"^#include\s+(\S+)", text, re.MULTILINE)) for text in texts}
    tables = {tuple(re.findall(TABLE, text, re.MULTILINE)) for text in texts}
    if len(headers) != 1 or len(tables) != 1:
        return None
    (header,), (table,) = headers, tables
    if len(header) != 1 or len(table) != 1 or not header[0].startswith('"'):
        return None
    (kind, name), numbers = table[0], range(len(siblings))
    lines = [f"#include {header[0]}", "#include <cstdlib>"]
    for number, path in enumerate(siblings):
        lines.append(f'namespace variant_{number} {{\n#include "{path}"\n}}')
    lines.append(f"static const {kind}& chosen_table() {{")
    lines.append('    switch (std::atoi(std::getenv("LAB_VARIANT"))) {')
    lines += [f"        case {number}: return variant_{number}::{name};" for number in numbers]
    lines.append(
        f"        default: std::abort();\n    }}\n}}\nconst {kind} {name} = chosen_table();\n"
    )
    # The siblings' text is in the name, so that a change of one is a change of the source.
    together = cache_folder() / f"tables-{_key(*siblings, *lines)}.cu"
    with locked(together.parent, together.stem):
        if not together.exists():
            made = together.with_suffix(".tmp")
            made.write_text("\n".join(lines), encoding="utf-8")
            made.replace(together)
    try:
        program = _build(together, [given])
    except BuildError:
        return None
    return together, Program(program, siblings.index(source))


def _build(source: Path, folders: list[Path]) -> Path:
    folder = cache_folder()
    name = source.stem
    key = _key(source, *_headers(*folders), RUNTIME_SOURCE, _toolchain_key(), str(source))
    target, failure = folder / f"{name}-{key}", folder / f"{name}-{key}.error"
    with locked(folder, f"{name}-{key}"):
        if failure.exists():
            raise BuildError(failure.read_text(encoding="utf-8"))
        if not target.exists():
            try:
                _compile(source, folders, target)
            except BuildError as error:
                failure.write_text(str(error), encoding="utf-8")
                raise
    return target


def _compile(source: Path, folders: list[Path], target: Path) -> None:
    compiled = target.with_suffix(".o")
    includes = [f"-I{path}" for path in folders]
    host = ["-ccbin", str(cxx())]
    command = [str(nvcc()), *NVCC_FLAGS, *host, *includes, "-c", str(source)]
    result = run(command, out=compiled, read=[source, *folders])
    if result.returncode != 0:
        raise BuildError(f"nvcc does not compile {source.name}:\n{first_errors(result)}")
    linked = target.with_suffix(".tmp")
    objects = [compiled, stand_in()]
    result = run([str(cxx()), *map(str, objects), "-ldl", "-lpthread"], out=linked, read=objects)
    compiled.unlink()
    if result.returncode != 0:
        raise BuildError(_unresolved(source, result.stderr))
    linked.replace(target)


def first_errors(result: Completed, count: int = 5) -> str:
    lines = (result.stderr + result.stdout).splitlines()
    errors = [line for line in lines if "error" in line] or lines
    return "\n".join(errors[:count])


def _unresolved(source: Path, text: str) -> str:
    """What a failed link says about the source, in words."""
    missing = sorted(set(re.findall(r"undefined reference to [`'\"]([^'\"]+)", text)))
    runtime = [name for name in missing if re.match(r"_*(cuda|cu[A-Z])\w*$", name)]
    own = [name for name in missing if name not in runtime]
    parts = []
    if runtime:
        parts.append(
            f"{source.name} calls {', '.join(runtime)}, which the recording stand-in for the CUDA "
            "runtime does not have. It follows streams, events, explicit copies, memsets, kernels "
            "and host functions; not graphs, managed or mapped memory, arrays and textures."
        )
    if own:
        parts.append(f"{source.name} leaves undefined: {', '.join(own)}")
    return "\n".join(parts) or f"{source.name} does not link:\n{text.strip()}"


def _build_together(sources: list[Path], given: Path) -> Path | None:
    """Several sources in one program, each in a namespace of its own; None if that fails.

    The variant that main() uses is read from $LAB_VARIANT.
    """
    folder = cache_folder()
    key = _key(*sources, *_headers(given), RUNTIME_SOURCE, _toolchain_key(), str(given))
    target, failed = folder / f"together-{key}", folder / f"together-{key}.failed"
    with locked(folder, f"together-{key}"):
        if target.exists() or failed.exists():
            return target if target.exists() else None
        text = ['#include "pipeline.cuh"', "#include <cstdlib>"]
        for number, source in enumerate(sources):
            text.append(f'namespace variant_{number} {{\n#include "{source}"\n}}')
        text.append(
            'static int variant() { return std::atoi(std::getenv("LAB_VARIANT")); }\n'
            "Pipeline* create_pipeline(int elements, int iterations) {\n    switch (variant()) {"
        )
        numbers = range(len(sources))
        text += [
            f"        case {n}: return reinterpret_cast<Pipeline*>("
            f"variant_{n}::create_pipeline(elements, iterations));"
            for n in numbers
        ]
        text.append(
            "        default: std::abort();\n    }\n}\n"
            "void run_pipeline(Pipeline& pipeline, int batches) {\n    switch (variant()) {"
        )
        text += [
            f"        case {n}: return variant_{n}::run_pipeline("
            f"reinterpret_cast<variant_{n}::Pipeline&>(pipeline), batches);"
            for n in numbers
        ]
        text.append(
            "    }\n}\nvoid destroy_pipeline(Pipeline* pipeline) {\n    switch (variant()) {"
        )
        text += [
            f"        case {n}: return variant_{n}::destroy_pipeline("
            f"reinterpret_cast<variant_{n}::Pipeline*>(pipeline));"
            for n in numbers
        ]
        text.append("    }\n}\n")
        together = target.with_suffix(".cu")
        together.write_text("\n".join(text), encoding="utf-8")
        try:
            _compile(together, [given], target)
        except BuildError as error:
            failed.write_text(str(error), encoding="utf-8")
            return None
    return target
