// The steps of the loop: the same product, each time without what the counters named.
//
// Build and run: make run      Counters: make counters      Contract: sgemm.cuh, top
#include "sgemm.cuh"

// TODO(ncu_ex04.shared_tile): every element of A and B is read from memory once a block, not once a
// thread. How many threads of a block use the same element of A?
void shared_tile(const float* a, const float* b, float* c, int m, int n, int k) {
    naive(a, b, c, m, n, k);
}

// TODO(ncu_ex04.thread_tile): what a thread reads from shared memory it uses more than once. How many
// elements must it compute so that there are four multiply-adds for each read?
void thread_tile(const float* a, const float* b, float* c, int m, int n, int k) {
    naive(a, b, c, m, n, k);
}

// TODO(ncu_ex04.fast): as many steps as it takes. What do the counters of thread_tile name first? Give
// each change a row in kSteps, so that it is timed and profiled beside the others; "fast" is the one
// that you keep.
void fast(const float* a, const float* b, float* c, int m, int n, int k) {
    naive(a, b, c, m, n, k);
}

const std::vector<Step> kSteps = {
    {"naive", naive},
    {"coalesced", coalesced},
    {"shared_tile", shared_tile},
    {"thread_tile", thread_tile},
    {"fast", fast},
};
