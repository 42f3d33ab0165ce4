// Two inputs and one output at the speed of a device copy.
//
// Build and run: make run      Counters: make counters      Contract: memory_bandwidth.cuh, top
#include "memory_bandwidth.cuh"

// TODO(ncu_ex01.triad): the same answer at the speed of a copy. Which addresses does a warp below
// ask for in one instruction, and how many sectors is that? How many bytes has a thread under way?
__global__ void triad_pieces(const float* a, const float* b, float* c, float factor, size_t count) {
    const size_t threads = size_t(gridDim.x) * blockDim.x;
    const size_t piece = (count + threads - 1) / threads;
    const size_t first = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) * piece;
    for (size_t i = first; i < first + piece && i < count; ++i) c[i] = a[i] + factor * b[i];
}

void triad(const float* a, const float* b, float* c, float factor, int count) {
    const unsigned blocks = bench::blocks_for(bench::blocks_for(count, 32));
    triad_pieces<<<blocks, bench::kThreads>>>(a, b, c, factor, size_t(count));
}
