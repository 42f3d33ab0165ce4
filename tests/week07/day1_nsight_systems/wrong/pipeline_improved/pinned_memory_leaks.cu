// CAUGHT_BY: test_everything_is_released
// SAYS: pinned host buffer
//
// The pinned buffers are never given back.
#include "pipeline.cuh"

constexpr int kSlots = 4;

struct Slot {
    cudaStream_t stream;
    cudaEvent_t done;
    float* host_input;
    float* host_output;
    float* device_a;
    float* device_b;
};

struct Pipeline {
    int elements;
    int iterations;
    Slot slots[kSlots];
};

Pipeline* create_pipeline(int elements, int iterations) {
    auto* pipeline = new Pipeline{elements, iterations, {}};
    const size_t bytes = sizeof(float) * elements;
    for (Slot& slot : pipeline->slots) {
        CHECK(cudaStreamCreateWithFlags(&slot.stream, cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&slot.done, cudaEventDisableTiming));
        CHECK(cudaMallocHost(&slot.host_input, bytes));
        CHECK(cudaMallocHost(&slot.host_output, bytes));
        CHECK(cudaMalloc(&slot.device_a, bytes));
        CHECK(cudaMalloc(&slot.device_b, bytes));
    }
    return pipeline;
}

void destroy_pipeline(Pipeline* pipeline) {
    for (Slot& slot : pipeline->slots) {
        CHECK(cudaFree(slot.device_a));
        CHECK(cudaFree(slot.device_b));
        CHECK(cudaEventDestroy(slot.done));
        CHECK(cudaStreamDestroy(slot.stream));
    }
    delete pipeline;
}

static void issue_batch(const Pipeline& pipeline, Slot& slot) {
    const int elements = pipeline.elements;
    const int blocks = blocks_for(elements);
    const size_t bytes = sizeof(float) * elements;
    CHECK(cudaMemcpyAsync(slot.device_a, slot.host_input, bytes, cudaMemcpyHostToDevice,
                          slot.stream));
    normalise<<<blocks, kThreads, 0, slot.stream>>>(slot.device_a, slot.device_b, elements);
    infer<<<blocks, kThreads, 0, slot.stream>>>(slot.device_b, slot.device_a, elements,
                                                pipeline.iterations);
    postprocess<<<blocks, kThreads, 0, slot.stream>>>(slot.device_a, slot.device_b, elements);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(slot.host_output, slot.device_b, bytes, cudaMemcpyDeviceToHost,
                          slot.stream));
    CHECK(cudaEventRecord(slot.done, slot.stream));
}

void run_pipeline(Pipeline& pipeline, int batches) {
    for (int i = 0; i < batches + kSlots; ++i) {
        Slot& slot = pipeline.slots[i % kSlots];
        const int finished = i - kSlots;
        if (finished >= 0 && finished < batches) {
            CHECK(cudaEventSynchronize(slot.done));
            consume_batch(finished, slot.host_output, pipeline.elements);
        }
        if (i < batches) {
            load_batch(i, slot.host_input, pipeline.elements);
            issue_batch(pipeline, slot);
        }
    }
}
