/* How many arithmetic operations a second: C11 with OpenMP, GCC's vectors (GCC, Clang and theirs).

       ops [--seconds S] [--samples N] KIND...          double int64 int32 int16 int8

   double: x = x * a + b, two operations, one instruction where there is a fused multiply-add. Integers:
   x = (x + a) ^ b, two operations. a is 1.0 and b of the integers is 0, which the compiler cannot know:
   so every result has a closed form, x + iterations x step, and each lane of each chain is compared with
   it. Chains are independent and fill the pipes; their vectors are as wide as the target's.
   Threads are OpenMP's. With --samples the first kind is told once a second.
   Exit codes: 0, 1 if a result is wrong, 2 for what it cannot start with. */
#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kernel.h"

#if defined __AVX512F__
#define WIDTH 64
#elif defined __AVX__
#define WIDTH 32
#else
#define WIDTH 16
#endif

/* As many chains as registers hold beside a and b: 16 of x86 up to AVX2, 32 of all others. */
#if defined __x86_64__ && !defined __AVX512F__
#define CHAINS 12
#define EACH(do) do(0) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11)
#else
#define CHAINS 24
#define EACH(do) do(0) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11) \
    do(12) do(13) do(14) do(15) do(16) do(17) do(18) do(19) do(20) do(21) do(22) do(23)
#endif

#define CHUNK 20000 /* iterations between two looks at the clock: some tenths of a millisecond */
#define MOST 4096   /* threads */

static struct { volatile int64_t count; char apart[120]; } done[MOST]; /* iterations, in lines of their own */

/* What the compiler cannot know: it has to compute. */
static volatile double one = 1.0, three = 3.0;
static volatile uint64_t odd = UINT64_C(0x9E3779B97F4A7C15), zero = 0;

#define LOAD(i) vector x##i = chain[i];
#define STORE(i) chain[i] = x##i;
#define FUSED(i) x##i = x##i * a + b;
#define MIXED(i) x##i = (x##i + a) ^ b;

/* Of each kind: set the lanes, iterate once more, compare with what `count` iterations make. */
#define KERNEL(name, type, STEP, A, B, EXPECTED)                                                     \
    static void name##_set(void *chains)                                                             \
    {                                                                                                \
        for (int i = 0; i < (int)(CHAINS * WIDTH / sizeof(type)); i++)                               \
            ((type *)chains)[i] = (type)i;                                                           \
    }                                                                                                \
    static void name##_chunk(void *chains)                                                           \
    {                                                                                                \
        typedef type vector __attribute__((vector_size(WIDTH)));                                     \
        vector *chain = chains, a = (vector){0} + (type)A, b = (vector){0} + (type)B;                \
        EACH(LOAD)                                                                                   \
        for (int i = 0; i < CHUNK; i++) {                                                            \
            EACH(STEP)                                                                               \
        }                                                                                            \
        EACH(STORE)                                                                                  \
    }                                                                                                \
    static int name##_right(const void *chains, int64_t count)                                       \
    {                                                                                                \
        for (int i = 0; i < (int)(CHAINS * WIDTH / sizeof(type)); i++)                               \
            if (((const type *)chains)[i] != (type)(EXPECTED))                                       \
                return 0;                                                                            \
        return 1;                                                                                    \
    }

KERNEL(double, double, FUSED, one, three, i + (double)count * three)
KERNEL(int64, uint64_t, MIXED, odd, zero, (uint64_t)i + (uint64_t)count * odd)
KERNEL(int32, uint32_t, MIXED, odd, zero, (uint64_t)i + (uint64_t)count * odd)
KERNEL(int16, uint16_t, MIXED, odd, zero, (uint64_t)i + (uint64_t)count * odd)
KERNEL(int8, uint8_t, MIXED, odd, zero, (uint64_t)i + (uint64_t)count * odd)

static const struct kind {
    const char *name;
    int bytes;
    void (*set)(void *), (*chunk)(void *);
    int (*right)(const void *, int64_t);
} kinds[] = {
    {"double", 8, double_set, double_chunk, double_right}, {"int64", 8, int64_set, int64_chunk, int64_right},
    {"int32", 4, int32_set, int32_chunk, int32_right}, {"int16", 2, int16_set, int16_chunk, int16_right},
    {"int8", 1, int8_set, int8_chunk, int8_right},
};

static int64_t all_done(int threads)
{
    int64_t sum = 0;
    for (int i = 0; i < threads; i++)
        sum += done[i].count;
    return sum;
}

/* Operations of one iteration of one thread. */
static double work(const struct kind *kind)
{
    return 2.0 * CHAINS * WIDTH / kind->bytes;
}

/* What one thread does for so long; thread 0 tells a sample a second. 1 if the thread's results are wrong. */
static int keep_on(const struct kind *kind, int samples, double start, double seconds)
{
    int me = omp_get_thread_num(), threads = omp_get_num_threads(), told = 0;
    double at = start;
    int64_t before = 0;
    _Alignas(64) char chains[CHAINS * WIDTH];
    kind->set(chains);
    for (double now = start; now < start + seconds; now = omp_get_wtime()) {
        kind->chunk(chains);
        done[me].count += CHUNK;
        if (me == 0 && told < samples && (now = omp_get_wtime()) >= start + told + 1) {
            int64_t sum = all_done(threads);
            say("sample %d %s iterations %" PRId64 " seconds %.6f rate %.6g Gop/s\n", ++told, kind->name,
                sum - before, now - at, (double)(sum - before) * work(kind) / (now - at) / 1e9);
            before = sum;
            at = now;
        }
    }
    return !kind->right(chains, done[me].count);
}

static int measure(const struct kind *kind, double seconds, int samples)
{
    int wrong = 0, threads = 1;
    double start = 0, last = 0;
    memset((void *)done, 0, sizeof done);
    #pragma omp parallel reduction(+ : wrong) reduction(max : last)
    {
        #pragma omp barrier
        #pragma omp single
        {
            start = omp_get_wtime();
            threads = omp_get_num_threads();
        }
        wrong = keep_on(kind, samples, start, seconds);
        last = omp_get_wtime();
    }
    int64_t sum = all_done(threads);
    say("%s threads %d lanes %d chains %d iterations %" PRId64 " seconds %.6f rate %.6g Gop/s wrong %d\n",
        kind->name, threads, WIDTH / kind->bytes, CHAINS, sum, last - start,
        (double)sum * work(kind) / (last - start) / 1e9, wrong);
    return wrong;
}

static int refuse(const char *what)
{
    fprintf(stderr, "ops: %s; usage: ops [--seconds S] [--samples N] double|int64|int32|int16|int8 ...\n", what);
    return 2;
}

int main(int count, char **words)
{
    double seconds = 1;
    int samples = 0, wrong = 0, ran = 0;
    if (omp_get_max_threads() > MOST)
        return refuse("too many threads");
    say("ops 1 width %d\n", WIDTH * 8);
    for (int i = 1; i < count; i++) {
        if (!strcmp(words[i], "--seconds") && i + 1 < count) {
            seconds = atof(words[++i]);
            continue;
        }
        if (!strcmp(words[i], "--samples") && i + 1 < count) {
            seconds = samples = atoi(words[++i]);
            seconds += 0.5; /* the last sample is told at its end */
            continue;
        }
        const struct kind *kind = NULL;
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (!strcmp(words[i], kinds[k].name))
                kind = &kinds[k];
        if (!kind || !(seconds > 0) || samples < 0)
            return refuse(words[i]);
        wrong += measure(kind, seconds, samples);
        ran++;
    }
    return ran ? end("ops", ran, wrong) : refuse("nothing to do");
}
