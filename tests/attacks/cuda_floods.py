"""A program that prints without an end and fills its folder."""

EXERCISE = "nsys_ex01"
STUB = "modules/01-nsight-systems/ex01-timeline-basics/improved.cu"
WANTS = ("improved",)
DANGEROUS = True
MOST_BYTES = 500_000
SUBMITTED = r"""
#include "particles.cuh"
#include <string>
struct Simulation {};
Simulation* create_simulation(int, int) { return nullptr; }
void run_simulation(Simulation&, int) {}
void destroy_simulation(Simulation*) {}
__attribute__((constructor)) static void flood() {
    const std::string block(1 << 20, 'x');
    FILE* file = std::fopen(std::getenv("LAB_SCHEDULE_FILE"), "w");
    for (int i = 0; i < 2000; ++i) {
        if (std::fputs(block.c_str(), stderr) < 0 && i > 100) break;
        std::fputs(block.c_str(), stdout);
        if (file) std::fputs(block.c_str(), file);
    }
}
"""
