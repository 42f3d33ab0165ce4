"""Runs checks: the pytest plugin, and how a check reaches the learner's code in this or another process."""
