"""What goes with a cause: calls, waits and releases that a program without it does not make."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiling_lab.analysis import recorder_cost
from tests.harness.drawn_run import US, Drawn, of


@pytest.fixture(autouse=True)
def free_recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times as drawn: without what a recorder costs."""
    monkeypatch.setitem(recorder_cost.COSTS, "nsys", recorder_cost.Cost(0, 0, 0))


def test_what_is_not_sent_is_not_waited_for(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "sent.sqlite")
    for _ in range(20):
        # The call holds the host up until the kernels before it are done, and the copy, too.
        drawn.blocking_copy("H2D", 400, 10_000_000, pinned=False, api="cudaMemcpyAsync_v3020")
        drawn.now += 90 * US
        drawn.launch(500)
    seen = of(drawn).seen[0]
    # Without it the host is always ahead: of about 1,003 µs a step the kernel remains.
    assert seen.saved.causes["copies"] == pytest.approx(20 * 500 * US, rel=0.02)


def test_the_wait_behind_a_value_that_is_read_goes_with_it(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "items.sqlite")
    for _ in range(100):
        drawn.launch(2)
        drawn.now += 15 * US
        drawn.blocking_copy("D2H", 2, 4, pinned=False, api="cudaMemcpyAsync_v3020")
        drawn.call("cudaStreamSynchronize_v3020", 10)  # all is done: it waits for nothing
    seen = of(drawn).seen[0]
    # What remains of a step is the launch: 15 µs lead to the copy, 13 are the copy's, 10 the wait's.
    assert seen.saved.causes["waits"] == pytest.approx(100 * 38 * US, rel=0.02)


def test_a_pool_is_released_also_where_there_is_nothing_to_wait_for(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "pool.sqlite")
    for _ in range(20):
        drawn.launch(10)
        drawn.call("cudaFreeAsync_v11020", 5)
        drawn.now += 20 * US  # the kernel is done
        drawn.call("cudaStreamSynchronize_v3020", 300)
    saved = of(drawn).seen[0].saved.causes
    assert saved["allocation"] > 19 * 300 * US and saved["waits"] < 19 * 50 * US
