"""The pictures on the README's first screen: `lab diagnose` in a terminal and a page of `lab report`, light and dark.

    uv run --group browser scripts/pictures.py

Needs Chromium. Run it when the page or the terminal looks different; the pictures are committed.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI, TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
RECORDING = "loader_few"
COLUMNS, LINES = 92, 24
WIDTH, HEIGHT = 1280, 1000
LIGHT = TerminalTheme(
    (255, 255, 255),
    (36, 41, 47),
    [
        (36, 41, 47),
        (180, 30, 40),
        (20, 110, 50),
        (130, 85, 0),
        (9, 85, 190),
        (120, 60, 170),
        (20, 110, 120),
        (90, 96, 104),
    ],
)
# What `export_svg` writes, without the fonts that it would fetch.
FRAME = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>{styles} text {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def terminal() -> None:
    """The first lines of a diagnosis, as SVG."""
    command = [sys.executable, "-m", "profiling_lab.cli", "diagnose", RECORDING]
    said = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for scheme, theme in (("light", LIGHT), ("dark", MONOKAI)):
        console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
        console.print(Text(f"$ lab diagnose {RECORDING}", style="bold"))
        console.print(Text.from_ansi("\n".join(said.splitlines()[:LINES])))
        console.save_svg(
            str(PICTURES / f"terminal-{scheme}.svg"),
            title="lab diagnose",
            theme=theme,
            code_format=FRAME,
            unique_id="terminal",
        )


def page() -> None:
    """The first screen of the report on the same recording, as PNG."""
    from playwright.sync_api import sync_playwright  # Imported late: in the group `browser`.

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        report = Path(folder) / "report.html"
        subprocess.run(
            [sys.executable, "-m", "profiling_lab.cli", "report", RECORDING, "-o", str(report)],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
            args=["--no-sandbox"],
        )
        for scheme in ("light", "dark"):
            shown = browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme
            )
            shown.goto(report.as_uri())
            shown.wait_for_timeout(500)
            shown.screenshot(path=PICTURES / f"report-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    terminal()
    page()
