"""Puts its own finder, loader and modules before everything that the worker imports afterwards."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
import importlib.abc, sys, types

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        module = types.ModuleType(name)
        module.__getattr__ = lambda attribute: (lambda *args, **kwargs: True)
        sys.modules[name] = module
        return None

sys.meta_path.insert(0, Finder())
sys.path_hooks.insert(0, lambda path: (_ for _ in ()).throw(ImportError))
sys.path_importer_cache.clear()
for name in ("json", "msgspec", "struct", "numpy"):
    sys.modules[name] = types.ModuleType(name)

def knee_batch(rows, share=0.9):
    return {"knee": 4, "best": 4, "undecided": []}
"""
