"""The notebooks of the course, `lesson.ipynb`, each from one readable source, with what its cells show.

A source, `notebook.py` in its place, is in jupytext's percent format, so an editor runs it cell by cell and
ruff reads it. Two things are added:

- `{{ expression }}` in a text cell is replaced by its value at that place of the run, so no number is
  typed. It may use the notebook's names and what expressions of pages may (`pages.py`).
- A code cell that draws begins with `# figure: …`, what is to be seen; it becomes the picture's
  alternative text.

All notebooks run one after the other in one process, cleared in between. Execution times, random ids
and the like are left out, and pictures keep few colours, so the same captures give the same file.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from profiling_lab import needs
from scripts.lesson_parts.pages import EXPRESSION, namespace
from scripts.lesson_sources import SOURCES
from scripts.lesson_sources.drawing import ROOT

FILE = "lesson.ipynb"
COMMAND = f"uv run --group {needs.GROUPS['jupyterlab']} jupyter lab"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
MARK = "written"  # in the metadata of a notebook
CELL_SECONDS = 300  # a guard against hangs
COLOURS = 128  # of a stored picture

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
from scripts.lesson_parts import notebooks as _n
_n.print_values({expressions!r}, {place!r}, globals())
del _n, _s"""


def made() -> list[Path]:
    """The notebooks, in the tree of the course."""
    sources = SOURCES.rglob("notebook.py")
    return sorted(ROOT / file.parent.relative_to(SOURCES) / FILE for file in sources)


def read(file: Path) -> Any:
    """The notebook that its source gives, before it has run: expressions stand in its text."""
    import jupytext

    place = file.parent.relative_to(ROOT)
    text = (SOURCES / place / "notebook.py").read_text(encoding="utf-8")
    notebook: Any = jupytext.reads(text, fmt="py:percent")
    notebook.metadata = _node(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"{place.name}-{number:02}"
        cell.metadata = _node({})
    notebook.cells[0].source += f"\n\nTo run it: `{COMMAND} {place.as_posix()}/{FILE}`"
    return notebook


def _node(value: Any) -> Any:
    import nbformat

    return nbformat.from_dict(value)


def run(files: Iterable[Path], *, small: bool = True) -> dict[Path, Any]:
    """The notebooks after they have run, with what their cells show; small: pictures of few colours.

    Raises RuntimeError that names the notebook and the cell, and holds the message, if one fails.
    """
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell, new_notebook

    notebooks = {file: read(file) for file in files}
    everything = new_notebook(metadata=_node(METADATA))
    asked = []  # per text cell with expressions: (cell, the code cell that computes them)
    for file, notebook in notebooks.items():
        place = file.parent.relative_to(ROOT)
        everything.cells.append(
            new_code_cell(_CLEAR.format(folder=str(file.parent)), id=f"{place.name}-clear")
        )
        for cell in notebook.cells:
            if cell.cell_type == "code":
                everything.cells.append(cell)
            elif expressions := EXPRESSION.findall(cell.source):
                code = _VALUES.format(
                    expressions=[e.strip() for e in expressions],
                    place=place.as_posix(),
                    root=str(ROOT),
                )
                asked.append((cell, new_code_cell(code, id=f"{cell.id}-text")))
                everything.cells.append(asked[-1][1])
    # What a cell prints may come in pieces, which differ from run to run.
    client = NotebookClient(
        everything, timeout=CELL_SECONDS, allow_errors=True, coalesce_streams=True
    )
    manager = client.create_kernel_manager()
    with tempfile.TemporaryDirectory() as sockets:
        if sys.platform != "win32":  # over local sockets: no port is opened
            manager.transport, manager.ip = "ipc", f"{sockets}/kernel"
        client.execute(cwd=str(ROOT))
    raise_errors(everything)
    for cell, code in asked:
        values = iter(json.loads("".join(output.text for output in code.outputs)))
        cell.source = EXPRESSION.sub(lambda _, values=values: next(values), cell.source)
    for notebook in notebooks.values():
        _tidy(notebook, small)
    return notebooks


def print_values(expressions: list[str], place: str, own: dict[str, Any]) -> None:
    """Print the values of expressions as a JSON list; own: the notebook's names."""
    names = namespace(place) | own
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


def committed(file: Path) -> Any:
    """The notebook as it lies in its folder."""
    import nbformat

    return nbformat.read(file, as_version=nbformat.NO_CONVERT)


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


def difference(file: Path) -> str:
    """What of a notebook is not as its source says, in words; it is not run: "" if all is."""
    return matches_source(committed(file), read(file)) if file.is_file() else "is missing"


def write(files: list[Path]) -> None:
    """Run notebooks and write them with what their cells show."""
    for file, notebook in run(files).items() if files else ():
        file.write_text(text_of(notebook), encoding="utf-8", newline="\n")
