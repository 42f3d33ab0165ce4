"""A program that never ends."""

EXERCISE = "nsys_ex01"
STUB = "modules/01-nsight-systems/ex01-timeline-basics/improved.cu"
WANTS = ("improved",)
CAUSE = "time-out"
SLOW = 1.5
SUBMITTED = r"""
#include "particles.cuh"
#include <signal.h>
struct Simulation {};
Simulation* create_simulation(int, int) { return nullptr; }
void destroy_simulation(Simulation*) {}
void run_simulation(Simulation&, int) {
    for (int number = 1; number < 65; ++number) signal(number, SIG_IGN);
    for (volatile int i = 0;; i = i + 1) {}
}
"""
