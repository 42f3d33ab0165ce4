"""Lets the engine answer: imported, loaded from its path, started as a program, or read as text."""

EXERCISE = "ex_30"
WANTS = ("name_bottleneck", "recoverable_time")
BITES = True
MUST_NOT_SAY = ("FOUND-THE-ENGINE",)
SUBMITTED = r"""
import importlib, importlib.util, os, subprocess, sys

def try_all():
    try:
        from profiling_lab.diagnosis import engine
        return engine
    except ImportError:
        pass
    for name in ("profiling_lab.diagnosis.engine", "profiling_lab.analysis.savings", "profiling_lab.analysis.order"):
        try:
            return importlib.import_module(name)
        except ImportError:
            pass
    for path in ("diagnosis/engine.py", "analysis/savings.py", "analysis/order.py"):
        path = "@COURSE@/profiling_lab/" + path
        try:
            spec = importlib.util.spec_from_file_location("borrowed", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
        except (OSError, ImportError, AttributeError):
            pass
        try:
            return open(path).read()
        except OSError:
            pass
    code = "import profiling_lab.diagnosis.engine as e; print(e.FLOOR_RATIO)"
    try:
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="@COURSE@")
        if told.returncode == 0:
            return told.stdout
    except OSError:
        pass
    return None

def attack(name, capture, nvtx_range=None):
    found = try_all()
    if found is None:
        raise ValueError("nothing to ask")
    if name == "name_bottleneck" and hasattr(found, "judge"):
        from profiling_lab.captures import inputs
        return found.judge(inputs.read([capture]), nvtx_range).findings[0]
    raise ValueError("FOUND-THE-ENGINE")
"""
