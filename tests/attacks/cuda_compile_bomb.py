"""Source of a few lines that takes all memory, or for ever, to compile."""

EXERCISE = "nsys_ex01"
STUB = "modules/01-nsight-systems/ex01-timeline-basics/improved.cu"
WANTS = ("improved",)
SLOW = 1.5
DANGEROUS = True
SUBMITTED = r"""
#include "/dev/zero"
#include "particles.cuh"
template <int N> struct Deep { static constexpr int value = Deep<N - 1>::value + Deep<N - 2>::value; };
int x = Deep<100000>::value;
"""
