"""A record of a few lines that asks its reader for all memory, or for numbers without an end."""

EXERCISE = "ncu_ex01"
STUB = "modules/02-nsight-compute/ex01-memory-metrics/memory_bandwidth_student.cu"
WANTS = ("triad",)
MUST_NOT_SAY = ("Unable to allocate", "Exceeds the limit", "integer string")
SUBMITTED = r"""
#include "memory_bandwidth.cuh"
#include <string>
__global__ void wide(float* c) { asm volatile("{\n.reg .b64 room<900000>;\n}"); c[0] = 1.0f; }
void triad(const float*, const float*, float* c, float, int) { wide<<<1, 32>>>(c); }

#define HEAD "{\"line\": 0, \"thread\": 0, \"host_function\": -1, \"stream\": 0, "
__attribute__((constructor)) static void forge(int argc, char** argv, char**) {
    const char* name = std::getenv("LAB_SCHEDULE_FILE");
    FILE* file = name ? std::fopen(name, "w") : nullptr;
    if (!file) return;
    int chosen = 0;
    for (int i = 1; i < argc; ++i) chosen += std::atoi(argv[i]);
    chosen %= 5;
    if (chosen == 1)
        std::fprintf(file, HEAD "\"kind\": \"kernel\", \"shared_bytes\": %s1}\n", std::string(9999, '9').c_str());
    if (chosen == 3)
        std::fprintf(file, HEAD "\"kind\": \"allocate\", \"memory\": \"device\", \"buffer\": 0, \"bytes\": %lld}\n", 1LL << 46);
    std::fprintf(file, HEAD "\"kind\": \"kernel\", \"name\": \"wide\", \"symbol\": \"_Z4widePf\", "
        "\"shared_bytes\": 0, \"grid\": [%d, 64, %d], \"block\": [1024, 1, 1], "
        "\"arguments\": [{\"type\": \"float*\", \"pointer\": null}]}\n",
        chosen == 4 ? 1 : 1 << 30, chosen == 2 ? 1 << 30 : 1);
    std::fclose(file);
    std::_Exit(0);
}
"""
