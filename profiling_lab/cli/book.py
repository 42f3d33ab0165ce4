"""`lab book`: the course as a static site."""

from __future__ import annotations

from pathlib import Path

import click

from profiling_lab.cli.screen import load_course, note_while, short


@click.command()
@click.option(
    "--output",
    "-o",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder to write; by default book, next to course.toml.",
)
@click.option("--serve", is_flag=True, help="Serve it on this machine, and build again on change.")
@click.option("--port", default=8000, show_default=True, help="Where --serve listens.")
def book(output: Path | None, serve: bool, port: int) -> int:
    """Build the course as a book: a folder of pages that you open from disk or on any static host.

    Its figures are live timelines: you can zoom, search, and select an operation.
    """
    # Here: `lab --help` needs none of it.
    from profiling_lab.book import build

    course = load_course()
    output = (output or course.root / "book").resolve()
    with note_while("building the book"):
        complaints = build.build(course, output)
    for line in complaints:
        click.echo(line, err=True)
    size = sum(file.stat().st_size for file in output.rglob("*") if file.is_file()) / 1e6
    click.echo(
        f"{short(output / 'index.html')}  {size:.0f} MB, works offline and on any static host"
    )
    if serve:
        click.echo(f"http://127.0.0.1:{port}/  built again when a page changes; Ctrl+C ends it")
        build.serve(course, output, port)
    return 1 if complaints else 0
