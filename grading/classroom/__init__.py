"""Handing the course out to a class: the class repository, GitHub Classroom's workflow, Gradescope's bundle."""
