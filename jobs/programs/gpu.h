/* The GPUs of a node through CUDA or OpenCL, and the kernels: one text for both. gpu.c is the program.

   Drivers and NVIDIA's run-time compiler are loaded at run time and declared here: a node needs no toolkit. What calls
   CUDA's driver was never run on a GPU: tests/data/cuda_double.c takes its place. */
#ifndef GPU_H
#define GPU_H
#include <ctype.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 64 /* devices */

static struct device {
    char uuid[48], bus[32], arch[32], name[128], extensions[4096];
    int units, clock, memory_clock, bus_bits, sm; /* MHz; 0: it does not tell; sm: 90 of sm_90 */
    int64_t cache;                                /* bytes of the last level */
    size_t asked;                                 /* bytes, so far */
    void *id, *context, *queue, *events[2], *blas;
} devices[MOST];
static int count;
static char driver[64];

/* Tell what was wrong, on which device, and end with 2; the first thread does. */
__attribute__((noreturn, format(printf, 2, 3))) static void die(const struct device *d, const char *form, ...)
{
    char what[4096], where[32] = "", asked[64] = "";
    va_list rest;
    va_start(rest, form);
    vsnprintf(what, sizeof what, form, rest);
    va_end(rest);
    if (d)
        snprintf(where, sizeof where, "device %d: ", (int)(d - devices));
    if (d && d->asked)
        snprintf(asked, sizeof asked, "; %zu bytes were asked for", d->asked);
    #pragma omp critical (last)
    {
        fprintf(stderr, "gpu: %s%s%s\n", where, what, asked);
        _Exit(2);
    }
}

/* ---- Kernels: C for CUDA and OpenCL. TEXT keeps no line breaks. */

#define TEXT(...) #__VA_ARGS__ "\n"
#define VALUE(name) "#define " #name " " AS_TEXT(name)
#define AS_TEXT(...) TEXT(__VA_ARGS__)

#define PER_ITEM 4 /* pairs of elements of Dot */
#define CHAINS 8   /* independent sums of a work-item: they fill the pipes */
#define SWEEPS 9   /* odd */
#define PAIRS 128
#define STEPS 512
#define SCALE (double)(1 << (i * 0x9E3779B97F4A7C15UL >> 62)) /* of element i: shows what lands in another's place */

static const char both[] = VALUE(PER_ITEM) VALUE(CHAINS) VALUE(SWEEPS) VALUE(PAIRS) VALUE(STEPS)
    VALUE(SCALE) "#define UNROLL _Pragma(\"unroll\")\ntypedef long i64; typedef unsigned long u64;\n";
static const char for_cuda[] =
    "#define KERNEL extern \"C\" __global__ void\n#define GLOBAL\n#define LOCAL __shared__\n"
    "#define GROUP (i64)blockIdx.x\n#define LANE (int)threadIdx.x\n#define SYNC __syncthreads()\n"
    "#define as_double __longlong_as_double\n#define as_long __double_as_longlong\n"
    "#define as_float __int_as_float\n#define as_int __float_as_int\n";
static const char for_opencl[] =
    "#ifdef cl_khr_fp16\n#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n#endif\n"
    "#define KERNEL __kernel __attribute__((reqd_work_group_size(WIDE, 1, 1))) void\n#define GLOBAL __global\n"
    "#define LOCAL __local\n#define GROUP (i64)get_group_id(0)\n#define LANE (int)get_local_id(0)\n"
    "#define SYNC barrier(CLK_LOCAL_MEM_FENCE)\n";

/* A work-item takes two elements, by loads and stores of 16 bytes: Copy of an H100 is 4 % faster for it. */
#define STREAM(name, target, ...)                                                                        \
    "#define NEW(a, b, c) (" #__VA_ARGS__ ")\n"                                                          \
    "KERNEL our_" #name "(GLOBAL double *a, GLOBAL double *b, GLOBAL double *c, GLOBAL double *sums, i64 n)" \
    "{ i64 i = GROUP * WIDE + LANE; double2 x, y, z; if (2 * i + 1 < n) {"                                   \
    "x = PAIR(a, i); y = PAIR(b, i); z = PAIR(c, i);"                                                        \
    "x.x = NEW(x.x, y.x, z.x); x.y = NEW(x.y, y.y, z.y); PAIR(" #target ", i) = x;"                          \
    "} else if (2 * i < n) { i *= 2; " #target "[i] = NEW(a[i], b[i], c[i]); } }\n#undef NEW\n"
static const char stream_text[] =
    "#define PAIR(array, i) ((GLOBAL double2 *)array)[i]\n"
    TEXT(KERNEL our_start(GLOBAL double *a, GLOBAL double *b, GLOBAL double *c, GLOBAL double *sums, i64 n) {
        i64 i = 2 * (GROUP * WIDE + LANE);
        for (i64 end = i + 2; i < end && i < n; i++) {
            a[i] = 0.1 * SCALE;
            b[i] = 0.2 * SCALE;
            c[i] = 0;
        }
    })
    STREAM(copy, c, a)
    STREAM(mul, b, 0.4 * c)
    STREAM(add, c, a + b)
    STREAM(triad, a, fma(0.4, c, b))
    TEXT(KERNEL our_dot(GLOBAL double *a, GLOBAL double *b, GLOBAL double *c, GLOBAL double *sums, i64 n) {
        LOCAL double part[WIDE];
        double sum = 0;
        UNROLL for (int k = 0; k < PER_ITEM; k++) {
            i64 i = (GROUP * PER_ITEM + k) * WIDE + LANE;
            if (2 * i + 1 < n) {
                double2 x = PAIR(a, i), y = PAIR(b, i);
                sum = fma(x.y, y.y, fma(x.x, y.x, sum));
            } else if (2 * i < n)
                sum = fma(a[2 * i], b[2 * i], sum);
        }
        part[LANE] = sum;
        SYNC;
        for (int least = WIDE / 2; least > 0; least /= 2) {
            if (LANE < least)
                part[LANE] += part[LANE + least];
            SYNC;
        }
        if (LANE == 0)
            sums[GROUP] = part[0];
    });

/* x becomes 3 - x and then x + 2^-9: exact, and all bits of x change. A sweep of 128 pairs adds a quarter, the next
   takes it away. The factors are arguments, or the compiler would know them. right: how many x came out right. */
static const char vector_text[] =
    TEXT(KERNEL run(GLOBAL int *right, i64 rounds, i64 minus, i64 three, i64 more) {
        REAL x[CHAINS], a = REAL_OF(minus);
        i64 item = GROUP * WIDE + LANE;
        u64 seed = (item + 1) * 0x9E3779B97F4A7C15UL;
        int good = 0;
        seed ^= seed >> 29;
        for (i64 round = 0; round < rounds; round++, seed += 0x5851F42D4C957F2DUL) {
            REAL b = REAL_OF(three), c = REAL_OF(more);
            UNROLL for (int j = 0; j < CHAINS; j++)
                x[j] = REAL_OF(ONE | ((seed >> j) & MASK));
            for (int sweep = 0; sweep < SWEEPS; sweep++) {
                for (int pair = 0; pair < PAIRS; pair += 8)
                    UNROLL for (int k = 0; k < 8; k++) {
                        UNROLL for (int j = 0; j < CHAINS; j++)
                            x[j] = FMA(x[j], a, b);
                        UNROLL for (int j = 0; j < CHAINS; j++)
                            x[j] = FMA(x[j], a, c);
                    }
                REAL other = b;
                b = c;
                c = other;
            }
            UNROLL for (int j = 0; j < CHAINS; j++)
                good += WORD_OF(x[j]) == (WORD)(ONE | QUARTER | ((seed >> j) & MASK));
        }
        right[item] = good;
    });

/* C += A B in each warp. A and B are random integers of so few bits that all sums are exact. Which lane has which
   element: PTX ISA, matrix fragments for mma.m8n8k4 with .f64, mma.m16n8k8, mma.m16n8k16 with floating point type,
   mma.m16n8k32 with .s8. */
static const char matrix_text[] =
    TEXT(__device__ int entry(u64 seed, int row, int column) {
        return (int)(((seed * 1024 + row * 32 + column + 1) * 0x9E3779B97F4A7C15UL >> 33) % (2 * RANGE + 1)) - RANGE;
    }
    __device__ unsigned halves(int low, int high) {
        unsigned pair;
        asm("{.reg .f16 l, h; cvt.rn.f16.s32 l, %1; cvt.rn.f16.s32 h, %2; mov.b32 %0, {l, h};}"
            : "=r"(pair) : "r"(low), "r"(high));
        return pair;
    }
    __device__ unsigned brains(int low, int high) {
        return __float_as_uint((float)high) & 0xFFFF0000U | __float_as_uint((float)low) >> 16;
    }
    __device__ unsigned bytes(int a, int b, int c, int d) {
        return (a & 255) | (b & 255) << 8 | (c & 255) << 16 | (unsigned)d << 24;
    }
    KERNEL run(GLOBAL int *right, i64 rounds, i64 minus, i64 three, i64 more) {
        i64 item = GROUP * WIDE + LANE, product[NC];
        int g = LANE % 32 / 4, t = LANE % 4, good = 0;
        u64 ours = item / 32 * 2, theirs = ours + 1;
        OPERAND a[NA], b[NB];
        FLOAT c[CHAINS][NC];
        UNROLL for (int i = 0; i < NA; i++)
            a[i] = PACKED(A, i);
        UNROLL for (int i = 0; i < NB; i++)
            b[i] = PACKED(B, i);
        UNROLL for (int i = 0; i < NC; i++) {
            product[i] = 0;
            for (int k = 0; k < DEPTH; k++)
                product[i] += (i64)entry(ours, g + i / 2 * 8, k) * entry(theirs, k, 2 * t + i % 2);
        }
        for (i64 round = 0; round < rounds; round++) {
            UNROLL for (int j = 0; j < CHAINS; j++)
                UNROLL for (int i = 0; i < NC; i++)
                    c[j][i] = j + (round & 7);
            for (int step = 0; step < STEPS; step += 4)
                UNROLL for (int k = 0; k < 4; k++)
                    UNROLL for (int j = 0; j < CHAINS; j++)
                        MMA(c[j]);
            UNROLL for (int j = 0; j < CHAINS; j++)
                UNROLL for (int i = 0; i < NC; i++)
                    good += c[j][i] == (FLOAT)(j + (round & 7) + STEPS * product[i]);
        }
        right[item] = good;
    });

#define REALS(real, word, real_of, word_of, one, mask, quarter)                                     \
    "typedef " #real " REAL; typedef " #word " WORD;\n#define REAL_OF(w) " #real_of "((" #word ")(w))\n" \
    "#define WORD_OF " #word_of "\n#define ONE " #one "\n#define MASK " #mask "\n#define QUARTER " #quarter "\n"
#define FUSED "#define FMA fma\n"
#define PAIR_FUSED                                                                                  \
    "__device__ unsigned FMA(unsigned x, unsigned a, unsigned b)"                                   \
    "{ asm(\"fma.rn.f16x2 %0, %0, %1, %2;\" : \"+r\"(x) : \"r\"(a), \"r\"(b)); return x; }\n"
#define MATRIX(operand, real, na, nb, nc, depth, range, packed)                                     \
    "typedef " #operand " OPERAND; typedef " #real " FLOAT;\n#define NA " #na "\n#define NB " #nb "\n#define NC " #nc \
    "\n#define DEPTH " #depth "\n#define RANGE " #range "\n#define PACKED(of, i) " #packed "\n"
#define FRAGMENTS(a_row, a_column, b_row)                                                           \
    "#define A(i) entry(ours, " #a_row ", " #a_column ")\n#define B(i) entry(theirs, " #b_row ", g)\n"
#define MMA_DOUBLE                                                                                  \
    "#define MMA(c) asm(\"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};\" " \
    ": \"+d\"(c[0]), \"+d\"(c[1]) : \"d\"(a[0]), \"d\"(b[0]))\n"
#define MMA_WIDE(shape, out, in)                                                                    \
    "#define MMA(c) asm(\"mma.sync.aligned." shape " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\" " \
    ": \"+" out "\"(c[0]), \"+" out "\"(c[1]), \"+" out "\"(c[2]), \"+" out "\"(c[3]) " \
    ": \"" in "\"(a[0]), \"" in "\"(a[1]), \"" in "\"(a[2]), \"" in "\"(a[3]), " \
    "\"" in "\"(b[0]), \"" in "\"(b[1]))\n"
#define SIXTEEN_DEEP FRAGMENTS(g + (i) / 2 % 2 * 8, 2 * t + (i) % 2 + (i) / 4 * 8, 2 * t + (i) % 2 + (i) / 2 * 8)
#define EIGHT_DEEP FRAGMENTS(g + (i) % 2 * 8, t + (i) / 2 * 4, t + (i) * 4)
#define FLOPS (2.0 * CHAINS * SWEEPS * 2 * PAIRS)
#define MATRIX_FLOPS(m, n, k) (2.0 * m * n * k / 32 * CHAINS * STEPS)

static const struct kind {
    const char *name, *text;
    const char *cuda, *opencl; /* types, in front of the text; NULL: OpenCL has none of this kind */
    const char *extension;     /* that OpenCL needs */
    int sm;                    /* that CUDA needs */
    int wide;                  /* work-items of a group */
    int right;                 /* results of a work-item in a round */
    double operations;         /* of a work-item in a round */
    int64_t minus, three, more; /* the bits of -1, 3 and 3 + 2^-9 */
    struct { int compute, in, out, bits; } blas; /* cublasComputeType_t, cudaDataType; random bits of an element */
} kinds[] = { /* of two with one name a device takes the last that it has */
#define DOUBLE REALS(double, i64, as_double, as_long, 0x3FF0000000000000UL, 0x3FFFFFFFFFFFFUL, 0x4000000000000UL) FUSED
    {"double", vector_text, DOUBLE, DOUBLE, "cl_khr_fp64", 0, 256, CHAINS, FLOPS,
     (int64_t)0xBFF0000000000000, 0x4008000000000000, 0x4008040000000000, {70, 1, 1, 52}},
#define SINGLE REALS(float, int, as_float, as_int, 0x3F800000U, 0x1FFFFFU, 0x200000U) FUSED
    {"single", vector_text, SINGLE, SINGLE, "", 0, 256, CHAINS, FLOPS, 0xBF800000, 0x40400000, 0x40402000,
     {68, 0, 0, 23}},
    {"half", vector_text, REALS(unsigned, int, , , 0x3C003C00U, 0xFF00FFU, 0x1000100U) PAIR_FUSED,
     REALS(half2, int, as_half2, as_int, 0x3C003C00U, 0xFF00FFU, 0x1000100U) FUSED,
     "cl_khr_fp16", 53, 256, CHAINS, 2 * FLOPS, 0xBC00BC00, 0x42004200, 0x42014201, {0}},
    {"double_matrix", matrix_text, MATRIX(double, double, 1, 1, 2, 4, 500000, of(i)) FRAGMENTS(g, t, t) MMA_DOUBLE,
     NULL, NULL, 80, 256, 2 * CHAINS, MATRIX_FLOPS(8, 8, 4), 0, 0, 0, {70, 1, 1, 52}},
    {"double_matrix", matrix_text, MATRIX(double, double, 4, 2, 4, 8, 500000, of(i)) EIGHT_DEEP
     MMA_WIDE("m16n8k8.row.col.f64.f64.f64.f64", "d", "d"), NULL, NULL, 90, 256, 4 * CHAINS, MATRIX_FLOPS(16, 8, 8), 0, 0,
     0, {70, 1, 1, 52}},
    {"half_matrix", matrix_text, MATRIX(unsigned, float, 4, 2, 4, 16, 7, halves(of(2 * i), of(2 * i + 1)))
     SIXTEEN_DEEP MMA_WIDE("m16n8k16.row.col.f32.f16.f16.f32", "f", "r"), NULL, NULL, 80, 256, 4 * CHAINS,
     MATRIX_FLOPS(16, 8, 16), 0, 0, 0, {68, 2, 0, 10}},
    {"bf16_matrix", matrix_text, MATRIX(unsigned, float, 4, 2, 4, 16, 7, brains(of(2 * i), of(2 * i + 1)))
     SIXTEEN_DEEP MMA_WIDE("m16n8k16.row.col.f32.bf16.bf16.f32", "f", "r"), NULL, NULL, 80, 256, 4 * CHAINS,
     MATRIX_FLOPS(16, 8, 16), 0, 0, 0, {68, 14, 0, 7}},
    {"tf32_matrix", matrix_text, MATRIX(unsigned, float, 4, 2, 4, 8, 7, __float_as_uint((float)of(i))) EIGHT_DEEP
     MMA_WIDE("m16n8k8.row.col.f32.tf32.tf32.f32", "f", "r"), NULL, NULL, 80, 256, 4 * CHAINS, MATRIX_FLOPS(16, 8, 8),
     0, 0, 0, {77, 0, 0, 10}},
    {"int8_matrix", matrix_text, MATRIX(unsigned, int, 4, 2, 4, 32, 100,
     bytes(of(4 * i), of(4 * i + 1), of(4 * i + 2), of(4 * i + 3)))
     FRAGMENTS(g + (i) / 4 % 2 * 8, 4 * t + (i) % 4 + (i) / 8 * 16, 4 * t + (i) % 4 + (i) / 4 * 16)
     MMA_WIDE("m16n8k32.row.col.s32.s8.s8.s32", "r", "r"), NULL, NULL, 80, 256, 4 * CHAINS, MATRIX_FLOPS(16, 8, 32), 0,
     0, 0, {72, 3, 10, 8}},
};
#define KINDS (int)(sizeof kinds / sizeof *kinds)
static const struct kind streaming = {"stream", stream_text, "", "", "cl_khr_fp64", 0, 1024, 0, 0, 0, 0, 0, {0}};

/* The kind of this name that a device of compute capability sm runs; NULL if the name is none. */
static const struct kind *kind_of(const char *name, int sm)
{
    const struct kind *kind = NULL;
    for (int k = 0; k < KINDS; k++)
        if (!strcmp(name, kinds[k].name) && (!kind || kinds[k].sm <= sm))
            kind = &kinds[k];
    return kind;
}

/* ---- Libraries: what is called, and its types. Handles are pointers, codes are int. */

#define DECLARE(type, name, ...) static type (*name)(__VA_ARGS__);
#define RESOLVE(type, name, ...) \
    if (!(*(void **)&name = dlsym(library, #name))) \
        die(NULL, "%s has no %s: it is too old", file, #name);
#define LIBRARY(load, functions) \
    functions(DECLARE) \
    static void load(void *library, const char *file) { functions(RESOLVE) }

#define NVRTC(f) \
    f(int, nvrtcVersion, int *, int *) f(const char *, nvrtcGetErrorString, int) \
    f(int, nvrtcCreateProgram, void **, const char *, const char *, int, const char *const *, const char *const *) \
    f(int, nvrtcCompileProgram, void *, int, const char *const *) \
    f(int, nvrtcGetProgramLogSize, void *, size_t *) f(int, nvrtcGetProgramLog, void *, char *) \
    f(int, nvrtcGetCUBINSize, void *, size_t *) f(int, nvrtcGetCUBIN, void *, char *)
LIBRARY(load_nvrtc, NVRTC)

#define CUBLAS(f) \
    f(int, cublasCreate_v2, void **) f(int, cublasGetVersion_v2, void *, int *) \
    f(int, cublasGemmEx, void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, \
      int, const void *, void *, int, int, int, int)
LIBRARY(load_cublas, CUBLAS)

#define NCCL_INT32 2 /* ncclDataType_t */
#define NCCL_SUM 0   /* ncclRedOp_t */
#define NCCL(f) \
    f(int, ncclGetVersion, int *) f(const char *, ncclGetErrorString, int) \
    f(int, ncclCommInitAll, void **, int, const int *) \
    f(int, ncclAllReduce, const void *, void *, size_t, int, int, void *, void *) \
    f(int, ncclAllGather, const void *, void *, size_t, int, void *, void *)
LIBRARY(load_nccl, NCCL)

#define CUDA(f) \
    f(int, cuInit, unsigned) f(int, cuDriverGetVersion, int *) f(int, cuGetErrorName, int, const char **) \
    f(int, cuDeviceGetCount, int *) f(int, cuDeviceGet, int *, int) f(int, cuDeviceGetName, char *, int, int) \
    f(int, cuDeviceGetUuid_v2, void *, int) f(int, cuDeviceGetPCIBusId, char *, int, int) \
    f(int, cuDeviceGetAttribute, int *, int, int) f(int, cuDevicePrimaryCtxRetain, void **, int) \
    f(int, cuCtxSetCurrent, void *) f(int, cuModuleLoadData, void **, const void *) \
    f(int, cuModuleGetFunction, void **, void *, const char *) \
    f(int, cuMemAlloc_v2, void **, size_t) f(int, cuMemHostAlloc, void **, size_t, unsigned) \
    f(int, cuMemcpyHtoDAsync_v2, void *, const void *, size_t, void *) \
    f(int, cuMemcpyDtoHAsync_v2, void *, void *, size_t, void *) \
    f(int, cuMemcpyPeerAsync, void *, void *, void *, void *, size_t, void *) \
    f(int, cuDeviceCanAccessPeer, int *, int, int) f(int, cuCtxEnablePeerAccess, void *, unsigned) \
    f(int, cuEventCreate, void **, unsigned) f(int, cuEventRecord, void *, void *) \
    f(int, cuEventSynchronize, void *) f(int, cuEventElapsedTime, float *, void *, void *) \
    f(int, cuLaunchKernel, void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, \
      void **, void **)
LIBRARY(load_cuda, CUDA)

#define OPENCL(f) \
    f(int, clGetPlatformIDs, unsigned, void **, unsigned *) \
    f(int, clGetDeviceIDs, void *, uint64_t, unsigned, void **, unsigned *) \
    f(int, clGetDeviceInfo, void *, unsigned, size_t, void *, size_t *) \
    f(void *, clCreateContext, void *, unsigned, void **, void *, void *, int *) \
    f(void *, clCreateCommandQueue, void *, void *, uint64_t, int *) \
    f(void *, clCreateProgramWithSource, void *, unsigned, const char **, const size_t *, int *) \
    f(int, clBuildProgram, void *, unsigned, void **, const char *, void *, void *) \
    f(int, clGetProgramBuildInfo, void *, void *, unsigned, size_t, void *, size_t *) \
    f(void *, clCreateKernel, void *, const char *, int *) \
    f(int, clSetKernelArg, void *, unsigned, size_t, const void *) \
    f(void *, clCreateBuffer, void *, uint64_t, size_t, void *, int *) \
    f(void *, clEnqueueMapBuffer, void *, void *, unsigned, uint64_t, size_t, size_t, unsigned, void *, void *, int *) \
    f(int, clEnqueueNDRangeKernel, void *, void *, unsigned, const size_t *, const size_t *, const size_t *, \
      unsigned, void *, void **) \
    f(int, clEnqueueReadBuffer, void *, void *, unsigned, size_t, size_t, void *, unsigned, void *, void **) \
    f(int, clEnqueueWriteBuffer, void *, void *, unsigned, size_t, size_t, const void *, unsigned, void *, void **) \
    f(int, clWaitForEvents, unsigned, void **) f(int, clReleaseEvent, void *) \
    f(int, clGetEventProfilingInfo, void *, unsigned, size_t, void *, size_t *)
LIBRARY(load_opencl, OPENCL)

/* What a mode needs of CUDA or OpenCL. Times are the device's own, in seconds; each call waits for its end. */
struct api {
    const char *name;
    void (*find)(void);
    void (*enter)(struct device *); /* in the thread of a device, first */
    const char *(*lacks)(const struct device *, const struct kind *, char why[99]);
    void *(*kernel)(struct device *, const struct kind *, const char *name);
    void *(*memory)(struct device *, size_t bytes);
    void *(*pinned)(struct device *, size_t bytes);
    double (*run)(struct device *, const struct kind *, void *kernel, int64_t groups, int64_t arguments[5]);
    double (*copy)(struct device *, void *host, void *memory, size_t from, size_t bytes, int to_device);
    double (*pass)(struct device *, void *, struct device *, void *, size_t bytes, int *direct);
};
static const struct api *api;

/* A universal identifier as NVIDIA's tools print it. */
static void write_uuid(struct device *d, const char *before, const uint8_t uuid[16])
{
    char *to = d->uuid + sprintf(d->uuid, "%s", before);
    for (int i = 0; i < 16; i++)
        to += sprintf(to, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

/* ---- CUDA */

/* Load a library; NULL where the loader finds none. One that is there and cannot be loaded ends the program. */
static void *open_library(const char *file)
{
    void *library = dlopen(file, RTLD_NOW);
    const char *why = library ? file : dlerror();
    if (!library && (strncmp(why, file, strlen(file)) || !strstr(why, "cannot open shared object file: No such file")))
        die(NULL, "%s", why);
    return library;
}

/* Load NAME.so, .13, .12, .11 or .2, else the file that a variable names; NULL without any. */
static void *find_library(const char *name, const char *variable, void (*load)(void *, const char *))
{
    static const char *const ends[] = {"", ".13", ".12", ".11", ".2", NULL};
    const char *own = getenv(variable);
    char file[99];
    void *library = NULL;
    for (const char *const *end = ends; *end && !library; end++) {
        snprintf(file, sizeof file, "%s.so%s", name, *end);
        library = open_library(file);
    }
    if (!library && own)
        library = open_library(own);
    if (library)
        load(library, name);
    return library;
}

static int has_nvrtc(void)
{
    #pragma omp critical
    if (!nvrtcVersion)
        find_library("libnvrtc", "PARITY_NVRTC", load_nvrtc);
    return nvrtcVersion != NULL;
}

static void find_nvrtc(void)
{
    const char *own = getenv("PARITY_NVRTC");
    if (!has_nvrtc())
        die(NULL, "no NVRTC: the loader finds no libnvrtc.so, .13, .12 or .11; PARITY_NVRTC %s%s",
            own ? "names " : "is not set", own ? own : "");
}

#define RTC(call) check_nvrtc(#call, call)
static void check_nvrtc(const char *call, int code)
{
    if (code)
        die(NULL, "%.*s: %s", (int)strcspn(call, "("), call, nvrtcGetErrorString(code));
}

/* The machine code of a kind for sm_XX, which the caller frees. */
static char *compile(const struct kind *kind, const char *arch, size_t *bytes)
{
    char option[64], *text = malloc(1 << 16), *code;
    const char *options[] = {option};
    void *program;
    snprintf(option, sizeof option, "--gpu-architecture=%s", arch);
    snprintf(text, 1 << 16, "#define WIDE %d\n%s%s%s%s", kind->wide, both, for_cuda, kind->cuda, kind->text);
    RTC(nvrtcCreateProgram(&program, text, kind->name, 0, NULL, NULL));
    if (nvrtcCompileProgram(program, 1, options)) {
        RTC(nvrtcGetProgramLogSize(program, bytes));
        char *log = calloc(*bytes + 1, 1);
        RTC(nvrtcGetProgramLog(program, log));
        die(NULL, "NVRTC does not compile %s for %s: %s", kind->name, arch, log);
    }
    RTC(nvrtcGetCUBINSize(program, bytes));
    RTC(nvrtcGetCUBIN(program, code = malloc(*bytes)));
    free(text);
    return code;
}

#define CU(d, call) check_cuda(d, #call, call)
static void check_cuda(const struct device *d, const char *call, int code)
{
    const char *name = "unknown error";
    if (code) {
        cuGetErrorName(code, &name);
        die(d, "%.*s: %s (%d)", (int)strcspn(call, "("), call, name, code);
    }
}

static int cuda_number(const struct device *d)
{
    return (int)(intptr_t)d->id;
}

static int cuda_tells(const struct device *d, int attribute)
{
    int value = 0;
    return cuDeviceGetAttribute(&value, attribute, cuda_number(d)) ? 0 : value;
}

static void cuda_find(void)
{
    int version, number;
    uint8_t uuid[16];
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    CU(NULL, cuInit(0));
    CU(NULL, cuDriverGetVersion(&version));
    CU(NULL, cuDeviceGetCount(&count));
    snprintf(driver, sizeof driver, "%d.%d", version / 1000, version % 1000 / 10);
    for (int i = 0; i < count && i < MOST; i++) {
        struct device *d = &devices[i];
        CU(d, cuDeviceGet(&number, i));
        d->id = (void *)(intptr_t)number;
        CU(d, cuDeviceGetName(d->name, sizeof d->name, number));
        CU(d, cuDeviceGetUuid_v2(uuid, number));
        CU(d, cuDeviceGetPCIBusId(d->bus, sizeof d->bus, number));
        for (char *at = d->bus; *at; at++)
            *at = (char)tolower(*at);
        write_uuid(d, strstr(d->name, " MIG ") ? "MIG-" : "GPU-", uuid);
        d->sm = 10 * cuda_tells(d, 75) + cuda_tells(d, 76);
        snprintf(d->arch, sizeof d->arch, "sm_%d", d->sm);
        d->units = cuda_tells(d, 16);
        d->clock = cuda_tells(d, 13) / 1000;
        d->memory_clock = cuda_tells(d, 36) / 1000;
        d->bus_bits = cuda_tells(d, 37);
        d->cache = cuda_tells(d, 38);
    }
}

/* Let the calling thread, and so the memory that it touches first, stay at the device's socket. The kernel refuses
   where the job has no CPU there. */
static void stay_near(const struct device *d)
{
    char path[99], list[4096];
    cpu_set_t cpus;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/local_cpulist", d->bus);
    FILE *file = fopen(path, "r");
    CPU_ZERO(&cpus);
    for (char *at = file && fgets(list, sizeof list, file) ? list : ""; isdigit(*at); at += *at == ',') {
        long first = strtol(at, &at, 10), last = *at == '-' ? strtol(at + 1, &at, 10) : first;
        for (; first <= last && first < CPU_SETSIZE; first++)
            CPU_SET((size_t)first, &cpus);
    }
    sched_setaffinity(0, sizeof cpus, &cpus);
    if (file)
        fclose(file);
}

static void cuda_enter(struct device *d)
{
    if (!d->context) {
        stay_near(d);
        CU(d, cuDevicePrimaryCtxRetain(&d->context, cuda_number(d)));
        CU(d, cuCtxSetCurrent(d->context));
        CU(d, cuEventCreate(&d->events[0], 0));
        CU(d, cuEventCreate(&d->events[1], 0));
    }
    CU(d, cuCtxSetCurrent(d->context));
}

static const char *cuda_lacks(const struct device *d, const struct kind *kind, char why[99])
{
    snprintf(why, 99, "needs sm_%d, is %s", kind->sm, d->arch);
    return d->sm < kind->sm ? why : NULL;
}

static void *cuda_kernel(struct device *d, const struct kind *kind, const char *name)
{
    size_t bytes;
    void *module, *kernel;
    find_nvrtc();
    char *code = compile(kind, d->arch, &bytes);
    CU(d, cuModuleLoadData(&module, code));
    CU(d, cuModuleGetFunction(&kernel, module, name));
    free(code);
    return kernel;
}

static void *cuda_memory(struct device *d, size_t bytes)
{
    void *memory;
    d->asked += bytes;
    CU(d, cuMemAlloc_v2(&memory, bytes));
    return memory;
}

static void *cuda_pinned(struct device *d, size_t bytes)
{
    void *host;
    d->asked += bytes;
    CU(d, cuMemHostAlloc(&host, bytes, 0));
    return host;
}

#define TIMED(d, call) (CU(d, cuEventRecord((d)->events[0], NULL)), CU(d, call), cuda_seconds(d))
static double cuda_seconds(struct device *d)
{
    float milliseconds;
    CU(d, cuEventRecord(d->events[1], NULL));
    CU(d, cuEventSynchronize(d->events[1]));
    CU(d, cuEventElapsedTime(&milliseconds, d->events[0], d->events[1]));
    return milliseconds / 1e3;
}

static double cuda_run(struct device *d, const struct kind *kind, void *kernel, int64_t groups, int64_t arguments[5])
{
    void *places[5];
    for (int i = 0; i < 5; i++)
        places[i] = &arguments[i];
    return TIMED(d, cuLaunchKernel(kernel, (unsigned)groups, 1, 1, (unsigned)kind->wide, 1, 1, 0, NULL, places, NULL));
}

static double cuda_copy(struct device *d, void *host, void *memory, size_t from, size_t bytes, int to_device)
{
    char *place = (char *)memory + from;
    if (to_device)
        return TIMED(d, cuMemcpyHtoDAsync_v2(place, host, bytes, NULL));
    return TIMED(d, cuMemcpyDtoHAsync_v2(host, place, bytes, NULL));
}

static double cuda_pass(struct device *d, void *source, struct device *other, void *target, size_t bytes, int *direct)
{
    int code = 0;
    cuda_enter(d);
    CU(d, cuDeviceCanAccessPeer(direct, cuda_number(d), cuda_number(other)));
    if (*direct)
        code = cuCtxEnablePeerAccess(other->context, 0);
    check_cuda(d, "cuCtxEnablePeerAccess", code == 704 ? 0 : code); /* 704: it is enabled already */
    return TIMED(d, cuMemcpyPeerAsync(target, other->context, source, d->context, bytes, NULL));
}

static const struct api cuda = {"cuda", cuda_find, cuda_enter, cuda_lacks, cuda_kernel, cuda_memory, cuda_pinned,
                                cuda_run, cuda_copy, cuda_pass};

/* ---- OpenCL */

#define CL(d, call) check_opencl(d, #call, call)
static void check_opencl(const struct device *d, const char *call, int code)
{
    static const struct { int code; const char *name; } names[] = {
        {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"}, {-5, "CL_OUT_OF_RESOURCES"}, {-6, "CL_OUT_OF_HOST_MEMORY"},
        {-61, "CL_INVALID_BUFFER_SIZE"}, {-1001, "CL_PLATFORM_NOT_FOUND_KHR"}};
    const char *name = "error";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code)
            name = names[i].name;
    if (code)
        die(d, "%.*s: %s (%d)", (int)strcspn(call, "("), call, name, code);
}

static int opencl_tells(struct device *d, unsigned what, void *to, size_t bytes)
{
    return !clGetDeviceInfo(d->id, what, bytes, to, NULL);
}

static void opencl_find(void)
{
    void *platforms[16], *ids[MOST];
    unsigned several, found;
    CL(NULL, clGetPlatformIDs(16, platforms, &several));
    for (int any = 0; any < 2 && !count; any++) /* GPUs; without one, all devices */
        for (unsigned i = 0; i < several && i < 16; i++)
            if (!clGetDeviceIDs(platforms[i], any ? 0xFFFFFFFF : 4, MOST, ids, &found))
                for (unsigned k = 0; k < found && k < MOST && count < MOST; k++)
                    devices[count++].id = ids[k];
    for (struct device *d = devices; d < devices + count; d++) {
        uint8_t uuid[16];
        uint32_t pci[4], maker = 0, major, minor;
        opencl_tells(d, 0x102D, driver, sizeof driver);
        opencl_tells(d, 0x102B, d->name, sizeof d->name);
        opencl_tells(d, 0x1030, d->extensions, sizeof d->extensions);
        opencl_tells(d, 0x1002, &d->units, sizeof d->units);
        opencl_tells(d, 0x100C, &d->clock, sizeof d->clock);
        opencl_tells(d, 0x101E, &d->cache, sizeof d->cache);
        opencl_tells(d, 0x1001, &maker, sizeof maker);
        if (opencl_tells(d, 0x106A, uuid, sizeof uuid)) /* cl_khr_device_uuid */
            write_uuid(d, maker == 0x10DE ? "GPU-" : "", uuid);
        if (opencl_tells(d, 0x410F, pci, sizeof pci)) /* cl_khr_pci_bus_info */
            sprintf(d->bus, "%04x:%02x:%02x.%x", pci[0], pci[1], pci[2], pci[3]);
        if (opencl_tells(d, 0x4000, &major, 4) && opencl_tells(d, 0x4001, &minor, 4)) /* NVIDIA's */
            sprintf(d->arch, "sm_%u", 10 * major + minor);
        else if (!strncmp(d->name, "gfx", 3)) /* AMD's */
            sprintf(d->arch, "%.*s", (int)strcspn(d->name, ":"), d->name);
    }
}

static void opencl_enter(struct device *d)
{
    int code;
    if (d->context)
        return;
    d->context = clCreateContext(NULL, 1, &d->id, NULL, NULL, &code);
    check_opencl(d, "clCreateContext", code);
    d->queue = clCreateCommandQueue(d->context, d->id, 2, &code); /* 2: with times */
    check_opencl(d, "clCreateCommandQueue", code);
}

static const char *opencl_lacks(const struct device *d, const struct kind *kind, char why[99])
{
    if (kind->opencl && strstr(d->extensions, kind->extension))
        return NULL;
    snprintf(why, 99, kind->opencl ? "OpenCL has no %s here" : "OpenCL has no instruction for it", kind->extension);
    return why;
}

static void *opencl_kernel(struct device *d, const struct kind *kind, const char *name)
{
    char wide[32];
    const char *parts[] = {wide, both, for_opencl, kind->opencl, kind->text};
    int code;
    snprintf(wide, sizeof wide, "#define WIDE %d\n", kind->wide);
    void *program = clCreateProgramWithSource(d->context, 5, parts, NULL, &code), *kernel;
    check_opencl(d, "clCreateProgramWithSource", code);
    if (clBuildProgram(program, 1, &d->id, "", NULL, NULL)) {
        char log[4096] = "";
        clGetProgramBuildInfo(program, d->id, 0x1183, sizeof log, log, NULL);
        die(d, "OpenCL does not compile %s: %s", kind->name, log);
    }
    kernel = clCreateKernel(program, name, &code);
    check_opencl(d, "clCreateKernel", code);
    return kernel;
}

static void *opencl_allocate(struct device *d, uint64_t flags, size_t bytes)
{
    int code;
    d->asked += bytes;
    void *memory = clCreateBuffer(d->context, flags, bytes, NULL, &code);
    check_opencl(d, "clCreateBuffer", code);
    return memory;
}

static void *opencl_memory(struct device *d, size_t bytes)
{
    return opencl_allocate(d, 1, bytes);
}

static void *opencl_pinned(struct device *d, size_t bytes)
{
    int code;
    void *memory = opencl_allocate(d, 1 | 16, bytes), *host; /* 16: in the host's memory */
    host = clEnqueueMapBuffer(d->queue, memory, 1, 1 | 2, 0, bytes, 0, NULL, NULL, &code);
    check_opencl(d, "clEnqueueMapBuffer", code);
    return host;
}

static double opencl_end(struct device *d, void *event)
{
    uint64_t begin, end;
    CL(d, clWaitForEvents(1, &event));
    CL(d, clGetEventProfilingInfo(event, 0x1282, sizeof begin, &begin, NULL));
    CL(d, clGetEventProfilingInfo(event, 0x1283, sizeof end, &end, NULL));
    CL(d, clReleaseEvent(event));
    return (double)(end - begin) / 1e9;
}

static double opencl_run(struct device *d, const struct kind *kind, void *kernel, int64_t groups, int64_t arguments[5])
{
    size_t wide = (size_t)kind->wide, items = (size_t)groups * wide;
    void *event;
    for (int i = 0; i < 5; i++)
        CL(d, clSetKernelArg(kernel, (unsigned)i, 8, &arguments[i]));
    CL(d, clEnqueueNDRangeKernel(d->queue, kernel, 1, NULL, &items, &wide, 0, NULL, &event));
    return opencl_end(d, event);
}

static double opencl_copy(struct device *d, void *host, void *memory, size_t from, size_t bytes, int to_device)
{
    void *event;
    if (to_device)
        CL(d, clEnqueueWriteBuffer(d->queue, memory, 0, from, bytes, host, 0, NULL, &event));
    else
        CL(d, clEnqueueReadBuffer(d->queue, memory, 0, from, bytes, host, 0, NULL, &event));
    return opencl_end(d, event);
}

static const struct api opencl = {"opencl", opencl_find, opencl_enter, opencl_lacks, opencl_kernel, opencl_memory,
                                  opencl_pinned, opencl_run, opencl_copy, NULL};
#endif
