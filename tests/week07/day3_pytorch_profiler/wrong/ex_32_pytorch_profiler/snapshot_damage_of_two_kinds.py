"""Expects a damaged pickle to raise what the manual names, and nothing else."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_a_damaged_snapshot_is_refused"
SAYS = "CaptureError"


def load_snapshot(capture: str) -> dict[str, Any]:
    file = captures.file(capture, "snapshot.pickle")
    try:
        data = file.read_bytes()
        if data[:2] == captures.GZIP_MAGIC:
            data = gzip.decompress(data)
        loaded = _PlainUnpickler(io.BytesIO(data)).load()
    except _Refused as refused:
        raise CaptureError(
            f"{file}: asks for {refused}; a snapshot holds plain data only"
        ) from None
    except (EOFError, OSError, pickle.UnpicklingError):
        raise CaptureError(f"{file}: is cut off or damaged") from None
    if not isinstance(loaded, dict):
        raise CaptureError(f"{file}: holds a {type(loaded).__name__}, and a snapshot is a dict")
    out = {}
    for key in ("segments", "device_traces"):
        if not isinstance(loaded.get(key), list):
            raise CaptureError(f"{file}: holds no list {key!r}; is it a memory snapshot?")
        out[key] = loaded[key]
    return out
