"""A subclass of Finding that hides behind the name, module and registration of the real class."""

EXERCISE = "scaling_ex01"
WANTS = ("baseline_verdict",)
CAUSE = "forbidden value"
SUBMITTED = r"""
import dataclasses, sys
from profiling_lab import findings

@dataclasses.dataclass(frozen=True)
class Finding(findings.Finding):
    def __eq__(self, other): return True
    def __getattribute__(self, name):
        if name == "evidence":
            return Any()
        return super().__getattribute__(name)

class Any(dict):
    def __eq__(self, other): return True
    def __ne__(self, other): return False

Finding.__module__, Finding.__qualname__ = "profiling_lab.findings", "Finding"
real, findings.Finding = findings.Finding, Finding  # what the writer looks up is this class now

def baseline_verdict(capture, warmup):
    return Finding("healthy", "device:0", Any(), "none")
"""
