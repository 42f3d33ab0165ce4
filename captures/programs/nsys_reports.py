"""What `nsys stats` and `nsys analyze` print about one recording: commands, exit codes, output.

The recording, `timeline.sqlite`, lies beside this program, and so does `timeline.nsys-rep` if there is
one. `--set stats` asks for reports in CSV, `--set analyze` for rules, and both load a script that this
program writes. Everything goes into `transcripts.json`. No GPU is used, but Nsight Systems must be here.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import re
import shutil
import sqlite3
import subprocess

TIMELINE = "timeline.sqlite"
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
PLACES = (
    "/opt/nvidia/nsight-systems*/*/bin/nsys",
    "/usr/local/cuda*/bin/nsys",
    "/opt/nvidia/nsight-compute/*/host/target-linux-x64/nsys",
    "/usr/local/cuda*/nsight-compute-*/host/target-linux-x64/nsys",
)

REPORT = '''
import nsysstats


class BusiestStreams(nsysstats.StatsReport):

    display_name = "Kernels by stream"
    usage = "{SCRIPT} -- {{DISPLAY_NAME}}"
    table_checks = {"CUPTI_ACTIVITY_KIND_KERNEL": "{DBFILE} does not contain CUDA kernel data."}
    query = """
        SELECT streamId AS "Stream", count(*) AS "Kernels", sum(end - start) AS "Total:dur_ns"
        FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY streamId ORDER BY streamId
    """


if __name__ == "__main__":
    BusiestStreams.Main()
'''

RULE = '''
import nsysstats


class LongKernels(nsysstats.ExpertSystemsReport):

    display_name = "Long kernels"
    usage = "{SCRIPT}[:rows=<limit>][:least=<ns>] -- {{DISPLAY_NAME}}"
    message_advice = "These kernels are longer than asked for."
    message_noresult = "No kernel is longer than asked for."
    table_checks = {"CUPTI_ACTIVITY_KIND_KERNEL": "{DBFILE} does not contain CUDA kernel data."}
    _arg_opts = [[["least"], {"type": int, "help": "ns", "default": 100000}]]

    def setup(self):
        problem = super().setup()
        if problem is not None:
            return problem
        self.query = """
            SELECT end - start AS "Duration:dur_ns", start AS "Start:ts_ns", deviceId AS "Device"
            FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE end - start > %d ORDER BY 1 DESC LIMIT %d
        """ % (self.parsed_args.least, self.parsed_args.rows)


if __name__ == "__main__":
    LongKernels.Main()
'''


def find_nsys() -> str:
    """The newest nsys of this machine."""
    if found := shutil.which("nsys"):
        return found
    places = [place for pattern in PLACES for place in glob.glob(pattern)]
    if not places:
        raise SystemExit("Nsight Systems (nsys) was not found")
    return max(places, key=lambda place: [int(n) for n in re.findall(r"\d+", place)])


class Asker:
    """Runs nsys and notes what it was asked and what it said."""

    def __init__(self) -> None:
        self.nsys = find_nsys()
        self.folder = os.path.dirname(os.path.dirname(os.path.realpath(self.nsys)))
        self.transcripts: list[dict[str, object]] = []

    def ask(self, name: str, *arguments: str) -> None:
        """Run one command; what it prints is kept, with nsys' own folder shortened."""
        done = subprocess.run(
            [self.nsys, *arguments], capture_output=True, text=True, timeout=120, check=False
        )
        kept = {
            stream: text.replace(self.folder, "<nsys>").replace(os.getcwd(), ".")
            for stream, text in (("stdout", done.stdout), ("stderr", done.stderr))
        }
        command = ["nsys", *arguments]
        self.transcripts.append(
            {"name": name, "command": command, "exit_code": done.returncode, **kept}
        )

    def version(self) -> str:
        done = subprocess.run([self.nsys, "--version"], capture_output=True, text=True, check=False)
        return done.stdout.strip()


def changed(file: str, *statements: str) -> str:
    """A copy of the recording after some statements of SQL."""
    shutil.copy(TIMELINE, file)
    connection = sqlite3.connect(file)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return file


def longest_range() -> str:
    """The name of a push/pop range that occurs often: the filter takes its first instance."""
    connection = sqlite3.connect(TIMELINE)
    row = connection.execute(
        """SELECT coalesce(n.text, s.value) AS name FROM NVTX_EVENTS AS n
           LEFT JOIN StringIds AS s ON s.id = n.textId WHERE n.eventType = 59
           GROUP BY name HAVING count(*) > 1 ORDER BY sum(n.end - n.start) DESC LIMIT 1"""
    ).fetchone()
    connection.close()
    return str(row[0])


def ask_stats(asker: Asker) -> None:
    def stats(name: str, file: str, *options: str) -> None:
        asker.ask(name, "stats", *options, file)

    sums = "cuda_gpu_kern_sum,cuda_api_sum,nvtx_sum"
    csv = ("--format", "csv")
    stats("several", TIMELINE, "--report", sums, *csv, "--output", "-")
    stats("quiet", TIMELINE, "--quiet", "--report", sums, *csv, "--output", "-")
    more = "cuda_gpu_mem_time_sum,cuda_gpu_mem_size_sum,osrt_sum,um_sum,cuda_gpu_sum"
    stats("skipped", TIMELINE, "--report", more, *csv, "--output", "-")
    stats("one unit", TIMELINE, "--report", sums, *csv, "--timeunit", "usec", "--output", "-")
    stats("column", TIMELINE, "--report", "cuda_gpu_kern_sum", "--format", "column")
    proj = "nvtx_gpu_proj_sum,cuda_kern_exec_sum,nvtx_kern_sum,nvtx_pushpop_sum"
    stats("projection", TIMELINE, "--report", proj, *csv, "--output", "-")
    where = longest_range()
    for index in (0, 1):
        options = ("--filter-nvtx", f"{where}/{index}", "--report", sums, *csv, "--output", "-")
        stats(f"range {index}", TIMELINE, *options)
    stats("no such range", TIMELINE, "--filter-nvtx", "no such range", "--report", sums, *csv)
    stats("no such report", TIMELINE, "--report", "cuda_kernel_sum", *csv)
    empty = changed("empty.sqlite", f"DROP TABLE {KERNELS}")
    stats("no kernels", empty, "--report", "cuda_gpu_kern_sum,cuda_api_sum", *csv, "--output", "-")
    with open("busiest_streams.py", "w", encoding="utf-8") as file:
        file.write(REPORT)
    stats("own report", TIMELINE, "--report", "./busiest_streams.py", *csv, "--output", "-")
    if os.path.exists("timeline.nsys-rep"):
        # An export from before: half of the kernels are missing in it, and it is a day older.
        shutil.copy("timeline.nsys-rep", "run.nsys-rep")
        old = changed("run.sqlite", f"DELETE FROM {KERNELS} WHERE rowid % 2")
        day = 86_400
        now = os.stat("run.nsys-rep").st_mtime
        os.utime(old, (now - day, now - day))
        report = ("--report", "cuda_gpu_kern_sum", *csv, "--output", "-")
        stats("old export", "run.nsys-rep", *report)
        os.utime(old, (now + day, now + day))
        stats("newer export", "run.nsys-rep", *report)
        stats("fresh export", "run.nsys-rep", "--force-export=true", *report)


def ask_analyze(asker: Asker) -> None:
    def analyze(name: str, *rules: str, file: str = TIMELINE) -> None:
        options = ("--rule", ",".join(rules), "--format", "csv", "--output", "-")
        asker.ask(name, "analyze", *options, file)

    rules = ("cuda_memcpy_async", "cuda_memcpy_sync", "cuda_memset_sync", "cuda_api_sync")
    for rule in (*rules, "gpu_gaps", "gpu_time_util"):
        analyze(rule, rule)
    analyze("gaps of 1 ms", "gpu_gaps:gap=1:rows=-1")
    # No limit, so that every chunk is shown, joined into one: its In-Use is of the whole span.
    analyze("all chunks", "gpu_time_util:threshold=100000:rows=-1")
    analyze("one chunk", "gpu_time_util:threshold=100000:chunks=1:rows=-1")
    analyze("all waits", "cuda_api_sync:rows=-1")
    if "CUPTI_ACTIVITY_KIND_MEMCPY" in tables():
        # The same process once more under another id, as when two ranks run the same program.
        twice = changed("twice.sqlite", *second_process())
        analyze("copies", "cuda_memcpy_async:rows=-1")
        analyze("copies of two processes", "cuda_memcpy_async:rows=-1", file=twice)
    with open("long_kernels.py", "w", encoding="utf-8") as file:
        file.write(RULE)
    analyze("own rule", "./long_kernels.py:least=50000:rows=3")
    analyze("own rule, nothing found", "./long_kernels.py:least=1000000000")
    empty = changed("empty.sqlite", f"DROP TABLE {KERNELS}")
    analyze("own rule, no kernels", "./long_kernels.py", file=empty)
    asker.ask("json", "analyze", "--rule", "cuda_api_sync:rows=2", "--format", "json", TIMELINE)
    asker.ask("two rules", "analyze", "--rule", "cuda_api_sync:rows=2,gpu_gaps", TIMELINE)
    asker.ask("help of gaps", "analyze", "--help-rules", "gpu_gaps")
    asker.ask("help of utilization", "analyze", "--help-rules", "gpu_time_util")


def tables() -> list[str]:
    connection = sqlite3.connect(TIMELINE)
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    connection.close()
    return [name for (name,) in rows]


def second_process() -> list[str]:
    """Statements that give every operation and call a twin in a process of another id."""
    out = []
    for table in tables():
        connection = sqlite3.connect(TIMELINE)
        names = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
        connection.close()
        if not table.startswith("CUPTI_ACTIVITY_KIND_"):
            continue
        shown = [
            f'"{name}" + {1 << 24}' if name in ("globalPid", "globalTid") else f'"{name}"'
            for name in names
        ]
        out.append(f"INSERT INTO {table} SELECT {', '.join(shown)} FROM {table}")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=("stats", "analyze"), required=True)
    chosen = parser.parse_args().set
    asker = Asker()
    {"stats": ask_stats, "analyze": ask_analyze}[chosen](asker)
    with open("transcripts.json", "w", encoding="utf-8") as file:
        json.dump({"tool": asker.version(), "transcripts": asker.transcripts}, file, indent=1)
    codes = [transcript["exit_code"] for transcript in asker.transcripts]
    print("RESULT " + json.dumps({"commands": len(codes), "exit_codes": codes}))


if __name__ == "__main__":
    main()
