// The given half of the transpose: contract, data, ceiling and main().
//
//   void transpose(const float* in, float* out, int rows, int columns);
//
// launches kernels on the default stream so that out[column * rows + row] = in[row * columns + column]
// for every row < rows and column < columns. Both pointers come from cudaMalloc (so they are multiples
// of 256 bytes) and do not overlap; rows and columns are 1 to 500,000. It neither allocates nor waits.
//
//   ./transpose_student                    16384 x 16384: result, time, ratio to a copy of as many bytes
//   ./transpose_student --once             one launch between cudaProfilerStart and cudaProfilerStop
//   --rows R --columns C                   another shape
#pragma once

#include "bench.cuh"

void transpose(const float* in, float* out, int rows, int columns);

__host__ __device__ inline float value_at(size_t index) {
    return float(unsigned(index * 2654435761u) >> 8);  // below 2^24: every float is exact
}

__global__ void fill_values(float* values, size_t count) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) values[i] = value_at(i);
}

__global__ void count_wrong(const float* out, int rows, int columns, unsigned long long* wrong) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= size_t(rows) * columns) return;
    size_t row = i % rows, column = i / rows;
    if (out[i] != value_at(row * columns + column)) atomicAdd(wrong, 1ull);
}

// The ceiling: as many bytes read and written, in the order in which they lie.
__global__ void copy_all(const float4* in, float4* out, size_t count) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) out[i] = in[i];
}

int main(int argc, char** argv) {
    const int rows = int(option(argc, argv, "--rows", 16384));
    const int columns = int(option(argc, argv, "--columns", 16384));
    if (rows < 1 || columns < 1) {
        std::fprintf(stderr, "usage: %s [--rows R] [--columns C] [--once | --plan]\n", argv[0]);
        return 2;
    }
    const size_t count = size_t(rows) * columns;
    float *in = nullptr, *out = nullptr;
    CHECK(cudaMalloc(&in, count * sizeof(float)));
    CHECK(cudaMalloc(&out, count * sizeof(float)));
    auto own = [&] {
        transpose(in, out, rows, columns);
        CHECK(cudaGetLastError());
    };
    if (flag(argc, argv, "--plan")) {  // the checks without a GPU: what is launched, how
        own();
        CHECK(cudaDeviceSynchronize());
        return 0;
    }

    const unsigned blocks = unsigned((count + 255) / 256);
    fill_values<<<blocks, 256>>>(in, count);
    CHECK(cudaMemset(out, 0xff, count * sizeof(float)));
    CHECK(cudaDeviceSynchronize());
    if (flag(argc, argv, "--once")) {
        CHECK(cudaProfilerStart());
        own();
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaProfilerStop());
        return 0;
    }

    own();
    unsigned long long *wrong = nullptr, found = 0;
    CHECK(cudaMalloc(&wrong, sizeof found));
    CHECK(cudaMemset(wrong, 0, sizeof found));
    count_wrong<<<blocks, 256>>>(out, rows, columns, wrong);
    CHECK(cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost));
    auto ceiling = [&] {
        copy_all<<<unsigned((count / 4 + 255) / 256), 256>>>((float4*)in, (float4*)out, count / 4);
    };
    compare("transpose", own, "copy", ceiling, size_t(found), 2.0 * count * sizeof(float));
    return 0;
}
