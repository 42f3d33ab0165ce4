"""Does the engine say anything impossible of other people's recordings?

    uv run python benchmarks/public_recordings.py FOLDER

FOLDER holds recordings and list.json: of each file the public repository, its commit and the path. The recordings are
not kept here; results/public_recordings.json says where they are. What is true of each is read first, by the few lines
of `truth`, which share nothing with the engine: how long devices worked, by a union of intervals. Then the engine is
asked in a process of its own, and what it says is held against that.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

RESULT = Path(__file__).resolve().parent / "results/public_recordings.json"
DEVICE_KINDS = ("kernel", "gpu_memcpy", "gpu_memset")
LIMIT_S = 300
SLACK = 0.005  # of a window: times in traces are rounded


def busy(pieces: list[tuple[float, float]], low: float, high: float) -> float:
    """The length of the union of the pieces between low and high."""
    out, reached = 0.0, low
    for start, end in sorted(pieces):
        start, end = max(start, reached), min(end, high)
        if end > start:
            out, reached = out + end - start, end
    return out


def events(file: Path) -> list[dict]:
    data = file.read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    loaded = json.loads(text)
    return loaded["traceEvents"] if isinstance(loaded, dict) else loaded


def device_pieces(file: Path) -> dict[int, list[tuple[float, float]]]:
    """Per device, when something ran on it, in µs."""
    pieces: dict[int, list[tuple[float, float]]] = {}
    for event in events(file):
        if event.get("ph") == "X" and str(event.get("cat", "")).lower() in DEVICE_KINDS:
            start = float(event["ts"])
            device = int(event.get("args", {}).get("device", -1))
            pieces.setdefault(device, []).append((start, start + float(event["dur"])))
    return pieces


def truth(pieces: dict[int, list[tuple[float, float]]]) -> dict[str, Any]:
    """What ran, for how long: read before any verdict."""
    out: dict[str, Any] = {"operations": sum(map(len, pieces.values())), "devices": len(pieces)}
    if pieces:
        low = min(min(own)[0] for own in pieces.values())
        high = max(max(end for _, end in own) for own in pieces.values())
        out["span_us"] = round(high - low, 3)
        shares = {device: busy(own, low, high) / (high - low) for device, own in pieces.items()}
        out["busy_ratio"] = {str(device): round(share, 4) for device, share in shares.items()}
    return out


def verdict(file: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "profiling_lab.cli", "diagnose", str(file), "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"more than {LIMIT_S} s"}
    if "Traceback" in done.stderr:
        return {"error": "a traceback: " + done.stderr.strip().splitlines()[-1]}
    if not done.stdout.strip():
        return {"refused": done.stderr.strip().replace(str(file.parent) + "/", "")[:300]}
    told = json.loads(done.stdout)
    return told[0] if isinstance(told, list) else told


def impossible(
    told: dict[str, Any], pieces: dict[int, list[tuple[float, float]]], true: dict[str, Any]
) -> list[str]:
    """What of a verdict cannot be."""
    if "error" in told:
        return [told["error"]]
    if "refused" in told:
        return ["refused, and things ran"] if true["operations"] > 10 else []
    out = []
    low, high = told["window"]["start_ns"] / 1e3, told["window"]["end_ns"] / 1e3
    length = high - low
    first = min(min(own)[0] for own in pieces.values())
    shift = 0.0 if abs(low - first) < 1e9 else first - low  # ns since another origin
    for row in told["balance"]:
        classes = {k: v for k, v in row.items() if k.endswith("_ns")}
        if min(classes.values()) < 0 or abs(sum(classes.values()) / 1e3 - length) > 1:
            out.append(f"device {row['device']}: classes do not add up to the window")
        works = (
            "kernels_alone_ns",
            "beside_copies_ns",
            "copies_alone_ns",
            "communication_alone_ns",
            "page_migration_ns",
        )
        said = sum(classes.get(name, 0) for name in works) / 1e3
        own = pieces.get(row["device"])
        if own and not shift:
            real = busy(own, low, high)
            # Time in collectives or copies that waits for something is told with what it waits for.
            if said > real + SLACK * length:
                out.append(
                    f"device {row['device']}: busy {said / length:.3f}, in truth {real / length:.3f}"
                )
    for finding in told["findings"]:
        ratio = finding["evidence"].get("recoverable_ratio", 0)
        if not 0 <= ratio <= 1 + 1e-9:
            out.append(f"{finding['category']} saves {ratio:.2f}")
    busiest = max(true["busy_ratio"].values(), default=0)
    main = told["findings"][0]["category"]
    if (
        main == "healthy"
        and not shift
        and abs(length - true["span_us"]) < 0.05 * length
        and busiest < 0.8
    ):
        out.append(f"healthy, and the device works {busiest:.0%}")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    rows = []
    for known in json.loads((folder / "list.json").read_text()):
        file = folder / known["file"]
        row = {k: known[k] for k in ("repository", "commit", "path", "bytes")}
        row["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
        try:
            pieces = device_pieces(file)
        except (ValueError, KeyError, TypeError) as error:
            pieces = {}
            row["unreadable"] = type(error).__name__
        row["truth"] = truth(pieces)
        told = verdict(file)
        row["impossible"] = impossible(told, pieces, row["truth"])
        if "findings" in told:
            row["verdict"] = [
                {
                    "category": f["category"],
                    "ratio": round(f["evidence"].get("recoverable_ratio", 0), 4),
                }
                for f in told["findings"]
            ]
        else:
            row["verdict"] = told
        rows.append(row)
        print(known["file"], row["truth"], row["verdict"], row["impossible"], flush=True)
        RESULT.write_text(json.dumps({"recordings": rows}, indent=1) + "\n", encoding="utf-8")
    print(
        len(rows),
        "recordings,",
        sum(bool(row["impossible"]) for row in rows),
        "with something impossible",
    )


if __name__ == "__main__":
    main()
