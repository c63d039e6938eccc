/* A double of CUDA's driver, of cuBLAS and of NCCL, for tests of jobs/programs/gpu.c: device memory is the host's, and no
   kernel runs. DOUBLE_FAULT: pass loses the last word of a copy between devices, multiply a product's first element,
   reduce a sum's last number, gather the part of the last device; full: a device has no memory. Devices 1 and 2 have no direct path. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fault(const char *name)
{
    const char *set = getenv("DOUBLE_FAULT");
    return set && !strcmp(set, name);
}

int cuInit(unsigned flags) { return flags; }
int cuDriverGetVersion(int *version) { *version = 12040; return 0; }
int cuGetErrorName(int code, const char **name) { *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_LAUNCH_FAILED"; return 0; }
int cuDeviceGetCount(int *count) { *count = 3; return 0; }
int cuDeviceGet(int *device, int i) { *device = i; return 0; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "Double%s", device ? "" : " MIG 1g.5gb"); return 0; }
int cuDeviceGetUuid_v2(void *uuid, int device) { memset(uuid, 0xA0 + device, 16); return 0; }
int cuDeviceGetPCIBusId(char *bus, int size, int device) { snprintf(bus, size, "0000:%dB:00.0", device + 1); return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(intptr_t)(device + 1); return 0; }
int cuCtxSetCurrent(void *context) { return !context; }
int cuModuleLoadData(void **module, const void *image) { *module = (void *)image; return memcmp(image, "\177ELF", 4) ? 200 : 0; }
int cuModuleGetFunction(void **kernel, void *module, const char *name) { *kernel = module; return !*name; }
int cuLaunchKernel() { return 719; }
int cuGetExportTable(const void **table, const void *id) { *table = NULL; return id ? 500 : 1; } /* NVRTC asks for one */
int cuMemAlloc_v2(void **memory, size_t bytes) { *memory = fault("full") ? NULL : malloc(bytes); return *memory ? 0 : 2; }
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) { *memory = malloc(bytes); return flags; }
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *queue) { memcpy(to, from, bytes); return queue != NULL; }
int cuMemcpyDtoHAsync_v2(void *to, void *from, size_t bytes, void *queue) { memcpy(to, from, bytes); return queue != NULL; }
int cuDeviceCanAccessPeer(int *can, int one, int other) { *can = one + other != 3; return 0; }
int cuCtxEnablePeerAccess(void *context, unsigned flags) { static int seen; return !context || flags ? 1 : seen++ ? 704 : 0; }
int cuEventCreate(void **event, unsigned flags) { *event = malloc(1); return flags; }
int cuEventRecord(void *event, void *queue) { return !event || queue; }
int cuEventSynchronize(void *event) { return !event; }
int cuEventElapsedTime(float *milliseconds, void *start, void *end) { *milliseconds = 60; return start == end; }

int cuMemcpyPeerAsync(void *to, void *context, void *from, void *own, size_t bytes, void *queue)
{
    memcpy(to, from, bytes - 8 * fault("pass"));
    return context == own || queue;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    static const int numbers[][2] = {{13, 1980000}, {16, 132}, {36, 2619000}, {37, 5120}, {38, 52428800}, {75, 9}, {76, 0}};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i][0] == attribute) {
            *value = numbers[i][1];
            return 0;
        }
    return device + 1;
}

int cublasCreate_v2(void **handle) { *handle = handle; return 0; }
int cublasGetVersion_v2(void *handle, int *version) { *version = 120905; return !handle; }

static double number(const void *matrix, int type, int64_t i)
{
    uint16_t bits = type == 2 || type == 14 ? ((const uint16_t *)matrix)[i] : 0; /* all are between a half and 1 */
    return type == 1 ? ((const double *)matrix)[i] : type == 0 ? ((const float *)matrix)[i]
        : type == 3 ? ((const int8_t *)matrix)[i] : type == 10 ? ((const int32_t *)matrix)[i]
        : (bits >> 15 ? -1 : 1) * (type == 2 ? 0.5 + (bits & 1023) / 2048.0 : 0.5 + (bits & 127) / 256.0);
}

int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int in, int lda, const void *b,
                 int in_b, int ldb, const void *beta, void *c, int out, int ldc, int compute, int how)
{
    if (!handle || ta != (in == 3) || tb || in != in_b || how != -1 || compute < 68 || number(alpha, out, 0) != 1 || number(beta, out, 0) != 0)
        return 7;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += number(a, in, ta ? l + (int64_t)i * lda : i + (int64_t)l * lda) * number(b, in, l + (int64_t)j * ldb);
            if (fault("multiply") && !i && !j)
                sum += 1;
            if (out == 1)
                ((double *)c)[i + (int64_t)j * ldc] = sum;
            else if (out == 10)
                ((int32_t *)c)[i + (int64_t)j * ldc] = (int32_t)sum;
            else
                ((float *)c)[i + (int64_t)j * ldc] = (float)sum;
        }
    return 0;
}

/* NCCL: the last device to come does the work of all, while the others wait. */
static struct { const int32_t *from; int32_t *to; } ranks[8];
static int ranks_come;

int ncclGetVersion(int *version) { *version = 22809; return 0; }
const char *ncclGetErrorString(int code) { return code ? "unhandled system error" : "no error"; }

int ncclCommInitAll(void **comms, int count, const int *places)
{
    for (int i = 0; i < count; i++)
        comms[i] = &ranks[places[i]];
    return fault("start");
}

static int meet(const void *from, void *to, size_t numbers, void *comm, int gather)
{
    int me = (int)(((char *)comm - (char *)ranks) / (int)sizeof *ranks), round;
    ranks[me].from = from, ranks[me].to = to;
    round = __atomic_add_fetch(&ranks_come, 1, __ATOMIC_SEQ_CST);
    if (round % 3 == 0) {
        for (int r = 0; r < 3; r++)
            for (size_t i = 0; i < (gather ? 3 : 1) * numbers; i++)
                ranks[r].to[i] = gather ? ranks[i / numbers].from[i % numbers] : ranks[0].from[i] + ranks[1].from[i] + ranks[2].from[i];
        for (int r = 0; r < 3; r++)
            ranks[r].to[gather ? 3 * numbers - 1 : numbers - 1] += fault(gather ? "gather" : "reduce");
        __atomic_add_fetch(&ranks_come, 3, __ATOMIC_SEQ_CST);
    }
    while (__atomic_load_n(&ranks_come, __ATOMIC_SEQ_CST) / 3 <= (round - 1) / 3 + 1)
        ;
    return 0;
}

int ncclAllReduce(const void *from, void *to, size_t numbers, int type, int op, void *comm, void *queue)
{
    return type != 2 || op || queue ? 5 : meet(from, to, numbers, comm, 0);
}

int ncclAllGather(const void *from, void *to, size_t numbers, int type, void *comm, void *queue)
{
    return type != 2 || queue ? 5 : meet(from, to, numbers, comm, 1);
}
