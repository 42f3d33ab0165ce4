"""`lab mcp`: answers about recordings for an assistant."""

from __future__ import annotations

import click

from profiling_lab import needs
from profiling_lab.cli import verdicts


@click.command("mcp")
@click.argument("places", metavar="PLACE...", nargs=-1, required=True)
def mcp(places: tuple[str, ...]) -> int:
    """Serve answers about recordings to an assistant (MCP over stdin, stdout).

    PLACE is a file or a folder. The assistant can ask only about recordings
    there. The server only reads. It gives the verdict, the two tables
    of time, top kernels and operators, a comparison, and the events of a
    span. Answers are limited in length; names from recordings are marked as
    untrusted.

    \b
    The SDK:   uv sync --inexact --group assistants
    Settings:  command "uv", arguments ["run", "--directory", "THE CLONE",
               "--group", "assistants", "lab", "mcp", "MY_RECORDINGS"]

    \b
      uv run lab mcp my_run.sqlite
      uv run lab mcp recordings/
    """
    needs.module("mcp")
    verdicts.engine()
    # Here: without the engine, or the SDK, there is nothing to serve.
    from profiling_lab.assistants import server

    server.build(places).run("stdio")
    return 0
