"""Changes environment, limits, umask, priority, working folder and locale for whoever comes after it."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import locale, os, resource, signal, sys
os.environ.update(LAB_SEED="1", PYTHONPATH="/tmp", PYTEST_ADDOPTS="--collect-only", LD_PRELOAD="/tmp/x.so",
                  PYTHONSTARTUP="/tmp/x.py", LAB_CUDA_CACHE="/tmp", PATH="/tmp")
os.umask(0)
for change in (lambda: os.nice(-20), lambda: os.chroot("/tmp"), lambda: os.setuid(0), lambda: os.chdir("/"),
               lambda: resource.setrlimit(resource.RLIMIT_CPU, (1, 1)),
               lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1)),
               lambda: os.sched_setaffinity(os.getppid(), {0}), lambda: os.chmod("@CANARY@", 0o777)):
    try:
        change()
    except (OSError, ValueError, AttributeError):
        pass
sys.path.insert(0, "/tmp")
sys.modules["grading"] = sys.modules["numpy"] = None

def attack(name, *args, **kwargs):
    return {}
"""
