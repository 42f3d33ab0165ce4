"""Hands in conftest.py files at every level that make each check pass."""

EXERCISE = "scaling_ex01"
CONFTEST = r"""
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    yield
    return True

def pytest_collection_modifyitems(items):
    items.clear()

def pytest_configure(config):
    open("@CANARY@", "a").write("conftest\n")
"""
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"
FILES = {
    f"{place}conftest.py": CONFTEST
    for place in ("", "tests/", f"{FOLDER}/", f"tests/{FOLDER}/", "modules/")
}
SUBMITTED = "def attack(name, *args, **kwargs):\n    return {}\n"
