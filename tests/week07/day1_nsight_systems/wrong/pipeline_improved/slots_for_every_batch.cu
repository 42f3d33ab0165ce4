// CAUGHT_BY: test_every_batch_is_worked
// SAYS: belong to batch
//
// As many slots as the program has batches by default, and never used again with care.
#include "pipeline.cuh"

// In the steady state three batches are on the device: one being copied in, one computed, one
// copied out. The fourth slot lets the host load the next batch while all three are under way.
constexpr int kSlots = 32;

struct Slot {
    cudaStream_t stream;
    cudaEvent_t done;  // recorded after the copy out: until then the host touches neither buffer
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
        // From pageable memory a copy would pass through a staging buffer and hold up the host.
        CHECK(cudaMallocHost(&slot.host_input, bytes));
        CHECK(cudaMallocHost(&slot.host_output, bytes));
        CHECK(cudaMalloc(&slot.device_a, bytes));
        CHECK(cudaMalloc(&slot.device_b, bytes));
    }
    return pipeline;
}

static void issue_batch(const Pipeline& pipeline, const Slot& slot) {
    const int elements = pipeline.elements;
    const size_t bytes = sizeof(float) * elements;
    const int blocks = blocks_for(elements);
    CHECK(cudaMemcpyAsync(slot.device_a, slot.host_input, bytes, cudaMemcpyHostToDevice,
                          slot.stream));
    normalise<<<blocks, kThreads, 0, slot.stream>>>(slot.device_a, slot.device_b, elements);
    CHECK(cudaGetLastError());
    infer<<<blocks, kThreads, 0, slot.stream>>>(slot.device_b, slot.device_a, elements,
                                                pipeline.iterations);
    CHECK(cudaGetLastError());
    postprocess<<<blocks, kThreads, 0, slot.stream>>>(slot.device_a, slot.device_b, elements);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(slot.host_output, slot.device_b, bytes, cudaMemcpyDeviceToHost,
                          slot.stream));
    CHECK(cudaEventRecord(slot.done, slot.stream));
}

void run_pipeline(Pipeline& pipeline, int batches) {
    for (int i = 0; i < batches; ++i) {
        Slot& slot = pipeline.slots[i % kSlots];
        load_batch(i, slot.host_input, pipeline.elements);
        issue_batch(pipeline, slot);
    }
    for (int i = 0; i < batches; ++i) {
        Slot& slot = pipeline.slots[i % kSlots];
        CHECK(cudaEventSynchronize(slot.done));
        consume_batch(i, slot.host_output, pipeline.elements);
    }
}

void destroy_pipeline(Pipeline* pipeline) {
    for (Slot& slot : pipeline->slots) {
        CHECK(cudaFree(slot.device_b));
        CHECK(cudaFree(slot.device_a));
        CHECK(cudaFreeHost(slot.host_output));
        CHECK(cudaFreeHost(slot.host_input));
        CHECK(cudaEventDestroy(slot.done));
        CHECK(cudaStreamDestroy(slot.stream));
    }
    delete pipeline;
}
