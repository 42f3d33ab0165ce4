"""Profiling in any project: `easy_profiler` in code, `unified_profiler` from the command line."""
