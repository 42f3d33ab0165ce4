"""`python -m grading.classroom`: what `lab dev` runs to hand the course out."""

from __future__ import annotations

from grading.classroom.commands import main

main()
