"""The profiling lab: read real GPU captures, find what is wrong, prove the gain."""
