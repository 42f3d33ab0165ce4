// Tables of measured values: one field of many records, means of a few sensors, a long series, phases.

#include "case.cuh"

static float *in, *out;

const float* result() { return out; }

// -- one field of records that have eight ------------------------------------------------------------

constexpr size_t kRecords = size_t{1} << 24;
struct Record {
    float x, y, z, mass, u, v, w, charge;
};
__global__ void weigh_records(const Record* records, float* out) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    out[i] = records[i].mass * 0.5f + 1.0f;
}
// The same masses, one after the other.
static float* masses;
__global__ void take_masses(const Record* records, float* masses) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    masses[i] = records[i].mass;
}
__global__ void weigh_masses(const float* masses, float* out) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    out[i] = masses[i] * 0.5f + 1.0f;
}
void prepare_fields() {
    in = floats(kRecords * 8), out = memory<float>(kRecords), masses = memory<float>(kRecords);
    take_masses<<<kRecords / 256, 256>>>((Record*)in, masses);
}

// -- means of twelve sensors -------------------------------------------------------------------------

constexpr unsigned kSensors = 12, kOfEach = 1u << 21, kPieces = 128, kThreads = 512;
__device__ void add_block(float sum, float* to) {
    __shared__ float sums[kThreads / 32];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    sum = 0;
    for (unsigned warp = 0; warp < kThreads / 32; ++warp) sum += sums[warp];
    atomicAdd(to, sum / kOfEach);
}
__global__ void __launch_bounds__(kThreads) mean_of_each(const float* in, float* out) {
    const float* own = in + size_t(blockIdx.x) * kOfEach;
    float sum = 0;
#pragma unroll 8
    for (unsigned i = threadIdx.x; i < kOfEach; i += kThreads) sum += own[i];
    add_block(sum, out + blockIdx.x);
}
__global__ void __launch_bounds__(kThreads) mean_of_pieces(const float* in, float* out) {
    const unsigned sensor = blockIdx.x / kPieces, piece = blockIdx.x % kPieces;
    const float* own = in + size_t(sensor) * kOfEach + piece * (kOfEach / kPieces);
    float sum = 0;
#pragma unroll 8
    for (unsigned i = threadIdx.x; i < kOfEach / kPieces; i += kThreads) sum += own[i];
    add_block(sum, out + sensor);
}
void clear() { CHECK(cudaMemsetAsync(out, 0, kCompared * sizeof(float))); }
void prepare_means() { in = floats(size_t(kSensors) * kOfEach), out = memory<float>(kCompared); }

// -- a long series of powers, for each value -----------------------------------------------------------

constexpr int kTerms = 768;
constexpr size_t kArguments = size_t{1} << 24;
__constant__ float coefficients[kTerms];
__global__ void __launch_bounds__(256) sum_series(const float* in, float* out) {
    const size_t i = size_t(blockIdx.x) * blockDim.x * 4 + threadIdx.x;
    float x[4], sum[4] = {};
#pragma unroll
    for (int k = 0; k < 4; ++k) x[k] = in[i + k * blockDim.x];
#pragma unroll 32
    for (int term = 0; term < kTerms; ++term)
#pragma unroll
        for (int k = 0; k < 4; ++k) sum[k] = sum[k] * x[k] + coefficients[term];
#pragma unroll
    for (int k = 0; k < 4; ++k) out[i + k * blockDim.x] = sum[k];
}
void sum_all() { sum_series<<<kArguments / 4 / 256, 256>>>(in, out); }
void prepare_series() {
    std::vector<float> values(kTerms);
    for (int term = 0; term < kTerms; ++term) values[term] = unit(term) - 0.5f;
    CHECK(cudaMemcpyToSymbol(coefficients, values.data(), kTerms * sizeof(float)));
    in = floats(kArguments), out = memory<float>(kArguments);
}

// -- phases, turned step by step: every block takes equally long ------------------------------------------

constexpr int kTurns = 300, kWide = 1024, kNarrow = 128, kPairs = 4;
constexpr unsigned kBlocks = 132 * 7 + 8;
constexpr size_t kPhases = size_t(kBlocks) * kWide * kPairs;
// Shared memory that a block reserves: one wide block fits on a multiprocessor, or eight narrow ones.
constexpr int kWideShared = 120 * 1024, kNarrowShared = 24 * 1024;
__global__ void __launch_bounds__(kWide, 1) turn_phases(const float* in, float* out) {
    const size_t first = size_t(blockIdx.x) * blockDim.x * kPairs + threadIdx.x;
    float real[kPairs], imaginary[kPairs] = {};
#pragma unroll
    for (int k = 0; k < kPairs; ++k) real[k] = in[first + k * blockDim.x];
#pragma unroll 1
    for (int turn = 0; turn < kTurns; ++turn)
#pragma unroll
        for (int k = 0; k < kPairs; ++k) {
            const float before = real[k];
            real[k] = before * 0.9998f - imaginary[k] * 0.02f;
            imaginary[k] = imaginary[k] * 0.9998f + before * 0.02f;
        }
#pragma unroll
    for (int k = 0; k < kPairs; ++k) out[first + k * blockDim.x] = real[k] + imaginary[k];
}
void prepare_phases() {
    in = floats(kPhases), out = memory<float>(kPhases);
    CHECK(cudaFuncSetAttribute(turn_phases, cudaFuncAttributeMaxDynamicSharedMemorySize, kWideShared));
}

int main(int count, char** words) {
    return run(
        {
            {"fields", prepare_fields,
             [] { weigh_records<<<kRecords / 256, 256>>>((Record*)in, out); },
             [] { weigh_masses<<<kRecords / 256, 256>>>(masses, out); }, result},
            {"means", prepare_means, [] { clear(), mean_of_each<<<kSensors, kThreads>>>(in, out); },
             [] { clear(), mean_of_pieces<<<kSensors * kPieces, kThreads>>>(in, out); }, result},
            {"series", prepare_series, sum_all, sum_all, result},
            {"phases", prepare_phases, [] { turn_phases<<<kBlocks, kWide, kWideShared>>>(in, out); },
             [] { turn_phases<<<kBlocks * kWide / kNarrow, kNarrow, kNarrowShared>>>(in, out); },
             result},
        },
        count, words);
}
