"""What libraries do on the host for a copy, a kernel or memory goes with its cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiling_lab.analysis import host_time
from tests.harness.drawn_run import US, Drawn, of


def test_what_is_moved_to_pinned_memory_first_is_part_of_the_copy(tmp_path: Path) -> None:
    size = 16_000_000
    run = Drawn(tmp_path / "staged.sqlite")
    for _ in range(20):
        run.launch(300)
        run.wait()
        run.now += 2_500 * US  # 6.4 bytes a ns
        run.blocking_copy("H2D", 350, size, pinned=True, api="cudaMemcpy_v3020")
    main = of(run).findings[0]
    assert main.category == "transfer_bound"
    assert main.evidence["recoverable_ratio"] == pytest.approx(1 - 305 / 3_165, abs=0.03)
    made = Drawn(tmp_path / "made.sqlite")
    for _ in range(20):
        made.launch(300)
        made.wait()
        made.now += 8_000 * US  # 2 bytes a ns: more is done than moving them
        made.blocking_copy("H2D", 350, size, pinned=True, api="cudaMemcpy_v3020")
    assert of(made).findings[0].category == "input_bound"


@pytest.mark.parametrize(("again", "category"), [(True, "recompilation"), (False, "host_bound")])
def test_modules_that_come_again_and_again_are_compiled_again(
    tmp_path: Path, again: bool, category: str
) -> None:
    run = Drawn(tmp_path / "compiled.sqlite")
    run.launch(50, name="fused")
    for step in range(20):
        run.now += 5_000 * US
        if again or step < 2:
            run.call("cuModuleLoadData", 60)
            run.call("cuModuleGetFunction", 2)
        run.launch(50, name="fused")
        run.wait()
    main = of(run).findings[0]
    assert main.category == category
    assert main.evidence["recoverable_ratio"] > 0.9


def test_what_is_not_brought_to_the_host_is_not_waited_for(tmp_path: Path) -> None:
    run = Drawn(tmp_path / "kept.sqlite")
    for _ in range(40):
        run.now += 200 * US
        for _ in range(20):
            run.launch(20)
            run.now += 10 * US
        run.blocking_copy("D2H", 400, 20_000_000, pinned=True, api="cudaMemcpy_v3020")
    main = of(run).findings[0]
    assert main.category == "transfer_bound"
    # Without the copy nothing holds the host up: it issues a step in 500 µs, and the kernels of the one before run meanwhile.
    step_us = 200 + 7 + 20 * 21 + 400 + 4
    cost_us = 21 * 4.5
    saved_ratio = 1 - (500 - cost_us) / (step_us - 4.5)
    assert main.evidence["recoverable_ratio"] == pytest.approx(saved_ratio, abs=0.04)


@pytest.mark.parametrize(
    ("code_us", "category"), [(2_500, "transfer_bound"), (12_000, "host_bound")]
)
def test_room_of_what_was_fetched_is_given_back_with_the_copy(
    tmp_path: Path, code_us: int, category: str
) -> None:
    """64 MB come in 6 ms. Behind them the host takes 2.5 ms, in which no core reads as much, or 12 ms."""
    run = Drawn(tmp_path / "fetched.sqlite")
    for _ in range(20):
        run.launch(300)
        run.blocking_copy("D2H", 6_000, 64_000_000, pinned=False, api="cudaMemcpy_v3020")
        run.now += code_us * US
    main = of(run).findings[0]
    assert main.category == category
    if category == "transfer_bound":
        assert main.evidence["recoverable_ratio"] > 0.9


@pytest.mark.parametrize(("launch_us", "category"), [(5, "host_bound"), (12, "launch_bound")])
def test_a_slow_host_takes_longer_from_one_launch_to_the_next(
    tmp_path: Path, launch_us: int, category: str
) -> None:
    run = Drawn(tmp_path / "slow.sqlite")
    for _ in range(200):
        run.launch(5, call_us=launch_us)
        run.now += 150 * US
    assert of(run).findings[0].category == category
    assert host_time.DISPATCH_LIMIT_NS["nsys"] * 12 * US / host_time.LAUNCH_NS > 150 * US


@pytest.mark.parametrize("versions", [True, False])
def test_versions_of_a_function_are_one_name(tmp_path: Path, versions: bool) -> None:
    """Numba puts a version into the name of each kernel that it compiles."""
    run = Drawn(tmp_path / "versions.sqlite")
    for step in range(20):
        run.now += 5_000 * US
        run.call("cuModuleLoadData", 60)
        name = f"halve[abi:v{step}](Array)" if versions else f"halve_{step}(Array)"
        run.launch(50, name=name)
        run.wait()
    expected = "recompilation" if versions else "host_bound"
    assert of(run).findings[0].category == expected


@pytest.mark.parametrize(
    "calls",
    [
        ("cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"),
        ("cuMemUnmap", "cuMemRelease", "cuMemAddressFree"),
    ],
)
def test_memory_and_addresses_taken_apart_are_allocation(
    tmp_path: Path, calls: tuple[str, ...]
) -> None:
    run = Drawn(tmp_path / "apart.sqlite")
    for _ in range(100):
        for name in calls:
            run.call(name, 60)
        run.launch(30)
        run.wait()
    main = of(run).findings[0]
    assert main.category == "allocation_bound"
    assert main.evidence["recoverable_ratio"] > 0.7
