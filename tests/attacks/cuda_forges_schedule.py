"""Writes the record of a perfect run before main() begins, without a single call to CUDA, and ends with success."""

EXERCISE = "nsys_ex01"
STUB = "modules/01-nsight-systems/ex01-timeline-basics/improved.cu"
WANTS = ("improved",)
FORGEABLE = "what the host code issues is recorded in its own process"
SUBMITTED = r"""
#include "particles.cuh"
#include <cstdarg>
struct Simulation {};
Simulation* create_simulation(int, int) { return nullptr; }
void run_simulation(Simulation&, int) {}
void destroy_simulation(Simulation*) {}

static int line = 0, particles = 0;
static FILE* file = nullptr;
static void say(const char* kind, const char* pattern, ...) {
    std::fprintf(file, "{\"line\": %d, \"kind\": \"%s\", \"thread\": 0, \"host_function\": -1, ", line++, kind);
    va_list values;
    va_start(values, pattern);
    std::vfprintf(file, pattern, values);
    va_end(values);
    std::fputs("}\n", file);
}
#define AT "{\"memory\": \"%s\", \"buffer\": %d, \"offset\": %d}"
static void allocate(int buffer, const char* memory, int bytes) {
    say("allocate", "\"function\": \"cudaMalloc\", \"buffer\": %d, \"memory\": \"%s\", \"bytes\": %d, \"stream\": -1",
        buffer, memory, bytes);
}
static void clear(int buffer, int bytes) {
    say("memset", "\"function\": \"cudaMemsetAsync\", \"stream\": 1, \"async\": true, \"bytes\": %d, \"value\": 0, "
        "\"destination\": " AT, bytes, "device", buffer, 0);
}
static void kernel(const char* name, int a, int at, int b, int c) {
    std::fprintf(file, "{\"line\": %d, \"kind\": \"kernel\", \"thread\": 0, \"host_function\": -1, \"stream\": 1, "
        "\"grid\": [79, 1, 1], \"block\": [256, 1, 1], \"shared_bytes\": 0, \"name\": \"%s\", \"symbol\": \"%s\", "
        "\"arguments\": [{\"type\": \"float*\", \"pointer\": " AT "}, {\"type\": \"float const*\", \"pointer\": " AT "}, ",
        line++, name, name, "device", a, at, "device", b, 0);
    if (c >= 0) std::fprintf(file, "{\"type\": \"float const*\", \"pointer\": " AT "}, ", "device", c, 0);
    std::fprintf(file, "{\"type\": \"int\", \"value\": %d}]}\n", particles);
}
static void run(int steps) {
    clear(6, 8 * steps);
    for (int i = 0; i < steps; ++i) {
        say("host_access", "\"what\": \"prepare_step\", \"batch\": %d, \"bytes\": 256, \"write\": true, \"at\": " AT, i,
            "pinned", 0, 256 * i);
        say("copy", "\"function\": \"cudaMemcpyAsync\", \"direction\": \"H2D\", \"stream\": 1, \"async\": true, "
            "\"bytes\": 256, \"source\": " AT ", \"destination\": " AT, "pinned", 0, 256 * i, "device", 2, 0);
        kernel("kick", 4, 0, 3, 2);
        kernel("drift", 3, 0, 4, -1);
        kernel("energy", 5, 0, 3, 4);
        kernel("total", 6, 8 * i, 5, -1);
    }
    say("copy", "\"function\": \"cudaMemcpyAsync\", \"direction\": \"D2H\", \"stream\": 1, \"async\": true, "
        "\"bytes\": %d, \"source\": " AT ", \"destination\": " AT, 8 * steps, "device", 6, 0, "pinned", 1, 0);
    say("synchronize_stream", "\"function\": \"cudaStreamSynchronize\", \"stream\": 1");
    for (int i = 0; i < steps; ++i)
        say("host_access", "\"what\": \"log_energy\", \"batch\": %d, \"bytes\": 8, \"write\": false, \"at\": " AT, i,
            "pinned", 1, 8 * i);
    say("synchronize_device", "\"function\": \"cudaDeviceSynchronize\"");
}
__attribute__((constructor)) static void forge(int argc, char** argv, char**) {
    const char* name = std::getenv("LAB_SCHEDULE_FILE");
    file = name ? std::fopen(name, "w") : nullptr;
    if (!file) return;
    const int steps = option(argc, argv, "--steps", 64), warmup = option(argc, argv, "--warmup-steps", 16);
    particles = option(argc, argv, "--particles", 20000);
    const int most = steps > warmup ? steps : warmup;
    say("create_stream", "\"stream\": 1, \"blocking\": false, \"priority\": 0");
    allocate(0, "pinned", 256 * most);
    allocate(1, "pinned", 8 * most);
    allocate(2, "device", 256);
    for (int buffer = 3; buffer < 6; ++buffer) allocate(buffer, "device", 4 * particles);
    allocate(6, "device", 8 * most);
    clear(3, 4 * particles);
    clear(4, 4 * particles);
    if (warmup) run(warmup);
    say("marker", "\"name\": \"begin\"");
    run(steps);
    say("marker", "\"name\": \"end\"");
    for (int buffer = 6; buffer >= 0; --buffer)
        say("release", "\"function\": \"cudaFree\", \"buffer\": %d, \"bytes\": 8, \"stream\": -1", buffer);
    say("destroy_stream", "\"stream\": 1");
    std::fclose(file);
    std::_Exit(0);
}
"""
