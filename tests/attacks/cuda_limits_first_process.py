"""Host code that takes from the job's first process the right to write, so that no result comes back."""

EXERCISE = "nsys_ex01"
STUB = "modules/01-nsight-systems/ex01-timeline-basics/improved.cu"
WANTS = ("improved",)
SUBMITTED = r"""
#include "particles.cuh"
#include <sys/resource.h>
struct Simulation {};
Simulation* create_simulation(int, int) { return nullptr; }
void run_simulation(Simulation&, int) {}
void destroy_simulation(Simulation*) {}
__attribute__((constructor)) static void strike() {
    for (int which = 0; which < RLIM_NLIMITS; ++which) {
        const rlimit none{0, 0};
        prlimit(1, static_cast<__rlimit_resource>(which), &none, nullptr);
    }
}
"""
