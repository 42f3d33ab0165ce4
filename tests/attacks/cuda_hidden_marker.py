"""Removes the marker of what is still to do and changes nothing; and one that is todo for its reader only."""

EXERCISE = "nsys_ex01"
STUB = "modules/01-nsight-systems/ex01-timeline-basics/improved.cu"
WANTS = ("improved",)


def plant(entry, course):
    text = (course.root / STUB).read_text(encoding="utf-8")
    file = entry / STUB
    file.parent.mkdir(parents=True)
    file.write_text(text.replace("// TODO(nsys_ex01", "// todo(nsys_ex01"), encoding="utf-8")
