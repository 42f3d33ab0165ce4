"""Make the notebooks of the course, each from one readable source, with what its cells show.

    uv run python scripts/notebooks.py [--write] [NAME…]

Without --write it says which notebooks differ from their sources, running nothing; with it, it runs
the named ones (all of them) and writes them. A source, `scripts/lesson_sources/notebooks/NAME.py`, is
in jupytext's percent format, so an editor runs it cell by cell and ruff reads it. Two things are added:

- `{{ expression }}` in a text cell is replaced by its value at that place of the run, so no number is
  typed. It may use the notebook's names and what expressions of lessons may (`lesson_figures.py`).
- A code cell that draws begins with `# figure: …`, what is to be seen; it becomes the picture's
  alternative text.

All notebooks run one after the other in one process, cleared in between. Execution times, random ids
and the like are left out, and pictures keep few colours, so the same captures give the same file.
"""

from __future__ import annotations

import argparse
import base64
import copy
import hashlib
import io
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "scripts" / "lesson_sources" / "notebooks"
FILE = "lesson.ipynb"
# source → the notebook's folder
NOTEBOOKS = {
    "day1": "week07/day1_nsight_systems",
    "day2": "week07/day2_nsight_compute",
    "day3": "week07/day3_pytorch_profiler",
    "day4": "week07/day4_bottleneck_analysis",
    "day5": "week07/day5_end_to_end",
    "nsight_systems": "modules/01-nsight-systems",
    "nsight_compute": "modules/02-nsight-compute",
    "pytorch_profiler": "modules/03-pytorch-profiler",
    "energy": "modules/04-energy-profiling",
    "advanced_nsight": "modules/05-advanced-nsight",
    "scaling": "modules/05-scaling-benchmarks",
    "triton": "modules/triton-profiling",
}
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
MARK = "written"  # in the metadata of a notebook
CELL_SECONDS = 300  # a guard against hangs
COLOURS = 128  # of a stored picture

EXPRESSION = re.compile(r"\{\{(.+?)\}\}", re.DOTALL)
FIGURE = re.compile(r"((?:^#.*\n?)+)")
PNG = "image/png"

_CLEAR = """\
%reset -f
import matplotlib as _m, matplotlib.pyplot as _p, os as _o
_p.close("all"); _m.rcdefaults(); _o.chdir({folder!r})
del _m, _p, _o"""
# Evaluated in the kernel, beside the notebook's names and not among them.
_VALUES = """\
import sys as _s
if {root!r} not in _s.path: _s.path.insert(0, {root!r})
from scripts import notebooks as _n
_n.print_values({expressions!r}, globals())
del _n, _s"""


def file_of(name: str) -> Path:
    """Where a notebook lies."""
    return ROOT / NOTEBOOKS[name] / FILE


def read(name: str) -> Any:
    """The notebook that a source gives, before it has run: expressions stand in its text."""
    import jupytext

    text = (SOURCES / f"{name}.py").read_text(encoding="utf-8")
    notebook: Any = jupytext.reads(text, fmt="py:percent")
    notebook.metadata = _node(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"{name.replace('_', '-')}-{number:02}"
        cell.metadata = _node({})
    return notebook


def _node(value: Any) -> Any:
    import nbformat

    return nbformat.from_dict(value)


def run(names: list[str], *, small: bool = True) -> dict[str, Any]:
    """The notebooks after they have run, with what their cells show; small: pictures of few colours.

    Raises RuntimeError that names the notebook and the cell, and holds the message, if one fails.
    """
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell, new_notebook

    notebooks = {name: read(name) for name in names}
    everything = new_notebook(metadata=_node(METADATA))
    asked = []  # per text cell with expressions: (cell, the code cell that computes them)
    for name, notebook in notebooks.items():
        everything.cells.append(
            new_code_cell(_CLEAR.format(folder=str(file_of(name).parent)), id=f"{name}-clear")
        )
        for cell in notebook.cells:
            if cell.cell_type == "code":
                everything.cells.append(cell)
            elif expressions := EXPRESSION.findall(cell.source):
                code = _VALUES.format(expressions=[e.strip() for e in expressions], root=str(ROOT))
                asked.append((cell, new_code_cell(code, id=f"{cell.id}-text")))
                everything.cells.append(asked[-1][1])
    # Over local sockets where there are any: no port is opened.
    transport = "tcp" if sys.platform == "win32" else "ipc"
    # What a cell prints may come in pieces, which differ from run to run.
    client = NotebookClient(
        everything, timeout=CELL_SECONDS, allow_errors=True, coalesce_streams=True
    )
    client.create_kernel_manager().transport = transport
    client.execute(cwd=str(ROOT))
    raise_errors(everything)
    for cell, code in asked:
        values = iter(json.loads("".join(output.text for output in code.outputs)))
        cell.source = EXPRESSION.sub(lambda _, values=values: next(values), cell.source)
    for notebook in notebooks.values():
        _tidy(notebook, small)
    return notebooks


@cache
def _names() -> dict[str, Any]:
    from scripts.lesson_figures import namespace

    return namespace()


def print_values(expressions: list[str], own: dict[str, Any]) -> None:
    """Print the values of expressions as a JSON list; own: the notebook's names."""
    names = _names() | own
    print(json.dumps([str(eval(expression, names)) for expression in expressions]))  # noqa: S307


def raise_errors(everything: Any) -> None:
    """Raise RuntimeError for the first cell that failed: its id, the error, and its code."""
    for cell in everything.cells:
        for output in cell.outputs:
            if output.output_type == "error":
                raise RuntimeError(
                    f"{cell.id}: {output.ename}: {output.evalue:.500}\n{cell.source:.500}"
                )


def _tidy(notebook: Any, small: bool) -> None:
    """Leave out what changes from run to run, and say in words what pictures show."""
    number = 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        number += 1
        cell.execution_count = number
        cell.metadata = _node({})
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number
            if PNG in output.get("data", {}):
                picture = output.data[PNG]
                output.data = _node({PNG: _smaller(picture) if small else picture})
                output.metadata = _node({PNG: {"alt": alternative_text(cell)}})


def alternative_text(cell: Any) -> str:
    """What the comment at the head of a cell says that its figure shows; "" without one."""
    found = FIGURE.match(cell.source)
    words = " ".join(re.sub(r"^# ?", "", found[1], flags=re.MULTILINE).split()) if found else ""
    return words.removeprefix("figure: ") if words.startswith("figure: ") else ""


def _smaller(picture: str) -> str:
    """A PNG, as base64, with few colours."""
    from PIL import Image

    out = io.BytesIO()
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    image.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
        out, format="PNG", optimize=True
    )
    return base64.b64encode(out.getvalue()).decode("ascii") + "\n"


def text_of(notebook: Any) -> str:
    """A notebook as its file holds it, with a mark that tells whether somebody changed it since."""
    import nbformat

    notebook.metadata[MARK] = _mark(notebook)
    return nbformat.writes(notebook, version=nbformat.NO_CONVERT) + "\n"


def is_as_written(notebook: Any) -> bool:
    """Whether nobody ran, edited or saved a notebook since it was written here: readers may."""
    return notebook.metadata.get(MARK) == _mark(notebook)


def _mark(notebook: Any) -> str:
    import nbformat

    bare = copy.deepcopy(notebook)
    bare.metadata.pop(MARK, None)
    text = nbformat.writes(bare, version=nbformat.NO_CONVERT)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def committed(name: str) -> Any:
    """The notebook as it lies in its folder."""
    import nbformat

    return nbformat.read(file_of(name), as_version=nbformat.NO_CONVERT)


def matches_source(notebook: Any, source: Any) -> str:
    """What of a notebook is not as its source says, in words; "" if all is. Values count as equal."""
    if len(notebook.cells) != len(source.cells):
        return f"has {len(notebook.cells)} cells, its source has {len(source.cells)}"
    for number, (have, want) in enumerate(zip(notebook.cells, source.cells, strict=True), 1):
        pattern = "(.+?)".join(map(re.escape, EXPRESSION.split(want.source)[::2]))
        if have.cell_type != want.cell_type or have.id != want.id:
            return f"cell {number} is another one"
        if not re.fullmatch(pattern, have.source, re.DOTALL):
            return f"cell {number} has another text"
    return ""


def shown(notebook: Any) -> list[Any]:
    """What a notebook's text says and its cells show; of a picture, that there is one."""
    return [
        [cell.source]
        + [
            [PNG] if PNG in output.get("data", {}) else dict(output)
            for output in cell.get("outputs", [])
        ]
        for cell in notebook.cells
    ]


def main() -> int:
    """Compare, or run and write, the notebooks."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="run the notebooks and write them")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NOTEBOOKS))
    arguments = parser.parse_args()
    names = arguments.names or list(NOTEBOOKS)
    if arguments.write:
        for name, notebook in run(names).items():
            text = text_of(notebook)
            file_of(name).write_text(text, encoding="utf-8")
            print(f"{NOTEBOOKS[name]}/{FILE}: written, {len(text):,} bytes")
        return 0
    differ = 0
    for name in names:
        there = file_of(name).is_file()
        if why := matches_source(committed(name), read(name)) if there else "is missing":
            differ += 1
            print(f"{NOTEBOOKS[name]}/{FILE}: {why}; write it with --write {name}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
