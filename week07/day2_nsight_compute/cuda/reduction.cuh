// The given half of the reduction: contract, data, ceiling and main().
//
//   void reduce_sum(const float* in, size_t count, float* out, float* scratch);
//
// launches kernels (and memsets, if need be) on the default stream so that *out is the sum of the
// `count` floats at `in`. What `out` and `scratch` hold before means nothing. `in` and `scratch` come
// from cudaMalloc (multiples of 256 bytes); any count from 1 on; `scratch` has room for kScratchFloats
// floats. It neither allocates nor waits. The sum may differ from the exact one by kRelativeError
// times the sum of the magnitudes: adding one float after the other loses more.
//
//   ./reduction_student                    2^28 floats: result, time, ratio to reading them and no more
//   ./reduction_student --once             one call between cudaProfilerStart and cudaProfilerStop
//   --count N                              another count
#pragma once

#include <cmath>

#include "bench.cuh"

constexpr size_t kScratchFloats = size_t{1} << 16;
constexpr double kRelativeError = 1e-5;

void reduce_sum(const float* in, size_t count, float* out, float* scratch);

__host__ __device__ inline float value_at(size_t index) {
    return float(unsigned(index * 2654435761u) >> 28) * 0.125f;  // 0 to 1.875 in eighths
}

__global__ void fill_values(float* values, size_t count) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) values[i] = value_at(i);
}

// The ceiling: every float is read once and nothing is written (no sum of bits is ever that one).
__global__ void __launch_bounds__(256) read_all(const uint4* in, size_t count, unsigned* out) {
    const size_t first = size_t(blockIdx.x) * blockDim.x * 8 + threadIdx.x;
    uint4 values[8];
#pragma unroll
    for (int k = 0; k < 8; ++k)
        values[k] = first + k * blockDim.x < count ? in[first + k * blockDim.x] : uint4{};
    unsigned bits = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) bits |= values[k].x | values[k].y | values[k].z | values[k].w;
    if (bits == 0xdeadbeefu) *out = bits;
}

int main(int argc, char** argv) {
    const size_t count = size_t(option(argc, argv, "--count", 1ll << 28));
    const int calls = int(option(argc, argv, "--calls", 1));
    if (count < 1 || calls < 1) {
        std::fprintf(stderr, "usage: %s [--count N] [--once | --plan [--calls N]]\n", argv[0]);
        return 2;
    }
    float *in = nullptr, *out = nullptr, *scratch = nullptr;
    CHECK(cudaMalloc(&in, count * sizeof(float)));
    CHECK(cudaMalloc(&out, sizeof(float)));
    CHECK(cudaMalloc(&scratch, kScratchFloats * sizeof(float)));
    auto own = [&] {
        reduce_sum(in, count, out, scratch);
        CHECK(cudaGetLastError());
    };
    if (flag(argc, argv, "--plan")) {  // the checks without a GPU: what is launched, how
        for (int call = 0; call < calls; ++call) own();
        CHECK(cudaDeviceSynchronize());
        return 0;
    }

    fill_values<<<unsigned((count + 255) / 256), 256>>>(in, count);
    CHECK(cudaDeviceSynchronize());
    if (flag(argc, argv, "--once")) {
        CHECK(cudaProfilerStart());
        own();
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaProfilerStop());
        return 0;
    }

    double exact = 0;
    for (size_t i = 0; i < count; ++i) exact += value_at(i);
    size_t wrong = 0;
    for (int call = 0; call < 2; ++call) {
        own();
        float found = 0;
        CHECK(cudaMemcpy(&found, out, sizeof found, cudaMemcpyDeviceToHost));
        wrong += !(std::fabs(found - exact) <= kRelativeError * exact);
    }
    auto ceiling = [&] {
        read_all<<<unsigned((count / 4 + 2047) / 2048), 256>>>((uint4*)in, count / 4, (unsigned*)out);
    };
    compare("reduction", own, "read", ceiling, wrong, double(count) * sizeof(float));
    return 0;
}
