from __future__ import annotations

from grading.checking import task


@task("triton_ex05.time_kernel")
def test_the_larger_is_found(stub) -> None:
    got = stub.time_kernel(3, 5)
    assert got == 5, f"time_kernel(3, 5) returned {got}, expected 5 ns: the larger of the two"


@task("triton_ex05.time_kernel")
def test_the_order_does_not_matter(stub) -> None:
    got = stub.time_kernel(7, 2)
    assert got == 7, f"time_kernel(7, 2) returned {got}, expected 7 ns: the order is no clue"
