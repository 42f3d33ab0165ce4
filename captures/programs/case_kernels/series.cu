// Series of readings: scaled, smoothed, followed, and fitted.

#include "case.cuh"

constexpr size_t kReadings = size_t{1} << 26;
constexpr unsigned kLinks = 1u << 22;

static float *in, *out;
static unsigned* next;

const float* result() { return out; }

// -- scaled: each value once -----------------------------------------------------------------------

__global__ void scale(const float4* in, float4* out) {
    size_t i = size_t(blockIdx.x) * blockDim.x * 4 + threadIdx.x;
    float4 values[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) values[k] = in[i + k * blockDim.x];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        float4 v = values[k];
        out[i + k * blockDim.x] = make_float4(v.x * 2 + 1, v.y * 2 + 1, v.z * 2 + 1, v.w * 2 + 1);
    }
}
void scale_all() { scale<<<kReadings / 16 / 256, 256>>>((float4*)in, (float4*)out); }
void prepare_scale() { in = floats(kReadings), out = memory<float>(kReadings); }

// -- smoothed: readings of one sensor lie 32 apart; each is wanted 64 times, and comes from the caches ------

constexpr int kTaps = 64, kSensors = 32, kNeighbours = 8;
constexpr size_t kSmoothed = size_t{1} << 24;
__global__ void __launch_bounds__(256) smooth_each(const float* in, float* out) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kTaps; ++k) sum += in[i + k * kSensors];
    out[i] = sum * (1.0f / kTaps);
}
// A thread smooths eight neighbours of one sensor and keeps what they share in registers.
__global__ void __launch_bounds__(256) smooth_eight(const float* in, float* out) {
    const size_t thread = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const size_t i = thread / kSensors * kSensors * kNeighbours + thread % kSensors;
    float sums[kNeighbours] = {};
#pragma unroll
    for (int k = 0; k < kTaps + kNeighbours - 1; ++k) {
        const float value = in[i + k * kSensors];
#pragma unroll
        for (int place = 0; place < kNeighbours; ++place)
            if (k >= place && k < place + kTaps) sums[place] += value;
    }
#pragma unroll
    for (int place = 0; place < kNeighbours; ++place)
        out[i + place * kSensors] = sums[place] * (1.0f / kTaps);
}
void prepare_smooth() { in = floats(kSmoothed + 4096), out = memory<float>(kSmoothed); }

// -- followed: where the next one lies is known when this one has come -----------------------------------

__host__ __device__ inline unsigned next_link(unsigned i) { return (i * 22695477u + 1u) % kLinks; }
constexpr unsigned kChains = 132 * 64 * 4;
constexpr int kHops = 128;

template <int Together>
__device__ void followed(const unsigned* next, float* out) {
    unsigned chain = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * Together, at[Together];
#pragma unroll
    for (int k = 0; k < Together; ++k) at[k] = (chain + k) * 89u % kLinks;
#pragma unroll 1
    for (int hop = 0; hop < kHops; ++hop)
#pragma unroll
        for (int k = 0; k < Together; ++k) at[k] = next[at[k]];
    if (threadIdx.x % 32 == 0)
        for (int k = 0; k < Together; ++k) out[chain + k] = float(at[k] % 1024);
}
__global__ void follow_one_chain(const unsigned* next, float* out) { followed<1>(next, out); }
__global__ void follow_four_chains(const unsigned* next, float* out) { followed<4>(next, out); }
void prepare_follow() {
    std::vector<unsigned> links(kLinks);
    for (unsigned i = 0; i < kLinks; ++i) links[i] = next_link(i);
    next = memory<unsigned>(kLinks), out = memory<float>(kChains);
    CHECK(cudaMemcpy(next, links.data(), kLinks * sizeof(unsigned), cudaMemcpyHostToDevice));
}

// -- fitted: a thread keeps 64 values alive ----------------------------------------------------------

constexpr int kAlive = 64, kRoundsOfFit = 12;
constexpr size_t kFits = size_t{1} << 19;
__device__ float fitted(const float* in, size_t i) {
    float values[kAlive];
#pragma unroll
    for (int k = 0; k < kAlive; ++k) values[k] = in[i + k * kFits];
#pragma unroll 1
    for (int round = 0; round < kRoundsOfFit; ++round) {
#pragma unroll
        for (int k = 0; k < kAlive; ++k)
            values[k] = values[k] * 0.75f + values[(k + 17) % kAlive] * 0.25f;
    }
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kAlive; ++k) sum += values[k] * (k + 1);
    return sum;
}
// So many resident threads leave each of them 32 registers.
__global__ void __launch_bounds__(256, 8) fit_32_registers(const float* in, float* out) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    out[i] = fitted(in, i);
}
__global__ void __launch_bounds__(256, 2) fit_128_registers(const float* in, float* out) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    out[i] = fitted(in, i);
}
void prepare_fit() { in = floats(kFits * kAlive), out = memory<float>(kFits); }

int main(int count, char** words) {
    return run(
        {
            {"scale", prepare_scale, scale_all, scale_all, result},
            {"smooth", prepare_smooth, [] { smooth_each<<<kSmoothed / 256, 256>>>(in, out); },
             [] { smooth_eight<<<kSmoothed / 256 / 8, 256>>>(in, out); }, result},
            {"follow", prepare_follow, [] { follow_one_chain<<<kChains * 32 / 256, 256>>>(next, out); },
             [] { follow_four_chains<<<kChains / 4 * 32 / 256, 256>>>(next, out); }, result},
            {"fit", prepare_fit, [] { fit_32_registers<<<kFits / 256, 256>>>(in, out); },
             [] { fit_128_registers<<<kFits / 256, 256>>>(in, out); }, result},
        },
        count, words);
}
