// The same work in more or fewer blocks, warps, lanes and chains.

#include "bench.cuh"

constexpr size_t kFloats = size_t{1} << 26;
constexpr int kValues = 32, kRounds = 128, kItems = 8, kWideBlock = 1024;
constexpr size_t kEvolved = size_t{140} * kItems * kWideBlock;  // threads in all
constexpr size_t kSurfaces = size_t{1} << 23;
constexpr int kMaterials = 8, kBounces = 32;
constexpr int kWindows = 128, kTurns = 2, kSteps = kWindows * kTurns;
constexpr size_t kStreams = kFloats / kSteps;
constexpr unsigned kLinks = 1u << 22;
constexpr int kHops = 256;
constexpr unsigned kChains = 132 * 64 * 4;

__device__ void normalise_part(const float* in, float* out, float mean, float factor) {
    size_t stride = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < kFloats; i += 4 * stride) {
        float values[4];
#pragma unroll
        for (int k = 0; k < 4; ++k)
            if (i + k * stride < kFloats) values[k] = in[i + k * stride];
#pragma unroll
        for (int k = 0; k < 4; ++k)
            if (i + k * stride < kFloats) out[i + k * stride] = (values[k] - mean) * factor;
    }
}

__global__ void __launch_bounds__(bench::kThreads, 8)
normalise_32_blocks(const float* in, float* out, float mean, float factor) {
    normalise_part(in, out, mean, factor);
}
__global__ void __launch_bounds__(bench::kThreads, 8)
normalise_1056_blocks(const float* in, float* out, float mean, float factor) {
    normalise_part(in, out, mean, factor);
}

__device__ float evolved(float start) {
    float value[kValues], sum = 0;
#pragma unroll
    for (int k = 0; k < kValues; ++k) value[k] = start + k;
#pragma unroll 1
    for (int round = 0; round < kRounds; ++round)
#pragma unroll
        for (int k = 0; k < kValues; ++k) value[k] = value[k] * 0.999f + 0.001f;
#pragma unroll
    for (int k = 0; k < kValues; ++k) sum += value[k];
    return sum;
}

// A block does eight items, one after the other, or one.
__global__ void __launch_bounds__(kWideBlock, 1) evolve_140_blocks(const float* in, float* out) {
#pragma unroll 1
    for (int item = 0; item < kItems; ++item) {
        size_t i = (size_t(blockIdx.x) * kItems + item) * kWideBlock + threadIdx.x;
        out[i] = evolved(in[i]);
    }
}
__global__ void __launch_bounds__(kWideBlock, 1) evolve_1120_blocks(const float* in, float* out) {
    size_t i = size_t(blockIdx.x) * kWideBlock + threadIdx.x;
    out[i] = evolved(in[i]);
}

__device__ float shaded(float x, int material) {
    switch (material) {
        case 0:
#pragma unroll 1
            for (int k = 0; k < kBounces; ++k) x = sqrtf(x + 1.0f);
            return x;
        case 1:
#pragma unroll 1
            for (int k = 0; k < kBounces; ++k) x = __expf(-x);
            return x;
        case 2:
#pragma unroll 1
            for (int k = 0; k < kBounces; ++k) x = __sinf(x) + 0.5f;
            return x;
        case 3:
#pragma unroll 1
            for (int k = 0; k < kBounces; ++k) x = __fdividef(x, 1.0f + x) + 0.25f;
            return x;
        case 4:
#pragma unroll 1
            for (int k = 0; k < kBounces; ++k) x = x * x * (1.5f - x) + 0.125f;
            return x;
        case 5:
#pragma unroll 1
            for (int k = 0; k < kBounces; ++k) x = rsqrtf(1.0f + x);
            return x;
        case 6:
#pragma unroll 1
            for (int k = 0; k < kBounces; ++k) x = __logf(x + 2.0f);
            return x;
        default:
#pragma unroll 1
            for (int k = 0; k < kBounces; ++k) x = __cosf(x) * 0.5f;
            return x;
    }
}

__global__ void shade_mixed(const float* in, const int* material, float* out) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    out[i] = shaded(in[i], material[i]);
}
__global__ void shade_sorted(const float* in, const int* material, float* out) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    out[i] = shaded(in[i], material[i]);
}

// Odd lanes do a little more; all of it fits beside the loads and stores.
__global__ void lift_odd(const float* in, float* out) {
    size_t first = size_t(blockIdx.x) * blockDim.x * 8 + threadIdx.x;
    float values[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) values[k] = in[first + k * blockDim.x];
    if (threadIdx.x % 2) {
#pragma unroll
        for (int k = 0; k < 8; ++k) values[k] = __fdividef(1.0f, 1.0f + values[k] * values[k]);
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) out[first + k * blockDim.x] = values[k];
}

// A warp reads lines of 32 floats of its stream, one after the other (where the next one lies depends
// on what was read), and adds every one to one of `Own` sums. Sum w belongs to step w of each turn.
template <int Own>
__device__ void window_sums(const float* in, float* sums) {
    const int lane = threadIdx.x % 32;
    const size_t warp = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    const size_t stream = warp / (kWindows / Own);
    const int first = int(warp % (kWindows / Own)) * Own;
    float own[Own];
#pragma unroll
    for (int w = 0; w < Own; ++w) own[w] = 0;
    unsigned skipped = 0;
#pragma unroll 1
    for (int turn = 0; turn < kTurns; ++turn)
#pragma unroll
        for (int w = 0; w < Own; ++w) {
            size_t line = stream * kSteps + turn * kWindows + first + w + skipped;
            float value = in[line * 32 + lane];
            own[w] += value;
            skipped += value > 1.0f;  // never, but only the data knows
        }
#pragma unroll
    for (int w = 0; w < Own; ++w) sums[(stream * kWindows + first + w) * 32 + lane] = own[w];
}

__global__ void __launch_bounds__(128) windows_128(const float* in, float* sums) {
    window_sums<128>(in, sums);
}
__global__ void __launch_bounds__(128) windows_16(const float* in, float* sums) {
    window_sums<16>(in, sums);
}

__host__ __device__ inline unsigned next_link(unsigned i) { return (i * 1664525u + 1013904223u) % kLinks; }

// A warp follows one chain of links, or four at a time.
__global__ void follow_one(const unsigned* next, unsigned* ends) {
    unsigned chain = (blockIdx.x * blockDim.x + threadIdx.x) / 32, at = chain * 97u % kLinks;
#pragma unroll 1
    for (int hop = 0; hop < kHops; ++hop) at = next[at];
    if (threadIdx.x % 32 == 0) ends[chain] = at;
}
__global__ void follow_four(const unsigned* next, unsigned* ends) {
    unsigned chain = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 4, at[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) at[k] = (chain + k) * 97u % kLinks;
#pragma unroll 1
    for (int hop = 0; hop < kHops; ++hop)
#pragma unroll
        for (int k = 0; k < 4; ++k) at[k] = next[at[k]];
    if (threadIdx.x % 32 == 0)
        for (int k = 0; k < 4; ++k) ends[chain + k] = at[k];
}

// As many blocks as fit at once, each walking through its share.
__global__ void __launch_bounds__(bench::kThreads, 8) copy_resident(const float4* in, float4* out) {
    size_t stride = size_t(gridDim.x) * blockDim.x;
#pragma unroll 4
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < kFloats / 4; i += stride)
        out[i] = in[i];
}

int main(int count, char** arguments) {
    using bench::unit;
    constexpr int kThreads = bench::kThreads;

    float* in = bench::filled<float>(kFloats, [] __device__(size_t i) { return unit(i); });
    float* out = bench::allocate<float>(kFloats);
    int* mixed = bench::filled<int>(
        kSurfaces, [] __device__(size_t i) { return int(unit(i + 5) * kMaterials); });
    int* sorted = bench::filled<int>(
        kSurfaces, [] __device__(size_t i) { return int(i / (kSurfaces / kMaterials)); });
    unsigned* next =
        bench::filled<unsigned>(kLinks, [] __device__(size_t i) { return next_link(unsigned(i)); });
    unsigned* ends = bench::allocate<unsigned>(kChains);

    auto normalised_is_wrong = [=] __device__(size_t i) {
        return fabsf(out[i] - (unit(i) - 0.5f) * 2.0f) > 1e-6f;
    };
    auto evolved_is_wrong = [=] __device__(size_t i) {
        double factor = pow(0.999, double(kRounds)), sum = 0;
        for (int k = 0; k < kValues; ++k) sum += factor * (unit(i) + k - 1) + 1;
        return fabs(sum - out[i]) > 5e-2;
    };
    auto windows_are_wrong = [=] __device__(size_t i) {
        size_t lane = i % 32, window = i / 32 % kWindows, stream = i / 32 / kWindows;
        double sum = 0;
        for (int turn = 0; turn < kTurns; ++turn)
            sum += unit((stream * kSteps + turn * kWindows + window) * 32 + lane);
        return fabs(sum - out[i]) > 1e-5;
    };
    auto ends_are_wrong = [=] __device__(size_t chain) {
        unsigned at = unsigned(chain) * 97u % kLinks;
        for (int hop = 0; hop < kHops; ++hop) at = next_link(at);
        return at != ends[chain];
    };
    auto shade_check = [=](const int* material) {
        return bench::checked(kSurfaces, [=] __device__(size_t i) {
            return !(fabsf(out[i] - shaded(unit(i), material[i])) < 1e-3f);
        });
    };
    const double all = kFloats * 4.0, evolved_flops = 2.0 * kEvolved * kValues * kRounds;
    const size_t windows = kStreams / 32 * kWindows * 32;
    std::vector<bench::Kernel> kernels = {
        {"normalise_32_blocks", 2 * all, 2.0 * kFloats, 6,
         [=] { normalise_32_blocks<<<32, kThreads>>>(in, out, 0.5f, 2.0f); },
         bench::checked(kFloats, normalised_is_wrong)},
        {"normalise_1056_blocks", 2 * all, 2.0 * kFloats, 6,
         [=] { normalise_1056_blocks<<<1056, kThreads>>>(in, out, 0.5f, 2.0f); },
         bench::checked(kFloats, normalised_is_wrong)},
        {"evolve_140_blocks", 2.0 * kEvolved * 4, evolved_flops, 4,
         [=] { evolve_140_blocks<<<140, kWideBlock>>>(in, out); },
         bench::checked(kEvolved, evolved_is_wrong)},
        {"evolve_1120_blocks", 2.0 * kEvolved * 4, evolved_flops, 4,
         [=] { evolve_1120_blocks<<<1120, kWideBlock>>>(in, out); },
         bench::checked(kEvolved, evolved_is_wrong)},
        {"shade_mixed", 3.0 * kSurfaces * 4, 0, 3,
         [=] { shade_mixed<<<kSurfaces / kThreads, kThreads>>>(in, mixed, out); },
         shade_check(mixed)},
        {"shade_sorted", 3.0 * kSurfaces * 4, 0, 3,
         [=] { shade_sorted<<<kSurfaces / kThreads, kThreads>>>(in, sorted, out); },
         shade_check(sorted)},
        {"lift_odd", 2 * all, 0, 2, [=] { lift_odd<<<kFloats / 8 / kThreads, kThreads>>>(in, out); },
         bench::checked(kFloats, [=] __device__(size_t i) {
             float value = unit(i);
             if (i % 2) value = 1.0f / (1.0f + value * value);
             return fabsf(value - out[i]) > 1e-4f;
         })},
        {"windows_128", all + windows * 4.0, double(kFloats), 2,
         [=] { windows_128<<<kStreams / 128, 128>>>(in, out); },
         bench::checked(windows, windows_are_wrong)},
        {"windows_16", all + windows * 4.0, double(kFloats), 2,
         [=] { windows_16<<<kStreams / 128 * 8, 128>>>(in, out); },
         bench::checked(windows, windows_are_wrong)},
        {"follow_one", kLinks * 4.0 + kChains * 4.0, 0, 8,
         [=] { follow_one<<<kChains * 32 / kThreads, kThreads>>>(next, ends); },
         bench::checked(kChains, ends_are_wrong)},
        {"follow_four", kLinks * 4.0 + kChains * 4.0, 0, 8,
         [=] { follow_four<<<kChains / 4 * 32 / kThreads, kThreads>>>(next, ends); },
         bench::checked(kChains, ends_are_wrong)},
        {"copy_resident", 2 * all, 0, 2,
         [=] { copy_resident<<<1056, kThreads>>>((float4*)in, (float4*)out); },
         bench::checked(kFloats, [=] __device__(size_t i) { return out[i] != unit(i); })},
    };
    return bench::run(kernels, count, arguments);
}
