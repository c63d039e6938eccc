/* How fast memory is read and written in blocks of a size, one after another or in random order: C11 with OpenMP.

       blocks [--seconds S] --bytes B --order sequential|random OPERATION:BLOCK...

   OPERATION is read, write, update (read and written: both count) or chain (read, and where the next block
   is depends on what was read: one after another, never two at once); BLOCK is 1 or a multiple of 8, in bytes. Every thread has B bytes of its own, which it touched first. Random order comes from a linear
   congruential generator whose period is the number of blocks: each block once before one comes again.
   What a block has to hold, or what its words have to add up to, follows from its place: after the clock
   has stopped, the same sequence is walked again and all of it compared.
   Exit codes: 0, 1 if a result is wrong, 2 for what it cannot start with. */
#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kernel.h"

enum operation { READ, WRITE, UPDATE, CHAIN };
static const char *const operations[] = {"read", "write", "update", "chain"};

/* 0, which the compiler cannot know. */
static volatile uint64_t zero = 0;

/* No block is merged with the next one, and none is left out. */
#define APART __asm__ volatile("" ::: "memory")

struct walk {
    uint64_t at, blocks, mask;      /* of the block; how many there are; of the generator's numbers */
    int random;
};

static inline uint64_t next(struct walk *walk)
{
    uint64_t now = walk->at;
    if (walk->random)
        do      /* a - 1 is a multiple of 4, c is odd: the period is mask + 1 (Hull and Dobell, 1962) */
            walk->at = (walk->at * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407)) & walk->mask;
        while (walk->at >= walk->blocks);
    else if (++walk->at == walk->blocks)
        walk->at = 0;
    return now;
}

static struct walk walk_of(uint64_t blocks, int random)
{
    uint64_t mask = blocks > 1 ? UINT64_MAX >> __builtin_clzll(blocks - 1) : 0;
    return (struct walk){0, blocks, mask, random};
}

/* What stands at the start: words hold their number, bytes something of theirs. */
static inline uint8_t byte_at(uint64_t i) { return (uint8_t)(i ^ i >> 8 ^ i >> 16); }
static inline uint64_t written(uint64_t block) { return block * UINT64_C(0x9E3779B97F4A7C15) + 1; }

static void fill(uint64_t *words, uint64_t bytes, uint64_t block)
{
    if (block == 1)
        for (uint64_t i = 0; i < bytes; i++)
            ((uint8_t *)words)[i] = byte_at(i);
    else
        for (uint64_t i = 0; i < bytes / 8; i++)
            words[i] = i;
}

static inline __attribute__((always_inline)) uint64_t visit(enum operation what, uint64_t *words, uint64_t block,
                                                            uint64_t count, uint64_t sum)
{
    if (count == 0) {               /* a block of one byte */
        uint8_t *byte = (uint8_t *)words + block;
        if (what == READ || what == CHAIN)
            return sum + *byte;
        *byte = what == WRITE ? (uint8_t)written(block) : (uint8_t)(*byte + 1);
        return sum;
    }
    uint64_t *first = words + block * count, value = written(block);
    for (uint64_t i = 0; i < count; i++)
        if (what == READ || what == CHAIN)
            sum += first[i];
        else
            first[i] = what == WRITE ? value : first[i] + 1;
    return sum;
}

static inline __attribute__((always_inline)) uint64_t visits(enum operation what, uint64_t *words, uint64_t count,
                                                             struct walk *walk, uint64_t many, uint64_t sum)
{
    uint64_t nothing = zero;
    while (many--) {
        sum = visit(what, words, next(walk), count, sum);
        if (what == CHAIN)
            walk->at ^= sum & nothing;
        APART;
    }
    return sum;
}

/* Blocks of one byte, a word, a cache line, and any number of words, each compiled for itself. */
#define BY_COUNT(what)                                                                                    \
    (count == 0 ? visits(what, words, 0, walk, many, sum) : count == 1 ? visits(what, words, 1, walk, many, sum) \
     : count == 8 ? visits(what, words, 8, walk, many, sum) : visits(what, words, count, walk, many, sum))

static __attribute__((noinline)) uint64_t some(enum operation what, uint64_t *words, uint64_t count,
                                               struct walk *walk, uint64_t many, uint64_t sum)
{
    return what == READ ? BY_COUNT(READ) : what == WRITE ? BY_COUNT(WRITE)
        : what == UPDATE ? BY_COUNT(UPDATE) : BY_COUNT(CHAIN);
}

/* Whether the sum, or what stands in the blocks, is what `done` visits of this walk make. */
static int right(enum operation what, const uint64_t *words, uint64_t count, struct walk walk, uint64_t done,
                 uint64_t sum)
{
    const uint8_t *bytes = (const uint8_t *)words;
    uint64_t rounds = done / walk.blocks, rest = done % walk.blocks;
    uint64_t steps = rounds ? walk.blocks : rest, expected = 0;
    for (uint64_t step = 0; step < steps; step++) {
        uint64_t block = next(&walk), times = rounds + (step < rest);
        if (block == 0 && step > 0)
            return 0;               /* back at the start before every block was visited */
        if (what == READ || what == CHAIN) {
            expected += times * (count ? count * (block * count) + count * (count - 1) / 2 : byte_at(block));
            continue;
        }
        if (count == 0) {
            if (bytes[block] != (uint8_t)(what == WRITE ? written(block) : byte_at(block) + times))
                return 0;
            continue;
        }
        for (uint64_t i = block * count; i < (block + 1) * count; i++)
            if (words[i] != (what == WRITE ? written(block) : i + times))
                return 0;
    }
    return what == READ || what == CHAIN ? sum == expected : 1;
}

static int measure(enum operation what, uint64_t block, uint64_t bytes, int random, double seconds,
                   uint64_t *const *memory)
{
    int wrong = 0, threads = 1;
    uint64_t visited = 0, look = block < 65536 ? 65536 / block : 1; /* blocks between two looks at the clock */
    double start = 0, last = 0;
    #pragma omp parallel reduction(+ : wrong, visited) reduction(max : last)
    {
        uint64_t *words = memory[omp_get_thread_num()], sum = 0, done = 0;
        struct walk walk = walk_of(bytes / block, random), again = walk;
        fill(words, bytes, block);
        #pragma omp barrier
        #pragma omp single
        {
            start = omp_get_wtime();
            threads = omp_get_num_threads();
        }
        do {
            sum = some(what, words, block / 8, &walk, look, sum);
            done += look;
        } while ((last = omp_get_wtime()) < start + seconds);
        #pragma omp barrier
        wrong = !right(what, words, block / 8, again, done, sum);
        visited = done;
    }
    say("%s %s block %" PRIu64 " threads %d blocks %" PRIu64 " seconds %.6f rate %.6g GB/s wrong %d\n",
        operations[what], random ? "random" : "sequential", block, threads, visited, last - start,
        (what == UPDATE ? 2 : 1) * (double)visited * (double)block / (last - start) / 1e9, wrong);
    return wrong;
}

static int refuse(const char *what)
{
    fprintf(stderr, "blocks: %s; usage: blocks [--seconds S] --bytes B --order sequential|random "
                    "read|write|update|chain:BLOCK ...\n", what);
    return 2;
}

/* The memory of each thread, or NULL; fill() touches it first in the thread that uses it. */
static uint64_t **allocate(int threads, uint64_t bytes)
{
    uint64_t **memory = calloc((size_t)threads, sizeof *memory);
    for (int i = 0; memory && i < threads; i++)
        if (!(memory[i] = aligned_alloc(4096, bytes)))
            return NULL;
    return memory;
}

int main(int count, char **words)
{
    double seconds = 1;
    uint64_t bytes = 0, **memory = NULL;
    int random = 0, wrong = 0, ran = 0, threads = omp_get_max_threads();
    for (int i = 1; i < count; i++) {
        char *colon = strchr(words[i], ':');
        if (!strcmp(words[i], "--seconds") && i + 1 < count)
            seconds = atof(words[++i]);
        else if (!strcmp(words[i], "--bytes") && i + 1 < count)
            bytes = strtoull(words[++i], NULL, 10) / 4096 * 4096;
        else if (!strcmp(words[i], "--order") && i + 1 < count)
            random = !strcmp(words[++i], "random");
        else {
            enum operation what = READ;
            while (what <= CHAIN && (!colon || strncmp(words[i], operations[what], (size_t)(colon - words[i]))))
                what++;
            uint64_t block = colon ? strtoull(colon + 1, NULL, 10) : 0;
            if (what > CHAIN || block == 0 || (block != 1 && block % 8) || block > bytes || !(seconds > 0))
                return refuse(words[i]);
            if (!memory && !(memory = allocate(threads, bytes)))
                return refuse("not enough memory");
            if (!ran++)
                say("blocks 1 bytes %" PRIu64 "\n", bytes);
            wrong += measure(what, block, bytes, random, seconds, memory);
        }
    }
    return ran ? end("blocks", ran, wrong) : refuse("nothing to do");
}
