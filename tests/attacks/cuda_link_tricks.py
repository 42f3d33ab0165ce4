"""Tells compiler and linker, from inside the source, to load plugins, run commands or write elsewhere."""

EXERCISE = "nsys_ex01"
STUB = "modules/01-nsight-systems/ex01-timeline-basics/improved.cu"
WANTS = ("improved",)
SUBMITTED = r"""
#pragma GCC system_header
#pragma comment(linker, "/out:@CANARY@")
#pragma GCC optimize("plugin=@CANARY@")
#include "particles.cuh"
asm(".section .drectve\n.ascii \"-export:main\"\n.text");
asm(".file \"@CANARY@\"");
__asm__(".pushsection .init_array,\"aw\"\n.quad 0x4141414141414141\n.popsection");
struct Simulation {};
Simulation* create_simulation(int, int) { return nullptr; }
void run_simulation(Simulation&, int) {}
void destroy_simulation(Simulation*) {}
"""
