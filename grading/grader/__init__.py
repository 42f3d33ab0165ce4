"""Grades a class: takes submissions in and judges them in a sandbox."""
