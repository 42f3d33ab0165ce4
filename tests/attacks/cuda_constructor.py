"""Host code that runs before main(): writes outside, asks for the network, forks and stays."""

EXERCISE = "nsys_ex01"
STUB = "modules/01-nsight-systems/ex01-timeline-basics/improved.cu"
WANTS = ("improved",)
DANGEROUS = True
SUBMITTED = r"""
#include "particles.cuh"
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>
struct Simulation {};
Simulation* create_simulation(int, int) { return nullptr; }
void run_simulation(Simulation&, int) {}
void destroy_simulation(Simulation*) {}
__attribute__((constructor)) static void strike() {
    for (const char* path : {"@CANARY@", "@COURSE@/course.toml.evil", "@OUT@/results.jsonl"})
        if (FILE* file = std::fopen(path, "a")) { std::fputs("written\n", file); std::fclose(file); }
    if (socket(AF_INET, SOCK_STREAM, 0) >= 0) std::system("echo network >> '@CANARY@'");
    for (int i = 0; i < 3; ++i)
        if (fork() == 0) {
            setsid();
            for (int number = 1; number < 65; ++number) signal(number, SIG_IGN);
            for (int fd = 0; fd < 64; ++fd) close(fd);
            sleep(60);
            _exit(0);
        }
}
"""
