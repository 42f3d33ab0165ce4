"""Writes the record of its own calls before main() begins, and ends with success."""

EXERCISE = "nsys_ex01"
STUB = "modules/01-nsight-systems/ex01-timeline-basics/improved.cu"
WANTS = ("improved",)
FORGEABLE = "what the host code issues is recorded in its own process"
SUBMITTED = r'''
#include "particles.cuh"
struct Simulation {};
Simulation* create_simulation(int, int) { return nullptr; }
void run_simulation(Simulation&, int) {}
void destroy_simulation(Simulation*) {}

static int line = 0;
static FILE* file = nullptr;
static void say(const char* kind, const char* rest) {
    std::fprintf(file, "{\"line\": %d, \"kind\": \"%s\", \"thread\": 0, \"host_function\": -1%s%s}\n", line++,
                 kind, *rest ? ", " : "", rest);
}
__attribute__((constructor)) static void forge() {
    file = std::fopen(std::getenv("LAB_SCHEDULE_FILE"), "w");
    if (!file) return;
    say("marker", "\"name\": \"begin\"");
    say("marker", "\"name\": \"end\"");
    std::fclose(file);
    std::_Exit(0);
}
'''
