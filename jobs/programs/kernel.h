/* What our kernels print: lines, and an end that counts the results and has a CRC-32 of all lines before it. */
#ifndef KERNEL_H
#define KERNEL_H
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

static uint32_t kernel_crc = UINT32_MAX;

/* Print one line and take it up into the checksum (that of zlib). */
__attribute__((format(printf, 1, 2))) static void say(const char *form, ...)
{
    char line[400];
    va_list rest;
    va_start(rest, form);
    vsnprintf(line, sizeof line, form, rest);
    va_end(rest);
    for (const char *at = line; *at; at++) {
        kernel_crc ^= (uint8_t)*at;
        for (int bit = 0; bit < 8; bit++)
            kernel_crc = kernel_crc >> 1 ^ (kernel_crc & 1 ? UINT32_C(0xEDB88320) : 0);
    }
    fputs(line, stdout);
    fflush(stdout); /* a run that is killed leaves what it had */
}

/* The last line; the exit code: 1 if a result was wrong. */
static int end(const char *name, int results, int wrong)
{
    printf("%s end %d crc32 %08x\n", name, results, (unsigned)~kernel_crc);
    return wrong ? 1 : 0;
}
#endif
