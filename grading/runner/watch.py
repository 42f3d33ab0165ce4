"""`lab watch`: re-checks what was changed, at every save, and shows the first thing to fix.

Started by `lab watch` as `python -m grading.runner.watch [ID]`. Checks run in children forked from a
template that has the libraries loaded, so a verdict follows a save within half a second.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from grading.runner import alike
from grading.runner.forkserver import ForkServer
from profiling_lab.cli import hints
from profiling_lab.cli.app import complain, prepare_streams
from profiling_lab.cli.checking import configuration, selection
from profiling_lab.cli.screen import LAB, bold, dim, find, load_course, short, width, wrap
from profiling_lab.cli.status import next_task, say_waiting
from profiling_lab.course import closure, progress
from profiling_lab.course.doctor import capabilities
from profiling_lab.course.manifest import Course, Task, is_todo
from profiling_lab.errors import LabError

SETTLE_MS = 50  # editors save in several steps
GROUP_MS = 200
MESSAGE_LINES = 12
STYLES = {"passed": "green", "failed": "red", "blocked": "yellow", "todo": "cyan"}
KEYS = "h hint   n next task   a all again   q quit"


@dataclass
class Recheck:
    """One run: outcomes and messages by task, how long it took, and what pytest printed."""

    outcomes: dict[str, str] = field(default_factory=dict)
    messages: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0
    output: str = ""
    trouble: str = ""

    def joined(self, other: Recheck, order: Iterable[str]) -> Recheck:
        """This run and a later one together, the tasks in the given order."""
        outcomes = {**self.outcomes, **other.outcomes}
        return Recheck(
            {name: outcomes[name] for name in order if name in outcomes},
            {**self.messages, **other.messages},
            {**self.counts, **other.counts},
            self.seconds,
            other.output,
            self.trouble or other.trouble,
        )

    def first_failing(self) -> str | None:
        """The first task, in the order of the course, that failed."""
        return next((name for name, o in self.outcomes.items() if o == "failed"), None)


class Watcher:
    """Knows the files that are watched, what was in them, and how to check what changed.

    tasks: those to watch; live ones are left to `lab check --live`.
    """

    def __init__(self, course: Course, tasks: Iterable[Task], server: ForkServer) -> None:
        self.course = course
        self.tasks = [task for task in tasks if not task.live]
        self.files = {course.root / task.stub: task.stub for task in self.tasks}
        self.sources = {file: _read(file) for file in self.files}
        self.verdicts = progress.verdicts(course)
        self.pending: list[Task] = []
        self.broken: set[Path] = set()  # files that do not parse; `sources` holds what last did
        self._server = server

    def changed(self, files: Iterable[Path]) -> list[Task]:
        """The tasks to check at once after files were written; the rest goes to `pending`.

        At once: those whose own functions changed; else one of those that may be affected. The
        verdicts on tasks that do not use what changed still hold, and are kept.
        """
        first: list[Task] = []
        later: list[Task] = []
        held: list[Task] = []
        for file in files:
            if file not in self.files:
                continue
            source = _read(file)
            tasks = [task for task in self.tasks if self.course.root / task.stub == file]
            if file.suffix == ".py" and not _parses(source):
                # One check says what is wrong; what was known before holds again once it parses.
                self.broken.add(file)
                first += _best_begun(tasks, self.verdicts)
                continue
            was_broken = file in self.broken
            self.broken.discard(file)
            before, self.sources[file] = self.sources[file], source
            if before == source and not was_broken:
                continue
            if file.suffix != ".py":
                first += tasks
                continue
            names, others = affected(before, source, {task.name for task in tasks})
            first += [task for task in tasks if task.name in names]
            later += [task for task in tasks if task.name in others]
            held += [task for task in tasks if task.name not in names | others]
            if was_broken and not names | others:
                first += _best_begun(tasks, self.verdicts)
        self._hold(held)
        waiting = {task.id for task in [*self.pending, *later]} - {task.id for task in first}
        self.pending = [task for task in self.tasks if task.id in waiting]
        if not first and self.pending:
            first.append(self.pending.pop(0))
        return first

    def take_pending(self) -> list[Task]:
        """The tasks that wait for a moment without a save, those to do left out."""
        tasks = [task for task in self.pending if not is_todo(task, self.course.root)]
        self.pending = []
        return tasks

    def _hold(self, tasks: list[Task]) -> None:
        """Keep verdicts that were known before the file changed."""
        known = {
            task.id: self.verdicts[task.id]
            for task in tasks
            if self.verdicts[task.id].outcome in ("passed", "failed")
        }
        outcomes = {name: (v.outcome, [v.message]) for name, v in known.items()}
        if outcomes:
            progress.update(self.course, outcomes, complete=set(outcomes))

    def check(self, tasks: list[Task]) -> Recheck:
        """Run the checks of tasks on the learner's own files."""
        arguments = selection(self.course, tasks)
        if not arguments:
            return Recheck(trouble="no checks for what changed")
        with tempfile.TemporaryDirectory(prefix="lab_") as scratch:
            score = Path(scratch) / "score.json"
            result = self._server.run(
                [
                    *arguments,
                    *("-q", "--tb=no", "--no-header", "--color=no"),
                    *configuration(self.course),
                    *("-p", "no:cacheprovider"),
                    *("--score-json", str(score)),
                ],
                cwd=self.course.root,
            )
            if not score.is_file():
                return Recheck(
                    seconds=result.seconds, output=result.output, trouble=_trouble(result)
                )
            scored = json.loads(score.read_text(encoding="utf-8"))["tasks"]
        fresh = progress.verdicts(self.course)
        for name, task in self.course.tasks.items():
            if self.course.root / task.stub not in self.broken:
                self.verdicts[name] = fresh[name]
        out = Recheck(seconds=result.seconds, output=result.output)
        for task in self.tasks:
            if task.id not in scored:
                continue
            row = scored[task.id]
            out.outcomes[task.id] = row["outcome"]
            checks = row["checks"]
            out.counts[task.id] = (sum(c["outcome"] == "passed" for c in checks), len(checks))
            out.messages[task.id] = [
                (c["name"], c["message"]) for c in checks if c["outcome"] == row["outcome"]
            ]
        return out


def _trouble(result: Any) -> str:
    if result.exit_code < 0:
        return f"your code ended the whole process (signal {-result.exit_code})"
    lines = [line for line in result.output.strip().splitlines() if line.strip()]
    last = lines[-1] if lines else "no output"
    return f"the checks ended early (exit code {result.exit_code}): {last}"


def affected(before: str, after: str, tasks: set[str]) -> tuple[set[str], set[str]]:
    """The task functions that a change is in, and the others whose verdict it may alter.

    Where a source does not parse that cannot be told: all of them, none apart.
    """
    try:
        names = closure.changed(before, after)
        all_names = closure.users(after, names) if names else set()
    except (SyntaxError, ValueError):
        return set(), set(tasks)
    return names & tasks, (all_names - names) & tasks


def _parses(source: str) -> bool:
    try:
        closure.definitions(source)
    except (SyntaxError, ValueError):
        return False
    return True


def _best_begun(tasks: list[Task], verdicts: dict[str, progress.Verdict]) -> list[Task]:
    """One task to check for the sake of its file: a begun one where there is one."""
    begun = [task for task in tasks if verdicts[task.id].outcome != "todo"]
    return (begun or tasks)[:1]


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# -- the screen ---------------------------------------------------------------------------------


class Screen:
    """What `lab watch` shows; keeps the task in focus, for the keys."""

    def __init__(self, watcher: Watcher, *, clears: bool) -> None:
        self.watcher = watcher
        self.clears = clears
        self.focus: Task | None = None

    def show(self, result: Recheck) -> None:
        """The outcome of a run: a line a task, the first failing message, the next step."""
        self._clear()
        course = self.watcher.course
        for name, outcome in result.outcomes.items():
            passed, count = result.counts[name]
            mark = click.style(f"{outcome:<8}", fg=STYLES.get(outcome))
            click.echo(f"  {mark} {name:<34} {passed} of {count} checks")
            if outcome == "not run" and result.messages.get(name):
                _show_message(result.messages[name][0][1])
        if result.trouble:
            click.echo(click.style(wrap(result.trouble, "  "), fg="red"))
        failing = result.first_failing()
        if failing is not None:
            self.focus = course.tasks[failing]
            name, message, cases = alike.folded(result.messages[failing])[0]
            click.echo()
            click.echo(bold(f"  {name}"))
            _show_message("\n".join([message, *([alike.further(cases)] if cases else [])]))
        else:
            rest = [n for n, o in result.outcomes.items() if o not in ("passed", "not run")]
            self.focus = course.tasks[rest[0]] if rest else self._next()
        click.echo(dim(f"  checked in {result.seconds:.2f} s"))
        self.show_next()

    def show_next(self) -> None:
        """Points so far and the step that comes next."""
        course = self.watcher.course
        verdicts = progress.verdicts(course)
        click.echo()
        click.echo(f"  {progress.points(course, verdicts)}")
        if self.focus is None:
            if not say_waiting(course, verdicts, "  "):
                click.echo(bold("  All of it has its points."))
        else:
            task = self.focus
            click.echo(bold(f"  Next: {task.id}") + f"  {task.title}")
            what = "the TODO" if task.is_cuda else task.name
            click.echo(f"        write {what} in {short(course.root / task.stub)}")
            click.echo(f"        stuck? {LAB} hint {task.id}")

    def move_on(self) -> None:
        """Put the next open task after the one in focus into focus."""
        self._clear()
        self.focus = self._next(after=self.focus)
        self.show_next()

    def hint(self) -> None:
        """Show the hint for the task in focus, a stronger one each time."""
        if self.focus is None:
            return
        self._clear()
        try:
            hints.show(self.watcher.course, self.focus)
        except LabError as error:
            complain(str(error))

    def _next(self, after: Task | None = None) -> Task | None:
        verdicts = progress.verdicts(self.watcher.course)
        can = capabilities()
        tasks = self.watcher.tasks
        start = tasks.index(after) + 1 if after in tasks else 0
        for task in [*tasks[start:], *tasks[:start]]:
            if task.needs <= can and verdicts[task.id].outcome not in ("passed", "not run"):
                return task
        return next_task(self.watcher.course, verdicts)

    def _clear(self) -> None:
        if self.clears:
            click.clear()
        else:
            click.echo()


def _show_message(message: str) -> None:
    lines = message.strip().splitlines()
    for line in lines[:MESSAGE_LINES]:
        room = width() - 4
        if len(line) > room and line.lstrip() == line:
            click.echo(wrap(line, "    "))
        else:
            click.echo(f"    {line}")
    if len(lines) > MESSAGE_LINES:
        click.echo(dim(f"    … {len(lines) - MESSAGE_LINES} more lines: {LAB} check"))


# -- events -------------------------------------------------------------------------------------


def watch_files(watcher: Watcher, events: queue.Queue, stop: threading.Event) -> None:
    """Put ("changed", files) for every save of a watched file, until `stop` is set."""
    import watchfiles

    wanted = {str(file.resolve()): file for file in watcher.files}
    folders = {file.parent.resolve() for file in watcher.files}
    try:
        for changes in watchfiles.watch(
            *[folder for folder in folders if folder.is_dir()],
            watch_filter=lambda _, path: path in wanted,
            step=SETTLE_MS,
            debounce=GROUP_MS,
            stop_event=stop,
            recursive=False,
            raise_interrupt=False,
        ):
            events.put(("changed", sorted({wanted[path] for _, path in changes})))
    except Exception as error:  # noqa: BLE001 - a thread that dies silently would watch nothing
        events.put(("trouble", f"cannot watch the files: {error}"))


@contextlib.contextmanager
def single_keys() -> Iterator[bool]:
    """Let keys arrive one at a time, without Enter; False where standard input is no terminal."""
    if not sys.stdin.isatty():
        yield False
        return
    if sys.platform == "win32":
        yield True
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield True
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def watch_keys(events: queue.Queue, stop: threading.Event) -> None:
    """Put ("key", character) for every key, until `stop` is set."""
    while not stop.is_set():
        if sys.platform == "win32":
            import msvcrt

            if msvcrt.kbhit():
                events.put(("key", msvcrt.getwch()))
            else:
                time.sleep(0.05)
            continue
        ready, _, _ = select.select([sys.stdin], [], [], 0.2)
        if ready:
            character = os.read(sys.stdin.fileno(), 1).decode("ascii", "replace")
            events.put(("key", character or "q"))


def watch_reader(events: queue.Queue, stop: threading.Event) -> None:
    """Put ("stop", None) once nobody reads standard output any more, until `stop` is set."""
    reader = select.poll()
    reader.register(sys.stdout, 0)  # nothing is asked for but what is always told: a closed end
    while not stop.is_set():
        if reader.poll(200):  # ms
            events.put(("stop", None))
            return


def run(watcher: Watcher, screen: Screen, events: queue.Queue) -> None:
    """Handle events until one says to stop."""
    while True:
        kind, value = events.get()
        if kind == "changed":
            tasks = watcher.changed(value)
            if tasks:
                result = watcher.check(tasks)
                screen.show(result)
                if events.empty() and (more := watcher.take_pending()):
                    click.echo(dim(f"  checking {len(more)} more that use it …"))
                    sys.stdout.flush()
                    order = [task.id for task in watcher.tasks]
                    screen.show(result.joined(watcher.check(more), order))
        elif kind == "trouble":
            complain(value)
            return
        elif kind == "stop" or value in ("q", "Q", "\x03", "\x04"):
            return
        elif value == "h":
            screen.hint()
        elif value == "n":
            screen.move_on()
        elif value == "a":
            screen.show(watcher.check(watcher.tasks))
        else:
            continue
        if kind != "stop" and screen.clears:
            click.echo()
            click.echo(dim(f"  {KEYS}"))


def begin(watcher: Watcher, screen: Screen) -> None:
    """The first screen: what is begun is checked, else the first task is shown."""
    verdicts = progress.verdicts(watcher.course)
    begun = [task for task in watcher.tasks if verdicts[task.id].outcome not in ("todo", "passed")]
    if begun:
        click.echo(dim(f"  checking the {len(begun)} tasks that you have begun …"))
        sys.stdout.flush()
        screen.show(watcher.check(begun))
    else:
        screen.move_on()
    names = ", ".join(short(file) for file in watcher.files)
    click.echo()
    click.echo(wrap(f"Watching {names}; save to check.", "  "))
    if screen.clears:
        click.echo(dim(f"  {KEYS}"))
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Watch the tasks that an id names, or all; returns the exit code."""
    prepare_streams()
    try:
        course = load_course()
        tasks = find(course, arguments[0])[1] if arguments else list(course.tasks.values())
    except LabError as error:
        return complain(str(error))
    events: queue.Queue = queue.Queue()
    stop = threading.Event()
    with ForkServer(parallel=1) as server, single_keys() as has_keys:
        watcher = Watcher(course, tasks, server)
        screen = Screen(watcher, clears=has_keys and sys.stdout.isatty())
        threads = [threading.Thread(target=watch_files, args=(watcher, events, stop), daemon=True)]
        if has_keys:
            threads.append(threading.Thread(target=watch_keys, args=(events, stop), daemon=True))
        if hasattr(select, "poll"):  # not on Windows, where the next line that is written tells
            threads.append(threading.Thread(target=watch_reader, args=(events, stop), daemon=True))
        for thread in threads:
            thread.start()
        try:
            server.start()
            begin(watcher, screen)
            run(watcher, screen, events)
        except KeyboardInterrupt:
            pass
        except BrokenPipeError:  # whoever read has gone: there is nobody to tell
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        finally:
            stop.set()
            for thread in threads:
                thread.join(1.0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
