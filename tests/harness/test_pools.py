"""Costly things, a few at a time; and which modules an exercise's template imports."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from grading.runner.pools import Pool
from grading.runner.preload import AHEAD, MODULES, in_turn, modules, of_checks
from profiling_lab.course import manifest

COURSE = manifest.load(Path(__file__).resolve().parents[2])


class Thing:
    def __init__(self, name: str) -> None:
        self.name = name
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


def test_a_value_is_opened_once_and_the_longest_unused_makes_room() -> None:
    pool = Pool(Thing, most=2)
    with pool.use("a") as a, pool.use("a") as same:
        assert a is same
    for name in ("b", "a", "c"):
        with pool.use(name) as last:
            assert last.name == name
    with pool.use("a") as still:
        assert still is a
    with pool.use("b") as b:
        assert b.is_open
    assert a.is_open
    assert not last.is_open


def test_what_is_used_is_not_closed_for_another() -> None:
    pool = Pool(Thing, most=1)
    with pool.use("a") as a, pool.use("b") as b:
        assert a.is_open and b.is_open
    pool.close()
    assert not a.is_open and not b.is_open


def test_a_value_that_is_no_good_any_more_is_opened_anew() -> None:
    pool = Pool(Thing, most=2, is_good=lambda thing: thing.is_open)
    with pool.use("a") as a:
        a.close()
    with pool.use("a") as fresh:
        assert fresh.is_open and fresh is not a


def test_who_uses_what_is_no_good_any_more_comes_to_the_end() -> None:
    good = {"a"}
    pool = Pool(Thing, most=2, is_good=lambda thing: thing.name in good)
    with pool.use("a") as old:
        good.clear()
        with pool.use("a") as fresh:
            assert fresh is not old and old.is_open
        assert old.is_open
    assert not old.is_open and fresh.is_open
    with pool.use("a"):
        assert not fresh.is_open


def test_who_asks_for_another_does_not_wait_for_one_that_opens() -> None:
    go_on, opening = threading.Event(), threading.Event()

    def open_(name: str) -> Thing:
        if name == "slow":
            opening.set()
            assert go_on.wait(60)
        return Thing(name)

    def use_slow() -> None:
        with pool.use("slow") as slow:
            used.append(slow)

    pool, used = Pool(open_, most=1), []
    users = [threading.Thread(target=use_slow) for _ in range(2)]
    for user in users:
        user.start()
    assert opening.wait(60)
    with pool.use("fast") as fast:
        assert fast.is_open and not used
    go_on.set()
    for user in users:
        user.join()
    assert used[0] is used[1] and used[0].is_open


def test_who_asks_after_one_that_did_not_open_tries_anew() -> None:
    failures = [OSError("once")]

    def open_(name: str) -> Thing:
        if failures:
            raise failures.pop()
        return Thing(name)

    pool = Pool(open_, most=1)
    with pytest.raises(OSError, match="once"), pool.use("a"):
        pass
    with pool.use("a") as a:
        assert a.is_open


def test_the_first_of_each_kind_comes_sooner_and_no_two_kinds_ahead() -> None:
    units = [(kind, number) for number in range(AHEAD + 5) for kind in ("c", "a", "b")]
    ordered = in_turn(units, lambda unit: () if unit[0] == "a" else (unit[0],))
    assert sorted(ordered) == sorted(units)
    assert [n for kind, n in ordered if kind == "b"] == list(range(AHEAD + 5))
    assert "".join(kind for kind, _ in ordered) == (
        "a" * 5 + "b" + "a" * AHEAD + "b" * 4 + "c" + "b" * AHEAD + "c" * (AHEAD + 4)
    )
    few = in_turn(["c1", "c2", "a1", "a2", "b1"], lambda unit: (unit[0],))
    assert few == ["a1", "b1", "a2", "c1", "c2"]


@pytest.mark.parametrize(
    ("identifier", "needed"),
    [
        ("ex_30", set()),
        ("ex_32", {"torch"}),
        ("triton_ex05", {"triton"}),
        ("lab05", {"torch"}),
        ("lab05_jax", {"jax"}),
    ],
)
def test_modules_are_those_of_the_needs(identifier: str, needed: set[str]) -> None:
    expected = {module for need in needed for module in MODULES[need]}
    assert set(modules(COURSE.exercise(identifier))) == expected


def test_live_tasks_count_where_they_run() -> None:
    exercise = COURSE.exercise("ex_33")  # its live tasks need torch, the others nothing
    assert modules(exercise) == ()
    assert "torch" in modules(exercise, live=True)


def test_checks_need_what_they_import_themselves(tmp_path: Path) -> None:
    names = [*MODULES["torch"], *MODULES["jax"]]
    for text, wanted in (
        ("def test():\n    import torch\n", "torch"),
        ("from jax import numpy\n", "jax"),
        ('torch = installed("torch")\n', "torch"),
        ('# import torch\nwords = "import torch"; torch_inference = "a capture"\n', ""),
    ):
        file = tmp_path / "test_x.py"
        file.write_text(text, encoding="utf-8")
        assert {name.partition(".")[0] for name in of_checks(names, [file])} == {*wanted.split()}
