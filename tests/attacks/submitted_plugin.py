"""Hands in installed packages: dist-info folders whose entry points register a pytest plugin."""

EXERCISE = "scaling_ex01"
POINTS = "[pytest11]\nevil = evil\n[console_scripts]\npytest = evil:main\n"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/"
FILES = {
    f"{place}evil-1.0.dist-info/{name}": text
    for place in ("", FOLDER, ".venv/lib/python3.11/site-packages/")
    for name, text in (("METADATA", "Name: evil\nVersion: 1.0\n"), ("entry_points.txt", POINTS))
} | {f"{place}evil.py": 'open("@CANARY@", "a").write("plugin")\n' for place in ("", FOLDER)}
SUBMITTED = "def attack(name, *args, **kwargs):\n    return {}\n"
