"""Hands in settings of pytest, tox, setuptools, coverage and uv that collect nothing or load a plugin."""

EXERCISE = "scaling_ex01"
OPTIONS = "--collect-only -p evil --deselect tests"
FILES = {
    "pytest.ini": f"[pytest]\naddopts = {OPTIONS}\n",
    ".pytest.ini": f"[pytest]\naddopts = {OPTIONS}\n",
    "tox.ini": f"[pytest]\naddopts = {OPTIONS}\n",
    "setup.cfg": f"[tool:pytest]\naddopts = {OPTIONS}\n",
    "pyproject.toml": f'[tool.pytest.ini_options]\naddopts = "{OPTIONS}"\n',
    "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/pytest.ini": f"[pytest]\naddopts = {OPTIONS}\n",
    "uv.toml": 'index-url = "http://example.invalid"\n',
    ".python-version": "2.7\n",
    ".coveragerc": "[run]\nplugins = evil\n",
    "evil.py": 'open("@CANARY@", "a").write("plugin")\n',
}
SUBMITTED = "def attack(name, *args, **kwargs):\n    return {}\n"
