/* Input by format, and what else the C library does with streams: done by it, unseen. What scanf
 * writes to the program's variables is taken over after the call. */
#include "support.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static int scan_stream(FILE *stream, const char *form, va_list arguments)
{
    if (stream == stdin)
        support_check_input(STDIN_FILENO);
    return HOST(REAL(vfscanf)(stream, form, arguments));
}

static int scan_text(const char *text, const char *form, va_list arguments)
{
    return HOST(REAL(vsscanf)(text, form, arguments));
}

/* The headers give the scanf functions other names for C99 and later, and C23. */
#define SCANF(name)                                                                                \
    int support_##name##vfscanf(FILE *stream, const char *form, va_list arguments) __asm__(        \
        #name "vfscanf");                                                                          \
    int support_##name##vfscanf(FILE *stream, const char *form, va_list arguments)                 \
    {                                                                                              \
        return scan_stream(stream, form, arguments);                                               \
    }                                                                                              \
    int support_##name##vsscanf(const char *text, const char *form, va_list arguments) __asm__(    \
        #name "vsscanf");                                                                          \
    int support_##name##vsscanf(const char *text, const char *form, va_list arguments)             \
    {                                                                                              \
        return scan_text(text, form, arguments);                                                   \
    }                                                                                              \
    int support_##name##fscanf(FILE *stream, const char *form, ...) __asm__(#name "fscanf");       \
    int support_##name##fscanf(FILE *stream, const char *form, ...)                                \
    {                                                                                              \
        va_list arguments;                                                                         \
        va_start(arguments, form);                                                                 \
        int result = scan_stream(stream, form, arguments);                                         \
        va_end(arguments);                                                                         \
        return result;                                                                             \
    }                                                                                              \
    int support_##name##scanf(const char *form, ...) __asm__(#name "scanf");                       \
    int support_##name##scanf(const char *form, ...)                                               \
    {                                                                                              \
        va_list arguments;                                                                         \
        va_start(arguments, form);                                                                 \
        int result = scan_stream(stdin, form, arguments);                                          \
        va_end(arguments);                                                                         \
        return result;                                                                             \
    }                                                                                              \
    int support_##name##sscanf(const char *text, const char *form, ...) __asm__(#name "sscanf");   \
    int support_##name##sscanf(const char *text, const char *form, ...)                            \
    {                                                                                              \
        va_list arguments;                                                                         \
        va_start(arguments, form);                                                                 \
        int result = scan_text(text, form, arguments);                                             \
        va_end(arguments);                                                                         \
        return result;                                                                             \
    }

SCANF()
SCANF(__isoc99_)
SCANF(__isoc23_)

/* ---- streams ---- */

FILE *fopen(const char *restrict name, const char *restrict mode)
{
    return HOST(REAL(fopen)(name, mode));
}
FILE *fopen64(const char *restrict, const char *restrict) ALIAS(fopen);

FILE *fdopen(int file, const char *mode)
{
    return HOST(REAL(fdopen)(file, mode));
}

FILE *freopen(const char *restrict name, const char *restrict mode, FILE *restrict stream)
{
    return HOST(REAL(freopen)(name, mode, stream));
}

int fclose(FILE *stream)
{
    return HOST(REAL(fclose)(stream));
}

int fflush(FILE *stream)
{
    return HOST(REAL(fflush)(stream));
}

int ungetc(int c, FILE *stream)
{
    return HOST(REAL(ungetc)(c, stream));
}

int fseek(FILE *stream, long offset, int from)
{
    return HOST(REAL(fseek)(stream, offset, from));
}

long ftell(FILE *stream)
{
    return HOST(REAL(ftell)(stream));
}

void rewind(FILE *stream)
{
    support_host_begin();
    REAL(rewind)(stream);
    support_host_end();
}

void perror(const char *text)
{
    support_host_begin();
    REAL(perror)(text);
    support_host_end();
}
