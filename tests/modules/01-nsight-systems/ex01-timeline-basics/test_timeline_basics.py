from __future__ import annotations

from grading.checking import task


@task("nsys_ex01.first_task")
def test_the_larger_is_found(stub) -> None:
    got = stub.first_task(3, 5)
    assert got == 5, f"first_task(3, 5) returned {got}, expected 5 ns: the larger of the two"


@task("nsys_ex01.first_task")
def test_the_order_does_not_matter(stub) -> None:
    got = stub.first_task(7, 2)
    assert got == 7, f"first_task(7, 2) returned {got}, expected 7 ns: the order is no clue"
