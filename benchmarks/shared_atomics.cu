// Threads of a block add to shared memory, again and again: to one word, to a word each in one bank, to a word
// each side by side. Prints a line of JSON: ns of each, in turns.
#include <cstdio>
#include <vector>

constexpr int kThreads = 256, kBlocks = 1056, kAdds = 200, kRounds = 9;
constexpr int kBanks = 32;

struct Pattern {
    const char* name;
    int stride;  // words between neighbouring threads
};
const Pattern kPatterns[] = {{"one_word", 0}, {"one_bank", kBanks}, {"padded", kBanks + 1}, {"side_by_side", 1}};

__global__ void add(unsigned* out, int stride) {
    __shared__ unsigned words[kThreads * (kBanks + 1)];
    for (int i = threadIdx.x; i < kThreads * (kBanks + 1); i += kThreads) words[i] = 0;
    __syncthreads();
    unsigned* mine = words + threadIdx.x * stride;
    for (int i = 0; i < kAdds; ++i) atomicAdd(mine, i + threadIdx.x);
    __syncthreads();
    out[blockIdx.x * kThreads + threadIdx.x] = words[threadIdx.x * (kBanks + 1)];
}

int main() {
    unsigned* out;
    cudaMalloc(&out, sizeof(unsigned) * kBlocks * kThreads);
    cudaEvent_t start, end;
    cudaEventCreate(&start);
    cudaEventCreate(&end);
    std::vector<long> ns[4];
    for (int round = -1; round < kRounds; ++round) {  // the first one warms up
        for (int i = 0; i < 4; ++i) {
            cudaEventRecord(start);
            add<<<kBlocks, kThreads>>>(out, kPatterns[i].stride);
            cudaEventRecord(end);
            cudaEventSynchronize(end);
            float ms = 0;
            cudaEventElapsedTime(&ms, start, end);
            if (round >= 0) ns[i].push_back(static_cast<long>(ms * 1e6f));
        }
    }
    if (cudaError_t error = cudaGetLastError()) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        return 1;
    }
    std::printf("RESULT {");
    for (int i = 0; i < 4; ++i) {
        std::printf("%s\"%s\": [", i ? ", " : "", kPatterns[i].name);
        for (size_t k = 0; k < ns[i].size(); ++k) std::printf("%s%ld", k ? ", " : "", ns[i][k]);
        std::printf("]");
    }
    std::printf("}\n");
}
