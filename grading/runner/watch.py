"""`lab watch`: re-checks what was changed, at every save, and shows the first thing to fix.

Started by `lab watch` as `python -m grading.runner.watch [ID]`. Checks run in children forked from a
template that has the libraries loaded, so a verdict follows a save within half a second.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import sys
import threading
import time
from collections.abc import Iterator

import click

from grading.runner.forkserver import ForkServer
from grading.runner.watch_screen import Screen
from grading.runner.watcher import Watcher
from profiling_lab.cli.app import complain, prepare_streams
from profiling_lab.cli.screen import dim, find, load_course, short, wrap
from profiling_lab.course import progress
from profiling_lab.errors import LabError

SETTLE_MS = 50  # editors save in several steps
GROUP_MS = 200
KEYS = "h hint   n next task   a all again   q quit"


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
