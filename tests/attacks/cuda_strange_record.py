"""Leaves a record that is no record: other types, endless nesting, numbers beyond measure, a link."""

EXERCISE = "nsys_ex01"
STUB = "modules/01-nsight-systems/ex01-timeline-basics/improved.cu"
WANTS = ("improved",)
MUST_NOT_SAY = ("PLANTED-SECRET",)
SUBMITTED = r"""
#include "particles.cuh"
#include <string>
#include <unistd.h>
struct Simulation {};
Simulation* create_simulation(int, int) { return nullptr; }
void run_simulation(Simulation&, int) {}
void destroy_simulation(Simulation*) {}
__attribute__((constructor)) static void forge(int argc, char** argv, char**) {
    const char* name = std::getenv("LAB_SCHEDULE_FILE");
    int chosen = 0;
    for (int i = 1; i < argc; ++i) chosen += std::atoi(argv[i]);
    if (name && chosen % 3 == 0) {
        unlink(name);
        symlink("@SECRET@", name);
    } else if (FILE* file = name ? std::fopen(name, "w") : nullptr) {
        if (chosen % 3 == 1) std::fputs(std::string(1 << 20, '[').c_str(), file);
        std::fputs("{\"line\": -1e999, \"kind\": [\"kernel\"], \"stream\": {}, \"arguments\": 7}\n", file);
        std::fputs("{\"line\": \"x\", \"kind\": \"allocate\", \"bytes\": 1e400, \"buffer\": null}\n", file);
        std::fputs("\xff\xfe not json\n", file);
        std::fclose(file);
    }
    std::_Exit(0);
}
"""
