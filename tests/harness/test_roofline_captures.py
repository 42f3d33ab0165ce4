"""The captures of the roofline day: whole, of the promised form, and true where that can be told."""

from __future__ import annotations

import csv
import io
import json
import statistics

import pytest

from profiling_lab import captures, devices

TIMED = (
    "roofline_ops",
    "roofline_ops_fp16",
    "roofline_decode",
    "roofline_decode_mha",
    "roofline_train",
    "roofline_train_long",
)
COUNTED = ("roofline_counters", "roofline_counters_fp16")
TENSOR_OPERATIONS = "sm__ops_path_tensor_src_{}.sum"


def document(capture: str, name: str) -> dict:
    return json.loads(captures.text(capture, name))


def counter(kernel: dict, name: str) -> float:
    found = kernel["metrics"].get(name)
    return 0.0 if found is None else found["value"]


def instructions(kernel: dict, kind: str) -> float:
    return counter(kernel, f"smsp__sass_thread_inst_executed_op_{kind}_pred_on.sum")


@pytest.mark.parametrize("capture", TIMED)
def test_measurements_have_the_promised_form(capture: str) -> None:
    table = document(capture, "measurements.json")
    assert (table["format"], table["unit"]) == (1, "ns")
    assert devices.get(table["device"]).name == "H200"
    names = [row["name"] for row in table["measurements"]]
    assert len(names) == len(set(names)) >= 3
    for row in [*table["measurements"], *table.get("parts", [])]:
        assert row["dtype"] in devices.DTYPES
        assert row["cache"] in ("cold", "warm")
        assert len(row["device_time"]) >= 7
        for samples in (row["device_time"], row["host_time"] or [1]):
            assert all(type(value) is int and value > 0 for value in samples), row["name"]


def test_the_host_is_timed_where_it_issues_the_call() -> None:
    for capture in TIMED:
        for row in document(capture, "measurements.json")["measurements"]:
            issued = row["op"] not in ("transformer", "training_step") or "eager" in row["name"]
            expected = issued and "in a graph" not in row["name"]
            assert (row["host_time"] is not None) == expected, row["name"]


@pytest.mark.parametrize("capture", ["roofline_decode", "roofline_decode_mha"])
def test_a_step_is_about_its_parts(capture: str) -> None:
    table = document(capture, "measurements.json")
    parts = {row["name"]: statistics.median(row["device_time"]) for row in table["parts"]}
    for row in table["measurements"]:
        if row["name"].startswith("decode batch"):
            whole = statistics.median(row["device_time"])
            both = sum(parts[f"{part} of {row['name']}"] for part in ("linear", "attention"))
            assert 0.8 < whole / both < 1.25, row["name"]


@pytest.mark.parametrize("capture", COUNTED)
def test_counters_are_those_of_the_tools_page(capture: str) -> None:
    table = document(capture, "counters.json")
    names, units, *rows = list(csv.reader(io.StringIO(captures.text(capture, "kernels.csv"))))
    unit_of = dict(zip(names, units, strict=True))
    page = [dict(zip(names, row, strict=True)) for row in rows]
    page = [kernel for kernel in page if "roofline_marker" not in kernel["Kernel Name"]]
    assert len(page) == len(table["kernels"]) >= 8
    for kernel, printed in zip(table["kernels"], page, strict=True):
        assert kernel["kernel"] == printed["Kernel Name"]
        assert len(kernel["metrics"]) >= 20
        for metric, found in kernel["metrics"].items():
            assert found["unit"] == unit_of[metric]
            assert found["value"] == float(printed[metric].replace(",", ""))


@pytest.mark.parametrize("capture", COUNTED)
def test_float32_products_are_counted_by_the_cuda_cores_alone(capture: str) -> None:
    for kernel in document(capture, "counters.json")["kernels"]:
        if kernel["op"] != "matmul":
            continue
        shape = kernel["arguments"]
        multiplied = shape["m"] * shape["k"] * shape["n"] * shape.get("batch", 1)
        seen = instructions(kernel, "ffma") / multiplied
        if kernel["dtype"] == "float32":
            assert 1.0 <= seen < 1.01
        else:
            assert seen < 0.001, f"{kernel['name']}: the tensor cores' work shows in ffma"


@pytest.mark.parametrize("capture", COUNTED)
def test_matrix_work_is_what_half_precision_does_not_explain(capture: str) -> None:
    # HFMA2.MMA, a constant's move, takes the pipe of the matrix instructions; it is counted by thread.
    for kernel in document(capture, "counters.json")["kernels"]:
        matrix = (
            counter(kernel, "sm__inst_executed_pipe_tensor.sum") > instructions(kernel, "hfma") / 32
        )
        product = any(word in kernel["kernel"] for word in ("nvjet", "sm90_xmma", "flash_fwd"))
        assert matrix == product, kernel["name"]


@pytest.mark.parametrize("capture", COUNTED)
def test_the_tensor_cores_count_of_operations_is_at_least_the_needed(capture: str) -> None:
    seen = 0
    for kernel in document(capture, "counters.json")["kernels"]:
        if kernel["op"] != "matmul" or kernel["dtype"] == "float32":
            continue
        kind = {"bfloat16": "bf16_dst_fp32", "tfloat32": "tf32_dst_fp32", "float16": "fp16"}
        done = counter(kernel, TENSOR_OPERATIONS.format(kind[kernel["dtype"]]))
        shape = kernel["arguments"]
        needed = 2 * shape["m"] * shape["k"] * shape["n"] * shape.get("batch", 1)
        if TENSOR_OPERATIONS.format(kind[kernel["dtype"]]) in kernel["metrics"]:
            seen += 1
            # Tiles are computed whole: a product of one row pays for eight.
            assert 1.0 <= done / needed <= 8.0, kernel["name"]
    assert seen


def test_the_programs_count_nothing_themselves() -> None:
    # What an operation costs is the reader's to find out: no table holds operations or bytes.
    for capture in TIMED:
        for row in document(capture, "measurements.json")["measurements"]:
            assert not {"flops", "bytes", "flop", "intensity"} & set(row)
