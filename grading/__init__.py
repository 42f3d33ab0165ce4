"""The harness: runs the checks, scores them, and proves that they are right."""
