"""A CUDA source that includes the reference by its path: the compiler reads what the code may not."""

EXERCISE = "nsys_ex01"
STUB = "modules/01-nsight-systems/ex01-timeline-basics/improved.cu"
WANTS = ("improved",)
BITES = True
SUBMITTED = (
    '#include "@COURSE@/solutions/modules/01-nsight-systems/ex01-timeline-basics/improved.cu"\n'
)
