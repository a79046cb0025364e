/* A CUDA driver without a GPU, for the tests beside this file: device memory is host memory, work
 * is done at once, and every call that matters is noted. Calls that a capture forbids are noted as
 * VIOLATION and fail; so are attributes that come when a graph has its nodes, without failing.
 * Functions that are missing here are generated to return 0. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long u64;
typedef struct { int number, capturing; size_t after[8], after_count; } Stream;
typedef struct { int number, done; Stream *stream; } Event;
typedef struct { unsigned id, pad, value[16]; } Attribute;
typedef struct { unsigned grid[3], block[3], shared; Stream *stream; Attribute *attrs; unsigned count; } Config;

#ifndef MAJOR
#define MAJOR 9
#endif
#ifndef MINOR
#define MINOR 0
#endif
#ifndef VERSION
#define VERSION 13000
#endif
#ifndef INIT_CODE
#define INIT_CODE 0
#endif
#define CAPTURE_UNSUPPORTED 900

static char notes[1 << 16];
static size_t used;
static char failing[64];
static int failing_code, still_good;
static int streams, event_count;
static size_t nodes;
static int instantiated;
static Event *events[1024];
static __thread void *current;

static void note(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    used += vsnprintf(notes + used, sizeof notes - used, format, arguments);
    va_end(arguments);
}
/* Whether one of the nodes comes twice, or is not there yet. */
static int note_after(const size_t *after, size_t count) {
    int wrong = 0;
    for (size_t i = 0; i < count; i++) {
        note(i ? ", %zu" : " after %zu", after[i] - 0x3200);
        for (size_t j = 0; j < i; j++) wrong |= after[j] == after[i];
        wrong |= after[i] >= 0x3200 + nodes;
    }
    return wrong;
}
static void note_attribute(unsigned id, const unsigned *value) {
    note("attribute %u: %u x %u x %u\n", id, value[0], value[1], value[2]);
}
const char *fake_notes(void) { return notes; }
void fake_clear(void) { used = 0; notes[0] = 0; }
void fake_fail(const char *name, int code, int good) { strcpy(failing, name); failing_code = code; still_good = good; }

static int fails(const char *name) {
    if (strcmp(failing, name) || still_good-- > 0) return 0;
    failing[0] = 0;
    return failing_code;
}
#define ENTER(name) { int code = fails(name); if (code) return code; }
#define EAGER(stream, name) \
    if ((stream)->capturing) { note("VIOLATION %s\n", name); return CAPTURE_UNSUPPORTED; }

int cuDriverGetVersion(int *version) { *version = VERSION; return 0; }
int cuInit(unsigned flags) { return flags ? 1 : INIT_CODE; }
int cuGetErrorName(int code, const char **name) { *name = code == 999 ? 0 : "CUDA_ERROR_FAKE"; return 0; }
int cuGetErrorString(int code, const char **text) { *text = code == 999 ? 0 : "a fake failure"; return 0; }

int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGetName(char *name, int length, int device) { (void)device; strncpy(name, "Fake GPU", length); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == 16 ? 132 : attribute == 75 ? MAJOR : attribute == 76 ? MINOR : 1;
    return 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = (size_t)1 << 37; return 0; }
int cuCtxSetCurrent(void *context) { current = context; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(size_t)(0x1000 + device); return 0; }

int cuMemPoolCreate(void **pool, void *properties) { (void)properties; *pool = (void *)0x2000; return 0; }
int cuMemAllocFromPoolAsync(u64 *address, size_t bytes, void *pool, Stream *stream) {
    (void)pool;
    ENTER("cuMemAllocFromPoolAsync")
    EAGER(stream, "allocate")
    if (!bytes) return 1;
    *address = (u64)(size_t)aligned_alloc(512, (bytes + 511) / 512 * 512);
    note("allocate %zu on %d\n", bytes, stream->number);
    return 0;
}
int cuMemFreeAsync(u64 address, Stream *stream) {
    EAGER(stream, "free")
    note("free on %d\n", stream->number);
    free((void *)(size_t)address);
    return 0;
}
int cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) { (void)flags; *pointer = calloc(1, bytes); return 0; }
int cuMemHostGetDevicePointer_v2(u64 *address, void *pointer, unsigned flags) { (void)flags; *address = (u64)(size_t)pointer; return 0; }
int cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t bytes, Stream *stream) {
    EAGER(stream, "upload")
    memcpy((void *)(size_t)to, from, bytes);
    return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t bytes, Stream *stream) {
    EAGER(stream, "download")
    memcpy(to, (void *)(size_t)from, bytes);
    return 0;
}
int cuMemcpyDtoDAsync_v2(u64 to, u64 from, size_t bytes, Stream *stream) {
    if (!stream->capturing) memcpy((void *)(size_t)to, (void *)(size_t)from, bytes);
    return 0;
}
int cuMemsetD8Async(u64 address, unsigned char value, size_t count, Stream *stream) {
    if (!stream->capturing) memset((void *)(size_t)address, value, count);
    return 0;
}

int cuStreamCreate(Stream **stream, unsigned flags) {
    (void)flags;
    ENTER("cuStreamCreate")
    *stream = calloc(1, sizeof **stream);
    (*stream)->number = ++streams;
    return 0;
}
int cuStreamDestroy_v2(Stream *stream) { note("destroy %d\n", stream->number); free(stream); return 0; }
int cuStreamGetCtx(Stream *stream, void **context) { (void)stream; *context = (void *)0x1000; ENTER("cuStreamGetCtx") return 0; }
int cuStreamSynchronize(Stream *stream) {
    ENTER("cuStreamSynchronize")
    EAGER(stream, "synchronize")
    for (int i = 0; i < event_count; i++)
        if (events[i] && events[i]->stream == stream) events[i]->done = 1;
    return 0;
}
int cuStreamWaitEvent(Stream *stream, Event *event, unsigned flags) {
    (void)flags;
    EAGER(stream, "wait")
    note("%d waits for %d\n", stream->number, event->stream->number);
    return 0;
}
int cuStreamBeginCapture_v2(Stream *stream, unsigned mode) {
    (void)mode;
    ENTER("cuStreamBeginCapture_v2")
    EAGER(stream, "capture")
    stream->capturing = 1;
    stream->after_count = nodes = 0;
    note("capture %d\n", stream->number);
    return 0;
}
int cuStreamEndCapture(Stream *stream, void **graph) {
    stream->capturing = 0;
    note("captured %d\n", stream->number);
    ENTER("cuStreamEndCapture")
    *graph = (void *)0x3000;
    return 0;
}
int cuStreamGetCaptureInfo_v2(Stream *stream, unsigned *status, u64 *id, void **graph, const size_t **after, size_t *count) {
    ENTER("cuStreamGetCaptureInfo_v2")
    *status = stream->capturing; *id = 1; *graph = (void *)0x3000;
    *after = stream->after; *count = stream->after_count;
    return 0;
}
int cuStreamUpdateCaptureDependencies(Stream *stream, size_t *after, size_t count, unsigned flags) {
    ENTER("cuStreamUpdateCaptureDependencies")
    if (flags != 1 || !stream->capturing || count > 8) return 1;
    memcpy(stream->after, after, count * sizeof *after);
    stream->after_count = count;
    return 0;
}
/* As of the legacy default stream, which is that of the current context. */
int cuStreamIsCapturing(Stream *stream, unsigned *status) { *status = stream->capturing; return current ? 0 : 201; }
typedef struct { void *function; unsigned grid[3], block[3], shared; void **parameters, **extra, *kernel, *context; } Node;
static void note_node(const char *what, const Node *node) {
    note("%s%s: %u x %u blocks, %u threads, %u bytes, first argument %llx\n", what, (char *)node->function,
         node->grid[0], node->grid[1], node->block[0], node->shared, *(u64 *)node->parameters[0]);
}
int cuGraphCreate(void **graph, unsigned flags) { ENTER("cuGraphCreate") *graph = (void *)0x3100; nodes = instantiated = 0; return flags; }
int cuGraphAddKernelNode_v2(size_t *node, void *graph, const size_t *after, size_t count, const Node *parameters) {
    (void)graph;
    ENTER("cuGraphAddKernelNode_v2")
    *node = 0x3200 + ++nodes;
    note("node %zu", nodes);
    int wrong = note_after(after, count);
    note_node(": ", parameters);
    return wrong;
}
int cuGraphKernelNodeSetAttribute(size_t node, unsigned id, const unsigned *value) {
    ENTER("cuGraphKernelNodeSetAttribute")
    /* What has been instantiated has copied its nodes. */
    if (instantiated) note("VIOLATION attribute\n");
    note("%zu has ", node - 0x3200);
    note_attribute(id, value);
    return node <= 0x3200 || node > 0x3200 + nodes;
}
int cuGraphExecKernelNodeSetParams_v2(void *exec, size_t node, const Node *parameters) {
    (void)exec;
    ENTER("cuGraphExecKernelNodeSetParams_v2")
    note("%zu ", node - 0x3200);
    note_node("set ", parameters);
    return 0;
}
int cuGraphInstantiateWithFlags(void **exec, void *graph, u64 flags) {
    (void)graph; (void)flags;
    ENTER("cuGraphInstantiateWithFlags")
    *exec = (void *)0x4000;
    instantiated = 1;
    return 0;
}
int cuGraphLaunch(void *exec, Stream *stream) {
    static int calls;
    (void)exec;
    EAGER(stream, "replay")
    if (__sync_fetch_and_add(&calls, 1)) note("VIOLATION two replays at once\n");
    usleep(1000);
    note("replay on %d\n", stream->number);
    __sync_fetch_and_sub(&calls, 1);
    return 0;
}
int cuGraphExecDestroy(void *exec) { (void)exec; note("destroy graph\n"); return 0; }

int cuEventCreate(Event **event, unsigned flags) {
    (void)flags;
    ENTER("cuEventCreate")
    *event = calloc(1, sizeof **event);
    (*event)->number = event_count;
    events[event_count++] = *event;
    return 0;
}
int cuEventRecord(Event *event, Stream *stream) {
    EAGER(stream, "record")
    event->stream = stream;
    event->done = 0;
    return 0;
}
int cuEventQuery(Event *event) { return event->done ? 0 : 600; }
int cuEventElapsedTime(float *milliseconds, Event *start, Event *end) {
    *milliseconds = (float)(end->number - start->number);
    return 0;
}
int cuEventDestroy_v2(Event *event) { events[event->number] = 0; free(event); return 0; }

int cuModuleLoadDataEx(void **module, const char *image, unsigned count, const unsigned *options, void **values) {
    (void)image;
    int code = fails("cuModuleLoadDataEx");
    for (unsigned i = 0; code && i < count; i++)
        if (options[i] == 5) strcpy(values[i], "ptxas fatal: fake");
    note("load\n");
    *module = (void *)0x5000;
    return code;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    (void)module;
    ENTER("cuModuleGetFunction")
    *function = strdup(name);
    return 0;
}
int cuFuncGetAttribute(int *value, int attribute, void *function) { (void)function; *value = attribute == 4 ? 168 : attribute == 0 ? 384 : 0; return 0; }
int cuFuncSetAttribute(void *function, int attribute, int value) { note("%s: attribute %d = %d\n", (char *)function, attribute, value); return 0; }
int cuLaunchKernelEx(const Config *config, void *function, void **parameters, void **extra) {
    (void)extra;
    Stream *stream = config->stream;
    if (stream->capturing) {
        note("node %zu", ++nodes);
        note_after(stream->after, stream->after_count);
        note(": ");
        stream->after[0] = 0x3200 + nodes;
        stream->after_count = 1;
    }
    note("launch %s on %d: %u x %u blocks, %u threads, %u bytes, first argument %llx\n", (char *)function,
         config->stream->number, config->grid[0], config->grid[1], config->block[0], config->shared,
         *(u64 *)parameters[0]);
    for (unsigned i = 0; i < config->count; i++) note_attribute(config->attrs[i].id, config->attrs[i].value);
    return config->grid[2] == 1 && config->block[1] == 1 ? 0 : 1;
}
int cuTensorMapEncodeTiled(u64 *map, unsigned type, unsigned rank, void *address, const u64 *extents,
                           const u64 *strides, const unsigned *box, const unsigned *element_strides,
                           unsigned interleave, unsigned swizzle, unsigned promotion, unsigned fill) {
    ENTER("cuTensorMapEncodeTiled")
    if ((size_t)map % 128 || strides[0] % 16 || interleave || swizzle != 3 || promotion != 3 || fill) return 1;
    for (unsigned i = 0; i < rank; i++)
        if (box[i] > 256 || element_strides[i] != 1) return 1;
    u64 words[16] = {(u64)(size_t)address, type, rank, extents[0], extents[1], box[1]};
    memcpy(map, words, sizeof words);
    return 0;
}
