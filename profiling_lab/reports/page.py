"""One HTML page that holds everything it needs.

Names in it come from profiled programs and are not trusted: the template escapes all of them, the
data block is JSON that cannot close its own element, scripts set text and never markup, and the
page's policy lets no script run but the two that are shipped here, and nothing be fetched.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiling_lab import units
from profiling_lab.atomic_files import replaced
from profiling_lab.reports import timeline_data, views
from profiling_lab.reports.model import CaptureSection, Comparison, clean_text, sentence

if TYPE_CHECKING:
    import jinja2

HERE = Path(__file__).parent
UPLOT = HERE / "vendor" / "uplot"
FLAME = HERE / "vendor" / "d3-flame-graph"

LINKED = ("report.css", "theme.js", "report.js", "uplot.js")
FINDINGS_SHOWN = 3  # of a capture; the rest is folded away


def write_report(
    path: str | os.PathLike[str],
    sections: Sequence[CaptureSection],
    *,
    title: str,
    comparison: Comparison | None = None,
) -> Path:
    """Write the report to `path` (folders are made) and return the path.

    The page replaces an older one in one step, so a reader never sees half of it. Raises OSError
    where the place cannot be written.
    """
    return write(path, render_report(sections, title=title, comparison=comparison))


def write(path: str | os.PathLike[str], page: str) -> Path:
    """Write a page to `path` in one step (folders are made) and return the path."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replaced(target) as draft:
        draft.write_text(page, encoding="utf-8")
    return target


def write_linked_files(folder: Path) -> None:
    """Write what reports with `linked` share: LINKED, to the folder that they lie in."""
    uplot_script, uplot_style = _vendored()
    templates = HERE / "templates"
    texts = {name: (templates / name).read_text(encoding="utf-8") for name in LINKED[1:3]}
    texts |= {"uplot.js": uplot_script}
    texts["report.css"] = uplot_style + (templates / "report.css").read_text(encoding="utf-8")
    for name in LINKED:
        write(folder / name, texts[name])


def render_report(
    sections: Sequence[CaptureSection],
    *,
    title: str,
    comparison: Comparison | None = None,
    linked: bool = False,
) -> str:
    """The page as text; linked: with scripts and style beside it (`write_linked_files`), not in it."""
    uplot_script, uplot_style = _vendored()
    shown = [views.view(index, section) for index, section in enumerate(sections)]
    looks = views.looks(sections)
    # A page with linked scripts shows parts of itself elsewhere; this is none of them.
    flames = {index: one.flame for index, one in enumerate(sections) if one.flame and not linked}
    return render(
        "report.html.j2",
        ["theme.js", "report.js"],
        ["report.css"],
        title=clean_text(title),
        sections=shown,
        comparison=comparison,
        looks=looks,
        shares=views.share_table(shown, looks),
        charts=[view for view in shown if view["drawn"]],
        longest_ns=max((section.duration_ns for section in sections), default=0),
        kinds=views.legend(sections),
        topics=list(dict.fromkeys(table.topic for one in sections for table in one.tables)),
        findings_shown=FINDINGS_SHOWN,
        has_timeline=any(section.lanes or section.metrics for section in sections),
        data=_script_json(timeline_data.payload(sections)),
        uplot_script=uplot_script,
        uplot_style=uplot_style,
        flames=flames,
        flames_data=_script_json(flames),
        flame_library_script=_flame_library() if flames else "",
        flame_script=(HERE / "templates" / "flame.js").read_text("utf-8") if flames else "",
        linked=LINKED if linked else (),
    )


def render(template: str, scripts: Sequence[str], styles: Sequence[str], **given: Any) -> str:
    """A page from a template of this folder, as text; its policy lets no other script run.

    scripts, styles: files of this folder, given to the template by their name ("theme.js" as
    `theme_js`). given: the rest of what the template names; a value that ends in `_script` may run too.
    """
    files = {
        name.replace(".", "_"): (HERE / "templates" / name).read_text(encoding="utf-8")
        for name in (*scripts, *styles)
    }
    allowed = [files[name.replace(".", "_")] for name in scripts]
    allowed += [text for name, text in given.items() if name.endswith("_script") and text]
    policy = _policy(*allowed, linked=bool(given.get("linked")))
    page = _environment().get_template(template).render(policy=policy, **files, **given)
    # Text that UTF-8 cannot hold must not stop the report.
    return page.encode("utf-8", "replace").decode("utf-8")


@functools.cache  # it compiles a template once, which takes as long as making two reports
def _environment() -> jinja2.Environment:
    import jinja2
    import markupsafe

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        clean=clean_text,
        quantity=lambda value, unit: clean_text(units.format_quantity(value, unit)),
        full=lambda value, unit: clean_text(units.full_value(value, unit)),
        ns=units.format_ns,
        words=lambda slug: clean_text(str(slug)).replace("_", " "),
        sentence=sentence,
        # Names break behind their underscores, and not in a word.
        breaking=lambda text: markupsafe.Markup("_<wbr>").join(str(text).split("_")),
    )
    return environment


def _script_json(data: Any) -> Any:
    """JSON that is safe inside a script element, whatever its strings hold."""
    import markupsafe

    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return markupsafe.Markup(text)


# -- what is shipped in the page -----------------------------------------------------------------


def _vendored() -> tuple[str, str]:
    """uPlot's script and style. Its banner, an address, gives way to its whole licence."""
    script = (UPLOT / "uPlot.iife.min.js").read_text(encoding="utf-8")
    script = re.sub(r"\A/\*!.*?\*/\s*", "", script, flags=re.DOTALL)
    licence = (UPLOT / "LICENSE").read_text(encoding="utf-8").replace("*/", "* /")
    style = (UPLOT / "uPlot.min.css").read_text(encoding="utf-8")
    return f"/*! uPlot 1.6.32\n{licence}*/\n{script}", style


def _flame_library() -> str:
    """d3-flame-graph with what it needs of D3, below their licences."""
    licence = (FLAME / "LICENSE").read_text(encoding="utf-8").replace("*/", "* /")
    return f"/*!\n{licence}*/\n" + (FLAME / "flame.iife.min.js").read_text(encoding="utf-8")


def _policy(*scripts: str, linked: bool = False) -> str:
    """The page's content security policy: these scripts, its own styles, and nothing else.

    linked: they are files of the same place, a host's or a disk's.
    """
    hashes = " ".join(
        "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
        for text in scripts
    )
    files = " 'self' file:" if linked else ""
    return (
        f"default-src 'none'; script-src {files or hashes}; style-src 'unsafe-inline'{files}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
