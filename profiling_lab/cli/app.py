"""The command `lab`: its list of commands, and how errors end.

Nothing here imports a command before it is called: `lab` and `lab hint` stay fast. Exit codes: 0
fine; 1 a failed check, a `--fail-on` hit or a regression; 2 bad input or usage. Every error is one
line that says what to do.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from profiling_lab import needs
from profiling_lab.cli.screen import WIDTH, fitting
from profiling_lab.errors import LabError

MOST_CHARACTERS = 4000  # of an error
# name: (module, function, one line for `lab --help`), in the order of a learner's day.
SECTIONS: dict[str, dict[str, tuple[str, str, str]]] = {
    "Learn": {
        "demo": ("reporting", "demo", "Diagnose two real captures, before and after."),
        "doctor": ("machine", "doctor", "What this machine can do, and what it means for you."),
        "check": ("checking", "check", "Check an exercise or a single task."),
        "watch": ("checking", "watch", "Check again whenever you save."),
        "hint": ("hints", "hint", "A question that helps; asked again, a stronger hint."),
        "quiz": ("quizzing", "quiz", "Interview questions about real captures."),
        "predict": (
            "predicting",
            "predict",
            "Predict what a change saves, then see what was measured.",
        ),
        "solution": ("solution", "solution", "Show the reference, once your own code passes."),
        "book": ("book", "book", "Build the course as a book of pages with live recordings."),
    },
    "Profile": {
        "diagnose": ("diagnosing", "diagnose", "Name what is wrong with a capture."),
        "compare": ("comparing", "compare", "Compare two captures; fails on a regression."),
        "report": ("reporting", "report", "Write captures and the verdict as an HTML page."),
        "mcp": ("serving", "mcp", "Serve answers about recordings to an assistant (MCP)."),
        "record": ("machine", "record", "Record the course's captures again (needs a GPU)."),
    },
    "Your work": {
        "submit": ("submit", "submit", "Pack your work for grading."),
        "reset": ("work", "reset", "Start an exercise or a task again, after a backup."),
        "update": ("work", "update", "After a pull: refresh the stubs you have not touched."),
    },
    "For authors": {
        "dev": ("dev", "dev", "Add an exercise, generate its stubs, prove it."),
    },
}
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class LabGroup(click.Group):
    """A group whose commands are imported when they are called, and whose errors are one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, function, _ = COMMANDS[cmd_name]
        return getattr(importlib.import_module(f"profiling_lab.cli.{module}"), function)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]}?" if close else "see lab --help"
            raise click.UsageError(f"no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry[2]) for name, entry in commands.items()])

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        *rest: Any,
        **extra: Any,
    ) -> Any:
        """Run a command and end the process with its exit code."""
        extra.pop("standalone_mode", None)
        prepare_streams()
        if os.environ.get("NO_COLOR"):
            extra.setdefault("color", False)
        try:
            code = super().main(args, prog_name or "lab", *rest, standalone_mode=False, **extra)
        except LabError as error:
            code = complain(str(error))
        except ModuleNotFoundError as error:
            if not (said := needs.explain(error)):
                raise
            code = complain(said)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            code = 2
        except click.UsageError as error:
            code = complain(_usage_line(error))
        except click.ClickException as error:
            code = complain(error.format_message())
        except (click.Abort, KeyboardInterrupt):
            code = complain("stopped", code=1)
        sys.exit(code if isinstance(code, int) else 0)


def _usage_line(error: click.UsageError) -> str:
    message = error.format_message().rstrip(".").replace("\n", " ")
    if error.ctx is None or "--help" in message or "did you mean" in message.lower():
        return message
    return f"{message[:1].lower()}{message[1:]}; see {error.ctx.command_path} --help"


def complain(message: str, *, code: int = 2) -> int:
    """Print an error on the error stream, as one line unless that is a terminal; returns the exit code."""
    # Here: most commands end without a complaint. Names of files may hold anything.
    from profiling_lab.reports.model import clean_text

    line = clean_text(" ".join(message.split()), MOST_CHARACTERS)
    if sys.stderr.isatty():
        line = fitting("lab: " + line).removeprefix("lab: ")
    click.echo(click.style("lab: ", fg="red", bold=True) + line, err=True)
    return code


def prepare_streams() -> None:
    """Let no character that a terminal's encoding lacks end a command (a Windows code page, say)."""
    for stream in (sys.stdout, sys.stderr):
        encoding = (getattr(stream, "encoding", "") or "").lower().replace("-", "")
        if encoding != "utf8" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


@click.group(
    cls=LabGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH},
)
@click.version_option(package_name="gpu-profiling-lab", prog_name="lab")
@click.pass_context
def lab(ctx: click.Context) -> int | None:
    """Learn GPU profiling on real captures, and diagnose your own.

    Without a command: where you are, what is next, and what this machine can do.

    \b
      uv run lab                          where am I?
      uv run lab check ex_30              is it right?
      uv run lab hint ex_30.busy_time     I am stuck
      uv run lab diagnose my_run.sqlite   what is wrong with my program?
    """
    if ctx.invoked_subcommand is None:
        # Here, as with every command: what one does not need it does not wait for.
        from profiling_lab.cli.status import show

        return show()
    return None


def main() -> None:
    """The entry point of the `lab` command."""
    lab()
