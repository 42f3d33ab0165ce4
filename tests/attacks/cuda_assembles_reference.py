"""Takes a file in as data while it is assembled, and prints it where a message may show it."""

EXERCISE = "nsys_ex01"
STUB = "modules/01-nsight-systems/ex01-timeline-basics/improved.cu"
WANTS = ("improved",)
BITES = True
MUST_NOT_SAY = ("PLANTED-SECRET",)
SUBMITTED = r"""
#include "particles.cuh"
asm(".section .rodata\n.global stolen\nstolen:\n.incbin \"@SECRET@\"\n.byte 0\n.text");
extern "C" const char stolen[];
struct Simulation {};
Simulation* create_simulation(int, int) { std::fprintf(stderr, "%s\n", stolen); std::exit(3); }
void run_simulation(Simulation&, int) {}
void destroy_simulation(Simulation*) {}
"""
