// CAUGHT_BY: test_no_access_is_unordered
// SAYS: complete before consume_batch
//
// Asks whether the slot is done and does not look at the answer.
#include "pipeline.cuh"

// Takes any answer for "done": "not ready" is no error, and so looks like success here.
#define CHECK_QUERY(call) (void)(call)

// In the steady state three batches are on the device: one being copied in, one computed, one
// copied out. The fourth slot lets the host load the next batch while all three are under way.
constexpr int kSlots = 4;

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
    for (int i = 0; i < batches + kSlots; ++i) {
        Slot& slot = pipeline.slots[i % kSlots];
        const int finished = i - kSlots;  // the batch that used this slot before
        if (finished >= 0 && finished < batches) {
            CHECK_QUERY(cudaEventQuery(slot.done));
            consume_batch(finished, slot.host_output, pipeline.elements);
        }
        if (i < batches) {
            Range range("batch");
            load_batch(i, slot.host_input, pipeline.elements);
            issue_batch(pipeline, slot);
        }
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
