"""Proves the checks: references pass, stubs are todo, mistakes and mutants are caught."""
