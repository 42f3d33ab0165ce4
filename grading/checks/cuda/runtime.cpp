// A recording stand-in for the CUDA runtime: a program linked to it runs without a GPU, and every
// call is written, in the order in which the host made it, as one line of JSON to $LAB_SCHEDULE_FILE.
//
// Copies are done at once, kernels are not run. That is enough, because what is judged is the order
// that the program asked for, not the numbers: grading/checks/cuda/schedule.py works out from the
// record what may run at the same time. "Device" memory is host memory that is kept track of.
//
// A function that is missing here is missing on purpose: the program then fails to link, and
// recording.py names the function.
#include <cuda_runtime_api.h>
#include <cxxabi.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

struct CUstream_st {
    int id;
    bool blocking;
    int priority;
};

struct CUevent_st {
    int id;
};

namespace {

struct Buffer {
    int id;
    size_t bytes;
    bool device;      // else page-locked host memory
    bool registered;  // cudaHostRegister: not ours to free
};

struct Configuration {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
};

struct State {
    std::recursive_mutex mutex;
    FILE* file = nullptr;
    int lines = 0;
    int streams = 0, events = 0, buffers = 0;
    std::map<uintptr_t, Buffer> memory;  // by first address
    std::set<CUstream_st*> open_streams;
    std::set<CUevent_st*> open_events;
    std::map<const void*, std::string> kernels;  // host function -> demangled name
    std::map<const void*, std::string> symbols;  // host function -> name as compiled
    std::map<std::thread::id, int> threads;
    cudaError_t last_error = cudaSuccess;
};

State& state() {
    static State* value = new State;  // outlives every destructor that may still call the runtime
    return *value;
}

thread_local std::vector<Configuration> configurations;
thread_local int host_function = -1;  // line of the host function that runs now

// $LAB_MULTIPROCESSORS makes a small device: grids that are cut to it can be emulated.
int multiprocessors() {
    const char* wanted = std::getenv("LAB_MULTIPROCESSORS");
    return wanted ? std::atoi(wanted) : 132;
}

constexpr int kLegacyStream = 0;
constexpr int kFirstPerThreadStream = 1000;

int thread_number() {
    auto& threads = state().threads;
    return threads.emplace(std::this_thread::get_id(), static_cast<int>(threads.size())).first->second;
}

std::string format(const char* pattern, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, pattern);
    std::vsnprintf(text, sizeof(text), pattern, arguments);
    va_end(arguments);
    return text;
}

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += (static_cast<unsigned char>(c) < 32) ? ' ' : c;
    }
    return out + "\"";
}

// Writes one line and returns its number.
int write(const char* kind, const std::string& rest = "") {
    State& s = state();
    if (!s.file) {
        const char* path = std::getenv("LAB_SCHEDULE_FILE");
        s.file = std::fopen(path ? path : "/dev/null", "w");
        if (!s.file) std::abort();
    }
    std::fprintf(s.file, "{\"line\": %d, \"kind\": \"%s\", \"thread\": %d, \"host_function\": %d%s%s}\n",
                 s.lines, kind, thread_number(), host_function, rest.empty() ? "" : ", ", rest.c_str());
    std::fflush(s.file);  // the program may end at any point
    return s.lines++;
}

// Records a call that the real runtime refuses, and returns its error.
cudaError_t refuse(const char* function, cudaError_t error, const std::string& why) {
    write("refused", format("\"function\": \"%s\", \"error\": \"%s\", \"why\": %s", function,
                            cudaGetErrorName(error), quoted(why).c_str()));
    state().last_error = error;
    return error;
}

// The allocation that an address lies in; null for ordinary (pageable) host memory.
const std::pair<const uintptr_t, Buffer>* find(const void* pointer) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    auto& memory = state().memory;
    auto next = memory.upper_bound(address);
    if (next == memory.begin()) return nullptr;
    --next;
    return address < next->first + next->second.bytes ? &*next : nullptr;
}

bool on_device(const void* pointer) {
    const auto* found = find(pointer);
    return found && found->second.device;
}

std::string place(const void* pointer) {
    const auto* found = find(pointer);
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (!found) return format("{\"memory\": \"pageable\", \"buffer\": -1, \"offset\": %zu}", address);
    return format("{\"memory\": \"%s\", \"buffer\": %d, \"offset\": %zu}",
                  found->second.device ? "device" : "pinned", found->second.id,
                  static_cast<size_t>(address - found->first));
}

bool fits(const void* pointer, size_t bytes) {
    const auto* found = find(pointer);
    return !found ||
           reinterpret_cast<uintptr_t>(pointer) + bytes <= found->first + found->second.bytes;
}

// The number of a stream in the record; false for a handle that names no open stream.
bool number_of(cudaStream_t stream, int* number) {
    if (stream == nullptr || stream == cudaStreamLegacy) {
        *number = kLegacyStream;
        return true;
    }
    if (stream == cudaStreamPerThread) {
        *number = kFirstPerThreadStream + thread_number();
        return true;
    }
    if (!state().open_streams.count(stream)) return false;
    *number = stream->id;
    return true;
}

#define LOCKED                                                            \
    std::lock_guard<std::recursive_mutex> lock(state().mutex);            \
    if (host_function >= 0)                                               \
    return refuse(__func__, cudaErrorNotPermitted,                        \
                  "a host function that runs in a stream may not call CUDA")

#define STREAM(handle, number)                                            \
    int number = 0;                                                       \
    if (!number_of(handle, &number))                                      \
    return refuse(__func__, cudaErrorInvalidResourceHandle, "the stream was never created, or is destroyed")

#define EVENT(handle)                                                     \
    if (!state().open_events.count(handle))                               \
    return refuse(__func__, cudaErrorInvalidResourceHandle, "the event was never created, or is destroyed")

cudaError_t allocate(const char* function, void** pointer, size_t bytes, bool device, int stream) {
    if (!pointer) return refuse(function, cudaErrorInvalidValue, "nowhere to put the address");
    *pointer = nullptr;
    if (bytes == 0) return cudaSuccess;
    void* memory = std::malloc(bytes);
    if (!memory) return refuse(function, cudaErrorMemoryAllocation, format("%zu bytes", bytes));
    const int id = state().buffers++;
    state().memory[reinterpret_cast<uintptr_t>(memory)] = {id, bytes, device, false};
    write("allocate", format("\"function\": \"%s\", \"buffer\": %d, \"memory\": \"%s\", \"bytes\": %zu, "
                             "\"stream\": %d",
                             function, id, device ? "device" : "pinned", bytes, stream));
    *pointer = memory;
    return cudaSuccess;
}

cudaError_t release(const char* function, void* pointer, bool device, bool registered, int stream) {
    if (!pointer) return cudaSuccess;
    auto found = state().memory.find(reinterpret_cast<uintptr_t>(pointer));
    if (found == state().memory.end() || found->second.device != device ||
        found->second.registered != registered)
        return refuse(function, cudaErrorInvalidValue,
                      "the address does not come from the matching allocation, or is released already");
    write("release", format("\"function\": \"%s\", \"buffer\": %d, \"bytes\": %zu, \"stream\": %d",
                            function, found->second.id, found->second.bytes, stream));
    if (!registered) std::free(pointer);
    state().memory.erase(found);
    return cudaSuccess;
}

cudaError_t copy(const char* function, void* destination, const void* source, size_t bytes,
                 cudaMemcpyKind kind, int stream, bool async) {
    if (bytes == 0) return cudaSuccess;
    if (!destination || !source) return refuse(function, cudaErrorInvalidValue, "a null pointer");
    const bool from = on_device(source), to = on_device(destination);
    const cudaMemcpyKind actual = from ? (to ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost)
                                       : (to ? cudaMemcpyHostToDevice : cudaMemcpyHostToHost);
    static const char* const names[] = {"H2H", "H2D", "D2H", "D2D"};
    if (kind != cudaMemcpyDefault && kind != actual)
        return refuse(function, cudaErrorInvalidValue,
                      format("the direction given is %s, the addresses say %s",
                             kind >= 0 && kind < 4 ? names[kind] : "unknown", names[actual]));
    if (!fits(source, bytes) || !fits(destination, bytes))
        return refuse(function, cudaErrorInvalidValue,
                      format("%zu bytes reach beyond the end of the %s", bytes,
                             fits(source, bytes) ? "destination" : "source"));
    write("copy",
          format("\"function\": \"%s\", \"direction\": \"%s\", \"stream\": %d, \"async\": %s, "
                 "\"bytes\": %zu, \"source\": ",
                 function, names[actual], stream, async ? "true" : "false", bytes) +
              place(source) + ", \"destination\": " + place(destination));
    std::memmove(destination, source, bytes);
    return cudaSuccess;
}

cudaError_t set(const char* function, void* destination, int value, size_t bytes, int stream,
                bool async) {
    if (bytes == 0) return cudaSuccess;
    if (!find(destination) || !fits(destination, bytes))
        return refuse(function, cudaErrorInvalidValue, "the bytes lie outside every allocation");
    write("memset", format("\"function\": \"%s\", \"stream\": %d, \"async\": %s, \"bytes\": %zu, "
                           "\"value\": %d, \"destination\": ",
                           function, stream, async ? "true" : "false", bytes, value & 255) +
                        place(destination));
    std::memset(destination, value, bytes);
    return cudaSuccess;
}

// "void ns::kernel<int>(float const*, float*, int)" -> the name, and the types of the parameters.
void split(const std::string& demangled, std::string* name, std::vector<std::string>* types) {
    int depth = 0;
    size_t open = std::string::npos;
    for (size_t i = demangled.size(); i-- > 0;) {  // the last "(" at depth 0 opens the parameters
        if (demangled[i] == ')') ++depth;
        if (demangled[i] == '(' && --depth == 0) {
            open = i;
            break;
        }
    }
    if (open == std::string::npos) {
        *name = demangled;
        return;
    }
    *name = demangled.substr(0, open);
    std::string type;
    depth = 0;
    for (size_t i = open + 1; i < demangled.size(); ++i) {
        const char c = demangled[i];
        if (c == '<' || c == '(') ++depth;
        if (depth == 0 && (c == ',' || c == ')')) {
            const size_t first = type.find_first_not_of(' ');
            if (first != std::string::npos) types->push_back(type.substr(first));
            type.clear();
            continue;
        }
        if (c == '>' || c == ')') --depth;
        type += c;
    }
}

std::string argument(const std::string& type, const void* value) {
    const std::string head = "{\"type\": " + quoted(type);
    if (!type.empty() && (type.back() == '*' || type.back() == '&')) {
        void* pointer;
        std::memcpy(&pointer, value, sizeof(pointer));
        return head + ", \"pointer\": " + (pointer ? place(pointer) : "null") + "}";
    }
    auto number = [&](auto sample) {
        std::memcpy(&sample, value, sizeof(sample));
        return head + ", \"value\": " + std::to_string(sample) + "}";
    };
    if (type == "int") return number(int{});
    if (type == "float") return number(float{});
    if (type == "unsigned int") return number(0u);
    if (type == "long" || type == "long long") return number(0ll);
    if (type == "unsigned long" || type == "unsigned long long") return number(0ull);
    return head + "}";
}

cudaError_t launch(const char* function, const void* kernel, dim3 grid, dim3 block, void** arguments,
                   size_t shared_bytes, cudaStream_t stream) {
    STREAM(stream, number);
    auto found = state().kernels.find(kernel);
    if (found == state().kernels.end())
        return refuse(function, cudaErrorInvalidDeviceFunction, "this is no kernel of the program");
    const uint64_t threads = uint64_t{block.x} * block.y * block.z;
    if (threads == 0 || threads > 1024 || grid.x == 0 || grid.y == 0 || grid.z == 0)
        return refuse(function, cudaErrorInvalidConfiguration,
                      format("grid %u x %u x %u, block %u x %u x %u", grid.x, grid.y, grid.z, block.x,
                             block.y, block.z));
    std::string name;
    std::vector<std::string> types;
    split(found->second, &name, &types);
    std::string list;
    for (size_t i = 0; i < types.size(); ++i)
        list += (i ? ", " : "") + argument(types[i], arguments[i]);
    write("kernel", format("\"stream\": %d, \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], ", number,
                           grid.x, grid.y, grid.z, block.x, block.y, block.z) +
                        format("\"shared_bytes\": %zu, ", shared_bytes) + "\"name\": " + quoted(name) +
                        ", \"symbol\": " + quoted(state().symbols[kernel]) + ", \"arguments\": [" +
                        list + "]");
    return cudaSuccess;
}

void run_host_function(int line, void (*call)(void*), void* data) {
    host_function = line;
    call(data);
    host_function = -1;
}

}  // namespace

extern "C" {

// -- what the compiler's output calls ------------------------------------------------------------

void** __cudaRegisterFatBinary(void*) {
    static void* handle = nullptr;
    return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
    std::lock_guard<std::recursive_mutex> lock(state().mutex);
    int status = 0;
    char* demangled = abi::__cxa_demangle(name, nullptr, nullptr, &status);
    state().kernels[host] = demangled ? demangled : name;
    state().symbols[host] = name;
    std::free(demangled);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     struct CUstream_st* stream) {
    configurations.push_back({grid, block, shared_bytes, stream});
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
    if (configurations.empty()) return cudaErrorMissingConfiguration;
    const Configuration last = configurations.back();
    configurations.pop_back();
    *grid = last.grid;
    *block = last.block;
    *shared_bytes = last.shared_bytes;
    *static_cast<cudaStream_t*>(stream) = last.stream;
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                             size_t shared_bytes, cudaStream_t stream) {
    LOCKED;
    return launch(__func__, kernel, grid, block, arguments, shared_bytes, stream);
}

// Since CUDA 13 a launch goes through a handle.
cudaError_t __cudaGetKernel(cudaKernel_t* handle, const void* kernel) {
    *handle = reinterpret_cast<cudaKernel_t>(const_cast<void*>(kernel));
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared_bytes, cudaStream_t stream) {
    LOCKED;
    return launch("cudaLaunchKernel", kernel, grid, block, arguments, shared_bytes, stream);
}

// -- errors, devices, versions -------------------------------------------------------------------

const char* cudaGetErrorName(cudaError_t error) {
    switch (error) {
        case cudaSuccess: return "cudaSuccess";
        case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
        case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
        case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
        case cudaErrorInvalidDeviceFunction: return "cudaErrorInvalidDeviceFunction";
        case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
        case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
        case cudaErrorMissingConfiguration: return "cudaErrorMissingConfiguration";
        case cudaErrorNotPermitted: return "cudaErrorNotPermitted";
        default: return "cudaError";
    }
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaPeekAtLastError() { return state().last_error; }
cudaError_t cudaGetLastError() {
    const cudaError_t error = state().last_error;
    state().last_error = cudaSuccess;
    return error;
}

cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    LOCKED;
    if (device == 0) return cudaSuccess;
    return refuse(__func__, cudaErrorInvalidDevice, "there is one device, number 0");
}
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
    std::memset(static_cast<void*>(properties), 0, sizeof(*properties));
    std::snprintf(properties->name, sizeof(properties->name), "recording stand-in");
    properties->major = 9;
    properties->multiProcessorCount = multiprocessors();
    properties->asyncEngineCount = 3;
    properties->concurrentKernels = 1;
    properties->unifiedAddressing = 1;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->warpSize = 32;
    properties->totalGlobalMem = size_t{140} << 30;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
        case cudaDevAttrWarpSize: *value = 32; break;
        case cudaDevAttrMultiProcessorCount: *value = multiprocessors(); break;
        case cudaDevAttrConcurrentKernels: *value = 1; break;
        case cudaDevAttrAsyncEngineCount: *value = 3; break;
        case cudaDevAttrUnifiedAddressing: *value = 1; break;
        case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
        case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
        default: *value = 0;
    }
    return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
    *free_bytes = size_t{130} << 30;
    *total_bytes = size_t{140} << 30;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads, size_t) {
    *blocks = threads > 0 ? 2048 / threads : 0;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int threads,
                                                                   size_t, unsigned) {
    *blocks = threads > 0 ? 2048 / threads : 0;
    return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
    std::memset(static_cast<void*>(attributes), 0, sizeof(*attributes));
    attributes->maxThreadsPerBlock = 1024;
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }

cudaError_t cudaProfilerStart() {
    LOCKED;
    write("marker", "\"name\": \"begin\"");
    return cudaSuccess;
}
cudaError_t cudaProfilerStop() {
    LOCKED;
    write("marker", "\"name\": \"end\"");
    return cudaSuccess;
}

// -- memory --------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
    LOCKED;
    return allocate(__func__, pointer, bytes, true, -1);
}
cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
    LOCKED;
    return allocate(__func__, pointer, bytes, false, -1);
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
    LOCKED;
    return allocate(__func__, pointer, bytes, false, -1);
}
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
    LOCKED;
    STREAM(stream, number);
    return allocate(__func__, pointer, bytes, true, number);
}
cudaError_t cudaFree(void* pointer) {
    LOCKED;
    return release(__func__, pointer, true, false, -1);
}
cudaError_t cudaFreeHost(void* pointer) {
    LOCKED;
    return release(__func__, pointer, false, false, -1);
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
    LOCKED;
    STREAM(stream, number);
    return release(__func__, pointer, true, false, number);
}
cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
    LOCKED;
    if (!pointer || bytes == 0 || find(pointer))
        return refuse(__func__, cudaErrorInvalidValue, "no bytes, or they are registered already");
    const int id = state().buffers++;
    state().memory[reinterpret_cast<uintptr_t>(pointer)] = {id, bytes, false, true};
    write("allocate", format("\"function\": \"cudaHostRegister\", \"buffer\": %d, \"memory\": \"pinned\", "
                             "\"bytes\": %zu, \"stream\": -1",
                             id, bytes));
    return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* pointer) {
    LOCKED;
    return release(__func__, pointer, false, true, -1);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
    LOCKED;
    std::memset(static_cast<void*>(attributes), 0, sizeof(*attributes));
    const auto* found = find(pointer);
    attributes->type = !found                  ? cudaMemoryTypeUnregistered
                       : found->second.device ? cudaMemoryTypeDevice
                                              : cudaMemoryTypeHost;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
    *pool = nullptr;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int) {
    *pool = nullptr;
    return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }

cudaError_t cudaMemcpy(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind) {
    LOCKED;
    return copy(__func__, destination, source, bytes, kind, kLegacyStream, false);
}
cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    LOCKED;
    STREAM(stream, number);
    return copy(__func__, destination, source, bytes, kind, number, true);
}
cudaError_t cudaMemset(void* destination, int value, size_t bytes) {
    LOCKED;
    return set(__func__, destination, value, bytes, kLegacyStream, false);
}
cudaError_t cudaMemsetAsync(void* destination, int value, size_t bytes, cudaStream_t stream) {
    LOCKED;
    STREAM(stream, number);
    return set(__func__, destination, value, bytes, number, true);
}

// -- streams -------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
    LOCKED;
    const bool blocking = !(flags & cudaStreamNonBlocking);
    *stream = new CUstream_st{++state().streams, blocking, priority};
    state().open_streams.insert(*stream);
    write("create_stream", format("\"stream\": %d, \"blocking\": %s, \"priority\": %d", (*stream)->id,
                                  blocking ? "true" : "false", priority));
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    LOCKED;
    if (!state().open_streams.erase(stream))
        return refuse(__func__, cudaErrorInvalidResourceHandle,
                      "the stream was never created, or is destroyed");
    write("destroy_stream", format("\"stream\": %d", stream->id));
    return cudaSuccess;  // kept, so that the handle is not given out again
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
    LOCKED;
    STREAM(stream, number);
    *flags = number != kLegacyStream && number < kFirstPerThreadStream && !stream->blocking
                 ? cudaStreamNonBlocking
                 : cudaStreamDefault;
    return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
    LOCKED;
    STREAM(stream, number);
    *priority = number != kLegacyStream && number < kFirstPerThreadStream ? stream->priority : 0;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    LOCKED;
    STREAM(stream, number);
    write("synchronize_stream", format("\"function\": \"cudaStreamSynchronize\", \"stream\": %d", number));
    return cudaSuccess;
}
// Asked the first time, work is not done yet; asked again, it is. So a loop that asks ends at once, and
// a program that takes the first answer for a wait is found out.
static bool done_when_asked_again(const void* what) {
    static std::set<const void*> asked;
    if (asked.erase(what)) return true;
    asked.insert(what);
    return false;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    LOCKED;
    STREAM(stream, number);
    if (!done_when_asked_again(stream)) return cudaErrorNotReady;
    write("synchronize_stream", format("\"function\": \"cudaStreamQuery\", \"stream\": %d", number));
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    LOCKED;
    STREAM(stream, number);
    EVENT(event);
    write("wait", format("\"stream\": %d, \"event\": %d", number, event->id));
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
    LOCKED;
    write("synchronize_device", "\"function\": \"cudaDeviceSynchronize\"");
    return cudaSuccess;
}
cudaError_t cudaDeviceReset() {
    LOCKED;
    write("synchronize_device", "\"function\": \"cudaDeviceReset\"");
    return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void* data) {
    LOCKED;
    STREAM(stream, number);
    run_host_function(write("host_function", format("\"stream\": %d", number)), call, data);
    return cudaSuccess;
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t call, void* data, unsigned) {
    LOCKED;
    STREAM(stream, number);
    host_function = write("host_function", format("\"stream\": %d", number));
    call(stream, cudaSuccess, data);
    host_function = -1;
    return cudaSuccess;
}

// -- events --------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    LOCKED;
    *event = new CUevent_st{++state().events};
    state().open_events.insert(*event);
    write("create_event", format("\"event\": %d", (*event)->id));
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    LOCKED;
    EVENT(event);
    state().open_events.erase(event);
    write("destroy_event", format("\"event\": %d", event->id));
    return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
    LOCKED;
    STREAM(stream, number);
    EVENT(event);
    write("record", format("\"stream\": %d, \"event\": %d", number, event->id));
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return cudaEventRecordWithFlags(event, stream, 0);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    LOCKED;
    EVENT(event);
    write("synchronize_event", format("\"function\": \"cudaEventSynchronize\", \"event\": %d", event->id));
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    LOCKED;
    EVENT(event);
    if (!done_when_asked_again(event)) return cudaErrorNotReady;
    write("synchronize_event", format("\"function\": \"cudaEventQuery\", \"event\": %d", event->id));
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    LOCKED;
    EVENT(start);
    EVENT(end);
    *milliseconds = 1.0f;  // nothing is timed here
    return cudaSuccess;
}

// -- sources compiled for a default stream per thread -----------------------------------------------

static cudaStream_t per_thread(cudaStream_t stream) { return stream ? stream : cudaStreamPerThread; }

cudaError_t cudaMemcpy_ptds(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind) {
    LOCKED;
    STREAM(cudaStreamPerThread, number);
    return copy("cudaMemcpy", destination, source, bytes, kind, number, false);
}
cudaError_t cudaMemcpyAsync_ptsz(void* destination, const void* source, size_t bytes,
                                 cudaMemcpyKind kind, cudaStream_t stream) {
    return cudaMemcpyAsync(destination, source, bytes, kind, per_thread(stream));
}
cudaError_t cudaMemset_ptds(void* destination, int value, size_t bytes) {
    LOCKED;
    STREAM(cudaStreamPerThread, number);
    return set("cudaMemset", destination, value, bytes, number, false);
}
cudaError_t cudaMemsetAsync_ptsz(void* destination, int value, size_t bytes, cudaStream_t stream) {
    return cudaMemsetAsync(destination, value, bytes, per_thread(stream));
}
cudaError_t cudaLaunchKernel_ptsz(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                  size_t shared_bytes, cudaStream_t stream) {
    return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, per_thread(stream));
}
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                    size_t shared_bytes, cudaStream_t stream) {
    return __cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, per_thread(stream));
}
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) {
    return cudaStreamSynchronize(per_thread(stream));
}
cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream) { return cudaStreamQuery(per_thread(stream)); }
cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    return cudaStreamWaitEvent(per_thread(stream), event, flags);
}
cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream) {
    return cudaEventRecord(event, per_thread(stream));
}
cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t call, void* data) {
    return cudaLaunchHostFunc(per_thread(stream), call, data);
}

// -- what the given programs call ------------------------------------------------------------------

void lab_host_access(const char* what, int batch, const void* memory, size_t bytes, int is_write) {
    std::lock_guard<std::recursive_mutex> lock(state().mutex);
    write("host_access",
          format("\"what\": \"%s\", \"batch\": %d, \"bytes\": %zu, \"write\": %s, \"at\": ", what, batch,
                 bytes, is_write ? "true" : "false") +
              place(memory));
}

}  // extern "C"
