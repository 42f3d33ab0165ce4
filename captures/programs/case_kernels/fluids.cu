// A fluid comes to rest: each value becomes the mean of its neighbours, sweep after sweep.
//
// sick allocates the memory between two sweeps each time and releases it after them; fixed keeps it.

#include "case.cuh"

constexpr unsigned kSide = 8192, kSweeps = 6;
constexpr size_t kCells = size_t(kSide) * kSide;

static float *in, *out, *kept;

const float* result() { return out; }

__global__ void relax(const float* from, float* to) {
    const unsigned column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    const size_t i = size_t(row) * kSide + column;
    const float left = column ? from[i - 1] : 0.0f, right = column + 1 < kSide ? from[i + 1] : 0.0f;
    const float above = row ? from[i - kSide] : 0.0f, below = row + 1 < kSide ? from[i + kSide] : 0.0f;
    to[i] = 0.25f * (left + right + above + below);
}

void sweeps(bool keeps) {
    const dim3 blocks(kSide / 256, kSide);
    for (unsigned sweep = 0; sweep < kSweeps; ++sweep) {
        float* between = kept;
        if (!keeps) CHECK(cudaMalloc(&between, kCells * sizeof(float)));
        relax<<<blocks, 256>>>(sweep ? out : in, between);
        relax<<<blocks, 256>>>(between, out);
        if (!keeps) CHECK(cudaFree(between));
    }
}
void prepare() {
    in = floats(kCells), out = memory<float>(kCells), kept = memory<float>(kCells);
}

int main(int count, char** words) {
    return run({{"rest", prepare, [] { sweeps(false); }, [] { sweeps(true); }, result}}, count, words);
}
