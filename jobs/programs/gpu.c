/* What GPUs can do, all devices of a node at once, a thread of OpenMP each: C11.

       gpu [--opencl] stream ELEMENTS TIMES     Copy Mul Add Triad Dot as in BabelStream, double precision
       gpu [--opencl] ops SECONDS KIND...       multiply-adds: double single half; *_matrix of double half bf16 tf32 int8
       gpu [--opencl] load SECONDS KIND...      the first of the kinds that a device has, told once a second
       gpu [--opencl] gemm|burn SECONDS KIND... as ops and load, by cuBLAS where it is and has such a product
       gpu [--opencl] transfer BYTES TIMES      host to device and back, then every pair of devices
       gpu [--opencl] collective BYTES TIMES    all-reduce and all-gather of NCCL over all devices
       gpu compile ARCH...                      all kernels by NVRTC for sm_80 and others; needs no device

   CUDA is taken where its driver is (libcuda.so.1), else OpenCL. NVRTC, which compiles for CUDA, is the loader's, else
   the file that PARITY_NVRTC names; so are cuBLAS (11 or later) and NCCL, by PARITY_CUBLAS and PARITY_NCCL.
   Exit codes: 0, 1 if a result is wrong, 2 for what it cannot start with, with the call that failed. */
#define _GNU_SOURCE
#include <math.h>
#include <omp.h>
#include "gpu.h"
#include "kernel.h"

/* ---- Modes: each prints its lines and returns how many results are wrong. */

static int printed; /* lines of results */

#define EVERY_DEVICE _Pragma("omp parallel num_threads(count)")
static struct device *my_device(void)
{
    if (omp_get_num_threads() != count)
        die(NULL, "has %d threads for %d devices", omp_get_num_threads(), count);
    struct device *d = &devices[omp_get_thread_num()];
    api->enter(d);
    return d;
}

static void *room(size_t bytes)
{
    void *own = malloc(bytes);
    if (!own)
        die(NULL, "no memory for %zu bytes", bytes);
    return own;
}

static void need(struct device *d, const struct kind *kind)
{
    char why[99];
    if (api->lacks(d, kind, why))
        die(d, "%s: %s", kind->name, why);
}

/* How many elements of the arrays, or of Dot's sums, are wrong after so many times. Each operation on the arrays is
   rounded once, here and there: equal. A sum of positive products, none of which is added more than 2 * PER_ITEM + 10
   times, is rounded as often, by 2^-53 each: well within 1e-14. */
static int64_t wrong_elements(struct device *d, void *const memory[4], int64_t n, int times)
{
    enum { PART = 1 << 20 };
    volatile double gold[3] = {0.1, 0.2, 0}; /* volatile: no operation joins another */
    int64_t wrong = 0, part = 2 * streaming.wide * PER_ITEM;
    double *got = room(PART * sizeof *got);
    for (int t = 0; t < times; t++) {
        gold[2] = gold[0];
        gold[1] = 0.4 * gold[2];
        gold[2] = gold[0] + gold[1];
        gold[0] = fma(0.4, gold[2], gold[1]);
    }
    for (int which = 0; which < 3; which++)
        for (int64_t from = 0; from < n; from += PART) {
            int64_t here = n - from < PART ? n - from : PART;
            double value = gold[which];
            api->copy(d, got, memory[which], (size_t)from * 8, (size_t)here * 8, 0);
            for (int64_t k = 0, i = from; k < here; k++, i++)
                wrong += got[k] != value * SCALE;
        }
    for (int64_t from = 0; from * part < n; from++) {
        double want = 0, factor = gold[0] * gold[1];
        if (from % PART == 0)
            api->copy(d, got, memory[3], (size_t)from * 8,
                      (size_t)((n + part - 1) / part - from < PART ? (n + part - 1) / part - from : PART) * 8, 0);
        for (int64_t i = from * part; i < n && i < (from + 1) * part; i++)
            want += SCALE * SCALE;
        wrong += !(fabs(got[from % PART] - want * factor) <= 1e-14 * want * factor);
    }
    free(got);
    return wrong;
}

static int stream(int64_t n, int times)
{
    static const char *const names[] = {"our_copy", "our_mul", "our_add", "our_triad", "our_dot", "our_start"};
    static const int arrays[] = {2, 2, 3, 3, 2};
    static double least[MOST][5];
    static int64_t wrong[MOST];
    int bad = 0;
    EVERY_DEVICE
    {
        struct device *d = my_device();
        int64_t per_group = 2 * streaming.wide, groups = (n + per_group - 1) / per_group, sums = (groups + PER_ITEM - 1) / PER_ITEM;
        void *kernels[6], *memory[4];
        need(d, &streaming);
        for (int k = 0; k < 6; k++)
            kernels[k] = api->kernel(d, &streaming, names[k]);
        for (int k = 0; k < 4; k++)
            memory[k] = api->memory(d, (size_t)(k < 3 ? n : sums) * 8);
        int64_t arguments[] = {(intptr_t)memory[0], (intptr_t)memory[1], (intptr_t)memory[2], (intptr_t)memory[3], n};
        api->run(d, &streaming, kernels[5], groups, arguments);
        for (int t = 0; t < times; t++)
            for (int k = 0; k < 5; k++) {
                #pragma omp barrier
                double seconds = api->run(d, &streaming, kernels[k], k == 4 ? sums : groups, arguments);
                if (t == 0 || seconds < least[d - devices][k])
                    least[d - devices][k] = seconds;
            }
        wrong[d - devices] = wrong_elements(d, memory, n, times);
    }
    for (int i = 0; i < count; i++)
        for (int k = 0; k < 5; k++, printed++) {
            say("%s device %d elements %" PRId64 " times %d seconds %.6f rate %.6g GB/s wrong %d\n", names[k] + 4, i, n,
                times, least[i][k], (double)(8 * arrays[k] * n) / least[i][k] / 1e9, wrong[i] > 0);
            bad += wrong[i] > 0;
        }
    return bad;
}

/* ---- Products of cuBLAS: C = A B, with random bits in A and B. */

#define EDGE 8192
#define ELEMENTS ((int64_t)EDGE * EDGE)

enum { SINGLE_REAL, DOUBLE_REAL, HALF_REAL, BYTE = 3, WORD = 10, BRAIN_REAL = 14 }; /* cudaDataType */

/* Element i of A (0), B (1) or the vector x (2), whose elements are 1 and -1. Its 16 bits as a half or bfloat16, if
   asked: both are from 1/2 on, below 1. */
static double element(int which, const struct kind *kind, int64_t i, uint16_t *pattern)
{
    int bits = kind->blas.bits;
    uint64_t word = ((uint64_t)which << 40 | (uint64_t)i) * UINT64_C(0x9E3779B97F4A7C15) + 1;
    word = (word ^ word >> 31) * UINT64_C(0xBF58476D1CE4E5B9);
    if (kind->blas.in == BYTE && which < 2)
        return (int8_t)(word >> 56);
    double value = which == 2 ? 1 : 0.5 + (double)(word >> (64 - bits)) / (double)(UINT64_C(2) << bits);
    if (pattern)
        *pattern = (uint16_t)((word & 1) << 15 | (kind->blas.in == HALF_REAL ? 14U : 126U) << bits | word >> (64 - bits));
    return word & 1 ? -value : value;
}

static size_t bytes_of(int type)
{
    return type == BYTE ? 1 : type == HALF_REAL || type == BRAIN_REAL ? 2 : type == DOUBLE_REAL ? 8 : 4;
}

static void fill_matrix(struct device *d, const struct kind *kind, int which, void *memory)
{
    size_t each = bytes_of(kind->blas.in);
    char *column = room(EDGE * each);
    for (int64_t from = 0; from < ELEMENTS; from += EDGE) {
        for (int64_t i = 0; i < EDGE; i++) {
            uint16_t pattern = 0;
            double value = element(which, kind, from + i, &pattern);
            if (each == 8)
                ((double *)column)[i] = value;
            else if (each == 4)
                ((float *)column)[i] = (float)value;
            else if (each == 2)
                ((uint16_t *)column)[i] = pattern;
            else
                column[i] = (char)(int)value;
        }
        api->copy(d, column, memory, (size_t)from * each, EDGE * each, 1);
    }
    free(column);
}

/* Whether C x is A (B x). An element of C is a sum of EDGE products below 1. Roundings that all go one way move it by
   less than EDGE^1.5 u: its partial sums are near sqrt(EDGE), u is a unit of the last place. EDGE of them, of either
   sign, make EDGE^2 u. One element of C is near 50, this bound 8 in single and 1e-8 in double precision. Sums of
   integers are exact. */
static int is_product(struct device *d, const struct kind *kind, void *memory)
{
    int out = kind->blas.out;
    double unit = out == WORD ? 0 : out == DOUBLE_REAL ? 0x1p-52 : 0x1p-23;
    size_t each = bytes_of(out);
    double *x = room(4 * EDGE * sizeof *x), *bx = x + EDGE, *abx = bx + EDGE, *cx = abx + EDGE, worst = 0;
    char *column = room(EDGE * each);
    memset(x, 0, 4 * EDGE * sizeof *x);
    for (int64_t j = 0; j < EDGE; j++) {
        x[j] = element(2, kind, j, NULL);
        for (int64_t i = 0; i < EDGE; i++)
            bx[i] += x[j] * element(1, kind, j * EDGE + i, NULL);
    }
    for (int64_t j = 0; j < EDGE; j++) {
        api->copy(d, column, memory, (size_t)(j * EDGE) * each, EDGE * each, 0);
        for (int64_t i = 0; i < EDGE; i++) {
            abx[i] += bx[j] * element(0, kind, kind->blas.in == BYTE ? i * EDGE + j : j * EDGE + i, NULL);
            cx[i] += x[j] * (each == 8 ? ((double *)column)[i] : out == WORD ? (double)((int32_t *)column)[i]
                             : (double)((float *)column)[i]);
        }
    }
    for (int i = 0; i < EDGE; i++)
        worst = fmax(worst, isfinite(cx[i]) ? fabs(cx[i] - abx[i]) : INFINITY);
    free(column);
    free(x);
    return worst <= (double)ELEMENTS * unit;
}

static void check_cublas(const struct device *d, const char *call, int code)
{
    if (code)
        die(d, "%s: status %d of cuBLAS", call, code);
}

/* Integers: A is transposed, which cuBLAS asks for. */
static double multiply_matrices(struct device *d, const struct kind *kind, void *const memory[3], int64_t times)
{
    static const double factors[] = {1, 0};
    static const float single[] = {1, 0};
    static const int32_t whole[] = {1, 0};
    int in = kind->blas.in, out = kind->blas.out, n = EDGE;
    const void *both = out == DOUBLE_REAL ? (const void *)factors : out == WORD ? (const void *)whole : single;
    const char *one = both, *zero = one + bytes_of(out);
    CU(d, cuEventRecord(d->events[0], NULL));
    for (int64_t i = 0; i < times; i++)
        check_cublas(d, "cublasGemmEx", cublasGemmEx(
            d->blas, in == BYTE, 0, n, n, n, one, memory[0], in, n, memory[1], in, n, zero, memory[2], out, n,
            kind->blas.compute, -1));
    return cuda_seconds(d);
}

/* Whether cuBLAS has products of a kind on this device. In double precision it takes matrix units from sm_80 on. */
static int cublas_has(const struct device *d, const struct kind *kind)
{
    int sm = kind->blas.in == HALF_REAL ? 70 : kind->sm; /* half: ours needs a younger device */
    return kind->blas.compute && d->sm >= sm && !(kind == kinds && d->sm >= 80);
}

/* ---- Modes: multiply-adds, ours or cuBLAS's. */

static struct result {
    const struct kind *kind;
    double operations, seconds;
    int bad;
    char why[99], program[32];
} results[MOST];

static void say_rate(const char *before, int i, const struct result *done, double operations, double seconds)
{
    say("%s device %d program %s operations %.0f seconds %.6f rate %.6g %s/s wrong %d\n", before, i, done->program,
        operations, seconds, operations / seconds / 1e9, strncmp(done->kind->name, "int", 3) ? "Gflop" : "Gop", done->bad);
}

/* One kind for so long on one device; with `told`, a line a second. */
static void keep_on(struct device *d, double wanted, int told, int blas)
{
    struct result *own = &results[d - devices], before = *own;
    const struct kind *kind = own->kind;
    int64_t groups = 8LL * (d->units > 0 ? d->units : 1), items = groups * kind->wide;
    int *right = room((size_t)items * sizeof *right), tick = 0, version;
    void *kernel = NULL, *memory[3];
    double each = blas ? 2.0 * EDGE * ELEMENTS : kind->operations * (double)items;
    if (blas && !d->blas)
        check_cublas(d, "cublasCreate", cublasCreate_v2(&d->blas));
    if (blas)
        check_cublas(d, "cublasGetVersion", cublasGetVersion_v2(d->blas, &version));
    else
        kernel = api->kernel(d, kind, "run");
    snprintf(own->program, sizeof own->program, blas ? "cublas-%d" : "ours", version);
    for (int k = 0; k < (blas ? 3 : 1); k++) {
        size_t matrix = (size_t)ELEMENTS * bytes_of(k < 2 ? kind->blas.in : kind->blas.out);
        memory[k] = api->memory(d, blas ? matrix : (size_t)items * sizeof *right);
        if (blas && k < 2)
            fill_matrix(d, kind, k, memory[k]);
    }
    int64_t arguments[] = {(intptr_t)memory[0], 1, kind->minus, kind->three, kind->more}, *rounds = &arguments[1];
#define ONCE() (blas ? multiply_matrices(d, kind, memory, *rounds) : api->run(d, kind, kernel, groups, arguments))
    ONCE();
    while (*rounds < 1 << 24 && ONCE() < 0.05)
        *rounds *= 2;
    #pragma omp barrier
    for (double start = omp_get_wtime(); omp_get_wtime() < start + wanted;) {
        own->seconds += ONCE();
        own->operations += each * (double)*rounds;
        if (!blas)
            api->copy(d, right, memory[0], 0, (size_t)items * sizeof *right, 0);
        for (int64_t i = 0; !blas && i < items; i++)
            own->bad |= right[i] != *rounds * kind->right;
        if (told && omp_get_wtime() >= start + tick + 1) {
            char line[99];
            snprintf(line, sizeof line, "sample %d of %s", ++tick, kind->name);
            #pragma omp critical
            say_rate(line, (int)(d - devices), own, own->operations - before.operations, own->seconds - before.seconds);
            before = *own;
        }
    }
    own->bad |= blas && !is_product(d, kind, memory[2]);
    free(right);
}

/* The first of the kinds that a device has, on all devices. */
static int multiply(char **names, int several, double wanted, int told, int blas)
{
    int bad = 0;
    EVERY_DEVICE
    {
        struct device *d = my_device();
        struct result *own = &results[d - devices];
        int lacks = 1, by_cublas = 0;
        *own = (struct result){0};
        for (int i = 0; i < several && lacks; i++) {
            own->kind = kind_of(names[i], d->sm);
            by_cublas = blas && cublas_has(d, own->kind);
            lacks = !by_cublas && api->lacks(d, own->kind, own->why) != NULL;
            if (blas && !by_cublas && !lacks && (lacks = !has_nvrtc()))
                snprintf(own->why, sizeof own->why, "cuBLAS has no such product on %s, and there is no NVRTC", d->arch);
        }
        if (!lacks) {
            keep_on(d, wanted, told, by_cublas);
        } else {
            #pragma omp barrier
        }
    }
    for (int i = 0; i < count; bad += results[i++].bad, printed++)
        if (results[i].operations > 0)
            say_rate(results[i].kind->name, i, &results[i], results[i].operations, results[i].seconds);
        else
            say("%s device %d none %s\n", results[i].kind->name, i, results[i].why);
    return bad;
}

static uint64_t word(int device, int64_t i)
{
    return ((uint64_t)device << 40 ^ (uint64_t)(i + 1)) * UINT64_C(0x9E3779B97F4A7C15);
}

/* Whether device memory holds the words of a device. */
static int holds(struct device *d, void *memory, uint64_t *host, size_t bytes, int whose)
{
    memset(host, 0, bytes);
    api->copy(d, host, memory, 0, bytes, 0);
    for (int64_t i = 0; i < (int64_t)(bytes / 8); i++)
        if (host[i] != word(whose, i))
            return 0;
    return 1;
}

static int told_transfer(const char *what, const char *whom, size_t bytes, int times, double seconds, int wrong)
{
    say("%s device %s bytes %zu times %d seconds %.6f rate %.6g GB/s wrong %d\n", what, whom, bytes, times, seconds,
        (double)bytes * times / seconds / 1e9, wrong);
    printed++;
    return wrong;
}

static int transfer(size_t bytes, int times)
{
    static const char *const names[2][2] = {{"from_device", "to_device"}, {"from_device_all", "to_device_all"}};
    static struct { double seconds[2][2]; int wrong[2]; void *memory[2]; uint64_t *host; } own[MOST];
    int bad = 0;
    char whom[99];
    EVERY_DEVICE
    {
        struct device *d = my_device();
        int me = (int)(d - devices);
        own[me].host = api->pinned(d, bytes);
        for (int k = 0; k < 2; k++)
            own[me].memory[k] = api->memory(d, bytes);
        for (int turn = 0; turn <= count; turn++) { /* one by one, then all */
            int all = turn == count;
            #pragma omp barrier
            if (!all && turn != me)
                continue;
            for (int64_t i = 0; i < (int64_t)(bytes / 8); i++)
                own[me].host[i] = word(me, i);
            for (int to = 1; to >= 0; to--)
                for (int t = -1; t < times; t++) { /* -1: to warm up */
                    if (all) {
                        #pragma omp barrier
                    }
                    double seconds = api->copy(d, own[me].host, own[me].memory[0], 0, bytes, to);
                    own[me].seconds[all][to] += t < 0 ? 0 : seconds;
                }
            own[me].wrong[all] = !holds(d, own[me].memory[0], own[me].host, bytes, me);
        }
    }
    for (int all = 0; all < 2; all++)
        for (int i = 0; i < count; i++)
            for (int to = 1; to >= 0; to--) {
                snprintf(whom, sizeof whom, "%d", i);
                bad += told_transfer(names[all][to], whom, bytes, times, own[i].seconds[all][to], own[i].wrong[all]);
            }
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++) {
            double seconds = 0;
            int direct;
            if (i == k || !api->pass)
                continue;
            for (int t = -1; t < times; t++) {
                double took = api->pass(&devices[i], own[i].memory[0], &devices[k], own[k].memory[1], bytes, &direct);
                seconds += t < 0 ? 0 : took;
            }
            api->enter(&devices[k]);
            snprintf(whom, sizeof whom, "%d to %d direct %s", i, k, direct ? "yes" : "no");
            bad += told_transfer("pair", whom, bytes, times, seconds,
                                 !holds(&devices[k], own[k].memory[1], own[k].host, bytes, i));
        }
    return bad;
}

/* ---- Collectives of NCCL: sums and copies of integers, all devices at once. */

static int32_t number_of(int device, int64_t i)
{
    return (int32_t)(word(device, i) >> 44);
}

/* Whether a device received the sum over all devices, or after an all-gather the part of each. */
static int received(struct device *d, void *memory, int32_t *host, int64_t numbers, int gather)
{
    memset(host, 0, (size_t)numbers * 4);
    api->copy(d, host, memory, 0, (size_t)numbers * 4, 0);
    for (int64_t i = 0, part = numbers / count; i < numbers; i++) {
        int32_t wanted = gather ? number_of((int)(i / part), i % part) : 0;
        for (int of = 0; !gather && of < count; of++)
            wanted += number_of(of, i);
        if (host[i] != wanted)
            return 0;
    }
    return 1;
}

static void check_nccl(const struct device *d, const char *call, int code)
{
    if (code)
        die(d, "%s: %s", call, ncclGetErrorString(code));
}

static int collective(size_t bytes, int times)
{
    static const char *const names[] = {"allreduce", "allgather"};
    static struct { double seconds[2]; int wrong[2]; } own[MOST];
    static void *comms[MOST];
    const char *lacks = api != &cuda ? "OpenCL has no NCCL"
        : find_library("libnccl", "PARITY_NCCL", load_nccl) ? NULL : "no NCCL: the loader finds no libnccl.so.2";
    int places[MOST], bad = 0, version;
    int64_t part = (int64_t)bytes / 4 / count, numbers = part * count;
    for (int row = 0; lacks && row < 2 * count; row++, printed++)
        say("%s device %d none %s\n", names[row / count], row % count, lacks);
    if (lacks)
        return 0;
    for (int i = 0; i < count; i++)
        places[i] = i;
    check_nccl(NULL, "ncclGetVersion", ncclGetVersion(&version));
    check_nccl(NULL, "ncclCommInitAll", ncclCommInitAll(comms, count, places));
    EVERY_DEVICE
    {
        struct device *d = my_device();
        int me = (int)(d - devices);
        int32_t *host = room((size_t)numbers * 4);
        void *from = api->memory(d, (size_t)numbers * 4), *to = api->memory(d, (size_t)numbers * 4);
        for (int64_t i = 0; i < numbers; i++)
            host[i] = number_of(me, i);
        api->copy(d, host, from, 0, (size_t)numbers * 4, 1);
        for (int gather = 0; gather < 2; gather++) {
            for (int t = -1; t < times; t++) { /* -1: to warm up */
                #pragma omp barrier
                CU(d, cuEventRecord(d->events[0], NULL));
                check_nccl(d, names[gather], gather
                    ? ncclAllGather(from, to, (size_t)part, NCCL_INT32, comms[me], NULL)
                    : ncclAllReduce(from, to, (size_t)numbers, NCCL_INT32, NCCL_SUM, comms[me], NULL));
                double seconds = cuda_seconds(d);
                own[me].seconds[gather] += t < 0 ? 0 : seconds;
            }
            own[me].wrong[gather] = !received(d, to, host, numbers, gather);
        }
        free(host);
    }
    for (int gather = 0; gather < 2; gather++)
        for (int i = 0; i < count; i++) {
            char whom[99];
            snprintf(whom, sizeof whom, "%d nccl %d", i, version);
            bad += told_transfer(names[gather], whom, (size_t)numbers * 4, times, own[i].seconds[gather],
                                 own[i].wrong[gather]);
        }
    return bad;
}

static void tell_devices(void)
{
    say("gpu 1 api %s driver %s devices %d\n", api->name, driver, count);
    for (int i = 0; i < count; i++) {
        struct device *d = &devices[i];
        const int64_t numbers[] = {d->units, d->clock, d->memory_clock, d->bus_bits, d->cache};
        char known[5][24];
        for (int k = 0; k < 5; k++)
            snprintf(known[k], sizeof known[k], numbers[k] > 0 ? "%" PRId64 : "unknown", numbers[k]);
        say("device %d uuid %s bus %s arch %s units %s clock_mhz %s memory_clock_mhz %s memory_bus_bits %s "
            "llc_bytes %s name %s\n", i, *d->uuid ? d->uuid : "unknown", *d->bus ? d->bus : "unknown",
            *d->arch ? d->arch : "unknown", known[0], known[1], known[2], known[3], known[4], d->name);
    }
}

/* All kernels for each architecture, without a device. */
static int compile_for(char **archs)
{
    int major, minor;
    find_nvrtc();
    RTC(nvrtcVersion(&major, &minor));
    say("gpu 1 api nvrtc driver %d.%d devices 0\n", major, minor);
    for (; *archs; archs++)
        for (int k = -1; k < KINDS; k++, printed++) {
            const struct kind *kind = k < 0 ? &streaming : &kinds[k];
            size_t bytes = 0;
            if (atoi(*archs + strcspn(*archs, "0123456789")) < kind->sm) {
                say("compile %s arch %s none needs sm_%d\n", kind->name, *archs, kind->sm);
                continue;
            }
            free(compile(kind, *archs, &bytes));
            say("compile %s arch %s bytes %zu\n", kind->name, *archs, bytes);
        }
    return 0;
}

static int refuse(const char *what)
{
    fprintf(stderr, "gpu: %s; usage: gpu [--opencl] stream ELEMENTS TIMES | transfer|collective BYTES TIMES | "
            "ops|load|gemm|burn SECONDS KIND..., or gpu compile ARCH...\nkinds:", what);
    for (int k = 0; k < KINDS; k++)
        fprintf(stderr, " %s", kinds[k].name);
    fputc('\n', stderr);
    return 2;
}

int main(int number, char **words)
{
    int forced = number > 1 && !strcmp(words[1], "--opencl"), wrong = 0;
    words += forced;
    const char *mode = words[1] ? words[1] : "nothing to do", *first = words[1] ? words[2] : NULL;
    char *rest = "";
    double value = first ? strtod(first, &rest) : 0;
    int times = first && words[3] ? atoi(words[3]) : 0, given = number - forced;
    if (!strcmp(mode, "compile") && given > 2)
        return end("gpu", printed, compile_for(words + 2));
    int copies = !strcmp(mode, "stream") || !strcmp(mode, "transfer") || !strcmp(mode, "collective");
    int told = !strcmp(mode, "load") || !strcmp(mode, "burn"), blas = !strcmp(mode, "gemm") || !strcmp(mode, "burn");
    if (!copies && !told && !blas && strcmp(mode, "ops"))
        return refuse(mode);
    if (*rest || !(value > 0 && value < 1e15) || given < 4 || (given > 4 && copies))
        return refuse(mode);
    if (copies && (times < 1 || times > 10000 || value != floor(value)))
        return refuse(words[3]);
    for (int i = 3; !copies && i < given; i++)
        if (!kind_of(words[i], 0))
            return refuse(words[i]);
    void *library = forced ? NULL : open_library("libcuda.so.1");
    api = library ? &cuda : &opencl;
    if (library)
        load_cuda(library, "libcuda.so.1");
    else if ((library = open_library("libOpenCL.so.1")))
        load_opencl(library, "libOpenCL.so.1");
    else
        die(NULL, "neither CUDA's driver nor OpenCL: the loader finds no libcuda.so.1 and no libOpenCL.so.1");
    api->find();
    if (count < 1 || count > MOST)
        die(NULL, "%s has %d devices; 1 to %d can be run", api->name, count, MOST);
    tell_devices();
    omp_set_dynamic(0);
    if (copies)
        wrong = *mode == 's' ? stream((int64_t)value, times)
            : *mode == 't' ? transfer((size_t)value / 8 * 8, times) : collective((size_t)value, times);
    blas = blas && api == &cuda && find_library("libcublas", "PARITY_CUBLAS", load_cublas);
    for (int i = 3; !copies && i < given; i += told ? given : 1)
        wrong += multiply(words + i, told ? given - 3 : 1, told ? value + 0.5 : value, told, blas);
    return end("gpu", printed, wrong);
}
