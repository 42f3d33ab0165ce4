"""Redefines the macros and weak functions through which the given header tells what is touched."""

EXERCISE = "nsys_ex01"
STUB = "modules/01-nsight-systems/ex01-timeline-basics/improved.cu"
WANTS = ("improved",)
SUBMITTED = r"""
#include "particles.cuh"
#undef LAB_HOST_ACCESS
#define LAB_HOST_ACCESS(what, step, memory, bytes, is_write) ((void)0)
#undef CHECK
#define CHECK(call) (void)(call)
#define prepare_step(step, table) ((void)0)
#define log_energy(step, sum) ((void)0)
extern "C" cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }
extern "C" void lab_host_access(const char*, int, const void*, size_t, int) {}
struct Simulation {};
Simulation* create_simulation(int, int) { return nullptr; }
void run_simulation(Simulation&, int steps) { for (int i = 0; i < steps; ++i) log_energy(i, nullptr); }
void destroy_simulation(Simulation*) {}
"""
