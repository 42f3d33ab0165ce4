// Particles: forces between all pairs, motion, and sums over all of them.

#include "case.cuh"

constexpr int kBlock = 256, kOthers = 4096;
constexpr int kBodies = 132 * 8 * kBlock;
constexpr size_t kMany = size_t{1} << 26;

static float *in, *out;

const float* result() { return out; }

// -- forces between all pairs ------------------------------------------------------------------------

__global__ void __launch_bounds__(kBlock, 8) forces(const float* in, float* out) {
    __shared__ float4 others[kBlock];
    const float4* bodies = (const float4*)in;
    const int i = blockIdx.x * kBlock + threadIdx.x;
    const float4 own = bodies[i];
    float x = 0, y = 0, z = 0;
    for (int at = 0; at < kOthers; at += kBlock) {
        __syncthreads();
        others[threadIdx.x] = bodies[at + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < kBlock; ++k) {
            const float4 other = others[k];
            float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            float near = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float pull = other.w * near * near * near;
            x += dx * pull, y += dy * pull, z += dz * pull;
        }
    }
    out[i] = (x + y + z) * 1e-3f;
}

// -- drift: the last blocks start when all others are done -------------------------------------------

constexpr int kSteps = 200, kWide = 1024, kNarrow = 128, kValues = 8;
constexpr unsigned kBlocks = 132 * 3 + 6;
constexpr size_t kDrifting = size_t(kBlocks) * kWide * kValues;
// Shared memory that a block reserves: one wide block fits on a multiprocessor, or eight narrow ones.
constexpr int kWideShared = 120 * 1024, kNarrowShared = 24 * 1024;

__global__ void __launch_bounds__(kWide, 1) drift(const float* in, float* out) {
    const size_t first = size_t(blockIdx.x) * blockDim.x * kValues + threadIdx.x;
    float place[kValues], speed[kValues] = {};
#pragma unroll
    for (int k = 0; k < kValues; ++k) place[k] = in[first + k * blockDim.x];
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int k = 0; k < kValues; ++k) {
            speed[k] = speed[k] * 0.999f + (0.5f - place[k]) * 0.001f;
            place[k] += speed[k] * 0.01f;
        }
#pragma unroll
    for (int k = 0; k < kValues; ++k) out[first + k * blockDim.x] = place[k];
}

void prepare_forces() { in = floats(kBodies * 4), out = memory<float>(kBodies); }
void prepare_drift() {
    in = floats(kDrifting), out = memory<float>(kDrifting);
    CHECK(cudaFuncSetAttribute(drift, cudaFuncAttributeMaxDynamicSharedMemorySize, kWideShared));
}

// -- motion: many loads, little else -------------------------------------------------------------------

// What a block reserves of shared memory limits how many fit on a multiprocessor.
__global__ void __launch_bounds__(128) move_all(const float* in, float* out, size_t count) {
    extern __shared__ float reserved[];
    size_t stride = size_t(gridDim.x) * blockDim.x;
    if (threadIdx.x == 0) reserved[0] = 0.5f;
    __syncthreads();
    const float half_step = reserved[0];
#pragma unroll 1
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
        out[i] = in[i] + half_step;
}

constexpr int kMuch = 200 * 1024, kLittle = 4 * 1024;
void move_much() { move_all<<<132 * 16, 128, kMuch>>>(in, out, kMany); }
void move_little() { move_all<<<132 * 16, 128, kLittle>>>(in, out, kMany); }
void prepare_move() {
    in = floats(kMany), out = memory<float>(kMany);
    CHECK(cudaFuncSetAttribute(move_all, cudaFuncAttributeMaxDynamicSharedMemorySize, kMuch));
}

// -- a sum: by one thread, or by all ----------------------------------------------------------------

constexpr int kSummed = 1 << 17;
__global__ void sum_by_one(const float* in, float* out) {
    float sum = 0;
    for (int i = 0; i < kSummed; ++i) sum += in[i] - 0.5f;
    out[0] = sum;
}
__global__ void sum_by_all(const float* in, float* out) {
    float sum = 0;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) out[0] = 0;
    sum = in[i] - 0.5f;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) atomicAdd(out + 1, sum);
}
void sum_in_order() { sum_by_one<<<1, 1>>>(in, out); }
void sum_at_once() {
    CHECK(cudaMemsetAsync(out + 1, 0, sizeof(float)));
    sum_by_all<<<kSummed / 256, 256>>>(in, out);
    CHECK(cudaMemcpyAsync(out, out + 1, sizeof(float), cudaMemcpyDeviceToDevice));
    CHECK(cudaMemsetAsync(out + 1, 0, sizeof(float)));
}
void prepare_sum() { in = floats(kSummed), out = memory<float>(kCompared); }

int main(int count, char** words) {
    return run(
        {
            {"forces", prepare_forces, [] { forces<<<kBodies / kBlock, kBlock>>>(in, out); },
             [] { forces<<<kBodies / kBlock, kBlock>>>(in, out); }, result},
            {"drift", prepare_drift, [] { drift<<<kBlocks, kWide, kWideShared>>>(in, out); },
             [] { drift<<<kBlocks * kWide / kNarrow, kNarrow, kNarrowShared>>>(in, out); }, result},
            {"move", prepare_move, move_much, move_little, result},
            {"sum", prepare_sum, sum_in_order, sum_at_once, result},
        },
        count, words);
}
