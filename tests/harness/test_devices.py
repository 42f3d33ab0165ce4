"""The table of devices: every figure has its source, names are found, what is unsure is missing."""

from __future__ import annotations

import sqlite3
import tomllib

import pytest

from profiling_lab import captures, devices
from profiling_lab.devices import DeviceError
from profiling_lab.errors import LabError

TABLE = tomllib.loads(devices.FILE.read_text(encoding="utf-8"))
FIGURES = ("compute_capability", "memory_bandwidth_bytes_per_s", "memory_bytes")


@pytest.mark.parametrize("name", devices.names())
def test_every_figure_has_a_source_or_is_said_to_be_unsure(name: str) -> None:
    device = devices.get(name)
    expected = {*FIGURES, *(f"peak_flops_per_s.{kind}" for kind in device.peak_flops_per_s)}
    known = ("l2_bytes", "sm_count", "host_link_bytes_per_s")
    expected |= {what for what in known if getattr(device, what) is not None}
    assert set(device.sources) == expected
    assert not set(device.unsure) & set(device.sources)
    for what in ("l2_bytes", "sm_count"):
        assert (getattr(device, what) is None) == (what in device.unsure)
    for text in device.sources.values():
        assert "https://" in text or "captures/" in text


@pytest.mark.parametrize("name", devices.names())
def test_the_figures_are_of_a_plausible_size(name: str) -> None:
    # A slip of a unit (TFLOP/s for FLOP/s, GB for bytes) is off by a thousand or more.
    device = devices.get(name)
    assert 2e11 < device.memory_bandwidth_bytes_per_s < 1e13
    assert all(5e12 < peak < 5e15 for peak in device.peak_flops_per_s.values())
    assert set(device.peak_flops_per_s) <= set(devices.DTYPES)
    assert 2**33 < device.memory_bytes < 2**38
    assert device.host_link_bytes_per_s is None or 1e10 < device.host_link_bytes_per_s < 1e12
    assert device.l2_bytes is None or 2**21 < device.l2_bytes < 2**28
    order = [device.peak_flops_per_s.get(kind) for kind in ("float32", "tfloat32", "float16")]
    known = [peak for peak in order if peak]
    assert known == sorted(known)


@pytest.mark.parametrize("name", devices.names())
def test_ridges_are_those_that_the_roofs_give(name: str) -> None:
    # NVIDIA GPUs of these generations balance at 9 to 106 operations a byte in float32.
    device = devices.get(name)
    ridge = device.peak("float32") / device.memory_bandwidth_bytes_per_s
    assert 9 < ridge < 107


def test_lessons_compare_devices_that_have_the_types_that_their_tables_show() -> None:
    for device in map(devices.get, devices.names()):
        assert not device.compared or {"float32", "float16"} <= set(device.peak_flops_per_s)


def test_every_document_is_used() -> None:
    used = {where[0] for row in TABLE["devices"].values() for where in row["sources"].values()}
    assert used == set(TABLE["documents"])


def test_names_and_aliases_are_unique_and_found() -> None:
    seen: dict[str, str] = {}
    for name in devices.names():
        device = devices.get(name)
        for alias in (name, *device.aliases, name.lower(), name.replace(" ", "-")):
            assert devices.get(alias) is device
            assert seen.setdefault(alias, name) == name


def test_the_h200_of_the_captures_agrees_with_its_datasheet() -> None:
    with sqlite3.connect(captures.path("decode_eager")) as connection:
        query = "SELECT name, memoryBandwidth, smCount, l2CacheSize FROM TARGET_INFO_GPU"
        name, bandwidth, sm_count, l2_bytes = connection.execute(query).fetchone()
    device = devices.get(name)
    assert device is devices.get("H200")
    assert (device.sm_count, device.l2_bytes) == (sm_count, l2_bytes)
    assert device.memory_bandwidth_bytes_per_s == pytest.approx(bandwidth, rel=0.005)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("H300", "known: T4, V100 SXM2"),
        ("H20O", "did you mean H200?"),
        ("A100", "which one? A100 40GB, A100 80GB PCIe, A100 80GB SXM"),
        ("H100", "which one? H100 PCIe, H100 SXM"),
        ("B200", "7.7 TB/s and 8 TB/s"),
        ("", "unknown device ''"),
        (None, "not NoneType"),
    ],
)
def test_an_unknown_device_is_refused_with_the_known_ones(name: object, words: str) -> None:
    with pytest.raises(DeviceError) as caught:
        devices.get(name)
    assert words in str(caught.value)
    assert isinstance(caught.value, LabError)


@pytest.mark.parametrize(
    ("name", "canonical", "size"),
    [
        ("bf16", "bfloat16", 2),
        ("torch.bfloat16", "bfloat16", 2),
        ("half", "float16", 2),
        ("FP32", "float32", 4),
        ("tf32", "tfloat32", 4),
        ("float8_e4m3fn", "float8", 1),
    ],
)
def test_data_types_have_sizes_and_aliases(name: str, canonical: str, size: int) -> None:
    found = devices.dtype(name)
    assert (found.name, found.bytes) == (canonical, size)


def test_an_unknown_data_type_lists_the_known_ones() -> None:
    with pytest.raises(DeviceError, match="unknown data type bf61; known: float64, float32"):
        devices.dtype("bf61")


def test_a_missing_peak_says_why_and_what_there_is() -> None:
    with pytest.raises(DeviceError, match="T4: no peak for bfloat16; known: float32, float16"):
        devices.get("T4").peak("bf16")
    with pytest.raises(DeviceError, match=r"L40S: no peak for float16 \(the datasheet prints"):
        devices.get("L40S").peak("half")


def test_the_link_of_an_unknown_device_is_the_slowest_that_is_known() -> None:
    assert devices.host_link_bytes_per_s("NVIDIA H200") == 64e9
    assert devices.host_link_bytes_per_s("Some GPU") == devices.host_link_bytes_per_s("T4") == 16e9
