// A graph in which most edges lead to a few nodes: messages are delivered along the edges.

#include "case.cuh"

constexpr unsigned kEdges = 1u << 24, kNodes = 1u << 18, kHubs = 16;

static float *in, *out;
static unsigned* target;

const float* result() { return out; }

// Nine edges of ten lead to a hub; hubs are the first nodes.
__host__ __device__ inline unsigned target_of(unsigned edge) {
    const float choice = unit(edge), place = unit(edge ^ 0x5bd1e995u);
    return choice < 0.9f ? unsigned(place * kHubs) : unsigned(place * kNodes);
}
__global__ void set_targets(unsigned* target) {
    unsigned edge = blockIdx.x * blockDim.x + threadIdx.x;
    target[edge] = target_of(edge);
}

__global__ void deliver_each(const float* messages, const unsigned* target, float* nodes) {
    unsigned edge = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(nodes + target[edge], messages[edge]);
}

// What goes to the hubs is added up in a block first; a lane has sums of its own.
constexpr unsigned kBlocks = 132 * 4, kThreads = 256;
__global__ void __launch_bounds__(kThreads)
deliver_sums(const float* messages, const unsigned* target, float* nodes) {
    __shared__ float sums[kHubs][kThreads + 1];
    for (unsigned hub = 0; hub < kHubs; ++hub) sums[hub][threadIdx.x] = 0;
#pragma unroll 4
    for (unsigned edge = blockIdx.x * kThreads + threadIdx.x; edge < kEdges; edge += kBlocks * kThreads) {
        const unsigned node = target[edge];
        const float message = messages[edge];
        if (node < kHubs)
            sums[node][threadIdx.x] += message;
        else
            atomicAdd(nodes + node, message);
    }
    __syncthreads();
    const unsigned hub = threadIdx.x / 16;
    float sum = 0;
    for (unsigned k = threadIdx.x % 16; k < kThreads; k += 16) sum += sums[hub][k];
    for (int step = 8; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step, 16);
    if (threadIdx.x % 16 == 0) atomicAdd(nodes + hub, sum);
}

void clear() { CHECK(cudaMemsetAsync(out, 0, kNodes * sizeof(float))); }
void prepare() {
    in = floats(kEdges), out = memory<float>(kNodes), target = memory<unsigned>(kEdges);
    set_targets<<<kEdges / 256, 256>>>(target);
}

int main(int count, char** words) {
    return run(
        {
            {"deliver", prepare,
             [] { clear(), deliver_each<<<kEdges / 256, 256>>>(in, target, out); },
             [] { clear(), deliver_sums<<<kBlocks, kThreads>>>(in, target, out); }, result},
        },
        count, words);
}
