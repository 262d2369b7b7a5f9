/* Streams. The C library does them, unseen; what it reads into the program's buffers, and text that
 * is made in memory, goes through a buffer of its own and is then copied in the sight of the
 * machine.
 *
 * Two things stay unseen, and are taken over after the call: strings that a format reads by %s, and
 * the variables that the scanf functions write. */
#include "support.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER 4096ul

static void check_input(FILE *stream)
{
    if (stream == stdin)
        support_check_input(STDIN_FILENO);
}

/* The value of a call with the arguments after `last`. */
#define VARIADIC(type, last, call)                                                                 \
    va_list arguments;                                                                             \
    va_start(arguments, last);                                                                     \
    type result = (call);                                                                          \
    va_end(arguments);                                                                             \
    return result

/* ---- text made in memory ---- */

static int format(char *to, size_t room, const char *form, va_list arguments)
{
    char small[512];
    char *text = small;
    va_list again;
    va_copy(again, arguments);
    int length = HOST(REAL(vsnprintf)(small, sizeof small, form, arguments));
    if (length >= (int)sizeof small && room > sizeof small) {
        text = malloc((size_t)length + 1);
        if (text == NULL)
            length = -1;
        else
            length = HOST(REAL(vsnprintf)(text, (size_t)length + 1, form, again));
    }
    va_end(again);
    sw_work(FORMAT_WORK(length < 0 ? 0 : length));
    if (length >= 0 && room > 0) {
        size_t copied = (size_t)length < room ? (size_t)length : room - 1;
        memcpy(to, text, copied);
        to[copied] = 0;
    }
    if (text != small)
        free(text);
    return length;
}

int vsnprintf(char *restrict to, size_t room, const char *restrict form, va_list arguments)
{
    return format(to, room, form, arguments);
}

int vsprintf(char *restrict to, const char *restrict form, va_list arguments)
{
    return format(to, SIZE_MAX, form, arguments);
}

int snprintf(char *restrict to, size_t room, const char *restrict form, ...)
{
    VARIADIC(int, form, format(to, room, form, arguments));
}

int sprintf(char *restrict to, const char *restrict form, ...)
{
    VARIADIC(int, form, format(to, SIZE_MAX, form, arguments));
}

int __vsnprintf_chk(char *restrict to, size_t room, int flag, size_t has, const char *restrict form,
                    va_list arguments)
{
    (void)flag;
    if (room > has)
        support_overflow();
    return format(to, room, form, arguments);
}

int __vsprintf_chk(char *restrict to, int flag, size_t has, const char *restrict form,
                   va_list arguments)
{
    (void)flag;
    int length = format(to, has, form, arguments);
    if (length >= 0 && (size_t)length >= has)
        support_overflow();
    return length;
}

int __snprintf_chk(char *restrict to, size_t room, int flag, size_t has, const char *restrict form,
                   ...)
{
    VARIADIC(int, form, __vsnprintf_chk(to, room, flag, has, form, arguments));
}

int __sprintf_chk(char *restrict to, int flag, size_t has, const char *restrict form, ...)
{
    VARIADIC(int, form, __vsprintf_chk(to, flag, has, form, arguments));
}

int vasprintf(char **restrict to, const char *restrict form, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = format(NULL, 0, form, arguments);
    *to = length < 0 ? NULL : malloc((size_t)length + 1);
    if (*to == NULL)
        length = -1;
    else
        length = format(*to, (size_t)length + 1, form, again);
    va_end(again);
    return length;
}

int asprintf(char **restrict to, const char *restrict form, ...)
{
    VARIADIC(int, form, vasprintf(to, form, arguments));
}

int __vasprintf_chk(char **restrict to, int flag, const char *restrict form, va_list arguments)
{
    (void)flag;
    return vasprintf(to, form, arguments);
}

int __asprintf_chk(char **restrict to, int flag, const char *restrict form, ...)
{
    (void)flag;
    VARIADIC(int, form, vasprintf(to, form, arguments));
}

/* ---- text that goes to a stream ---- */

int vfprintf(FILE *restrict stream, const char *restrict form, va_list arguments)
{
    int length = HOST(REAL(vfprintf)(stream, form, arguments));
    sw_work(FORMAT_WORK(length < 0 ? 0 : length));
    return length;
}

int vprintf(const char *restrict form, va_list arguments)
{
    return vfprintf(stdout, form, arguments);
}

int printf(const char *restrict form, ...)
{
    VARIADIC(int, form, vfprintf(stdout, form, arguments));
}

int fprintf(FILE *restrict stream, const char *restrict form, ...)
{
    VARIADIC(int, form, vfprintf(stream, form, arguments));
}

int __vfprintf_chk(FILE *restrict stream, int flag, const char *restrict form, va_list arguments)
{
    (void)flag;
    return vfprintf(stream, form, arguments);
}

int __vprintf_chk(int flag, const char *restrict form, va_list arguments)
{
    (void)flag;
    return vfprintf(stdout, form, arguments);
}

int __printf_chk(int flag, const char *restrict form, ...)
{
    (void)flag;
    VARIADIC(int, form, vfprintf(stdout, form, arguments));
}

int __fprintf_chk(FILE *restrict stream, int flag, const char *restrict form, ...)
{
    (void)flag;
    VARIADIC(int, form, vfprintf(stream, form, arguments));
}

int dprintf(int file, const char *restrict form, ...)
{
    VARIADIC(int, form, HOST(vdprintf(file, form, arguments)));
}

/* ---- bytes ---- */

size_t fread(void *restrict to, size_t size, size_t count, FILE *restrict stream)
{
    check_input(stream);
    char buffer[BUFFER] __attribute__((aligned(16)));
    size_t bytes = size * count;
    size_t done = 0;
    while (done < bytes) {
        size_t piece = bytes - done < BUFFER ? bytes - done : BUFFER;
        sw_work(STREAM_WORK(piece));
        size_t got = HOST(REAL(fread)(buffer, 1, piece, stream));
        memcpy((char *)to + done, buffer, got);
        done += got;
        if (got < piece)
            break;
    }
    return size == 0 ? 0 : done / size;
}
size_t fread_unlocked(void *restrict, size_t, size_t, FILE *restrict) ALIAS(fread);

size_t __fread_chk(void *restrict to, size_t room, size_t size, size_t count, FILE *restrict stream)
{
    size_t bytes;
    if (__builtin_mul_overflow(size, count, &bytes) || bytes > room)
        support_overflow();
    return fread(to, size, count, stream);
}

size_t fwrite(const void *restrict from, size_t size, size_t count, FILE *restrict stream)
{
    char buffer[BUFFER] __attribute__((aligned(16)));
    size_t bytes = size * count;
    size_t done = 0;
    while (done < bytes) {
        size_t piece = bytes - done < BUFFER ? bytes - done : BUFFER;
        memcpy(buffer, (const char *)from + done, piece);
        sw_work(STREAM_WORK(piece));
        size_t put = HOST(REAL(fwrite)(buffer, 1, piece, stream));
        done += put;
        if (put < piece)
            break;
    }
    return size == 0 ? 0 : done / size;
}
size_t fwrite_unlocked(const void *restrict, size_t, size_t, FILE *restrict) ALIAS(fwrite);

int fputs(const char *restrict text, FILE *restrict stream)
{
    size_t length = strlen(text);
    return fwrite(text, 1, length, stream) == length ? 1 : EOF;
}
int fputs_unlocked(const char *restrict, FILE *restrict) ALIAS(fputs);

int fputc(int c, FILE *stream)
{
    sw_work(STREAM_WORK(1));
    return HOST(REAL(fputc)(c, stream));
}
int putc(int, FILE *) ALIAS(fputc);
int _IO_putc(int, FILE *) ALIAS(fputc);
int fputc_unlocked(int, FILE *) ALIAS(fputc);
int putc_unlocked(int, FILE *) ALIAS(fputc);

int putchar(int c)
{
    return fputc(c, stdout);
}
int putchar_unlocked(int) ALIAS(putchar);

int puts(const char *text)
{
    return fputs(text, stdout) < 0 ? EOF : fputc('\n', stdout);
}

int fgetc(FILE *stream)
{
    check_input(stream);
    sw_work(STREAM_WORK(1));
    return HOST(REAL(fgetc)(stream));
}
int getc(FILE *) ALIAS(fgetc);
int _IO_getc(FILE *) ALIAS(fgetc);
int fgetc_unlocked(FILE *) ALIAS(fgetc);
int getc_unlocked(FILE *) ALIAS(fgetc);

int getchar(void)
{
    return fgetc(stdin);
}
int getchar_unlocked(void) ALIAS(getchar);

/* ---- lines ---- */

char *fgets(char *restrict to, int room, FILE *restrict stream)
{
    check_input(stream);
    char buffer[BUFFER];
    size_t left = room > 0 ? (size_t)room : 0;
    size_t done = 0;
    while (left - done > 1) {
        size_t piece = left - done < BUFFER ? left - done : BUFFER;
        if (HOST(REAL(fgets)(buffer, (int)piece, stream)) == NULL)
            return done > 0 ? to : NULL;
        size_t length = strlen(buffer);
        sw_work(STREAM_WORK(length));
        memcpy(to + done, buffer, length + 1);
        done += length;
        if (length > 0 && buffer[length - 1] == '\n')
            break;
    }
    return to;
}

char *__fgets_chk(char *restrict to, size_t has, int room, FILE *restrict stream)
{
    if (room > 0 && (size_t)room > has)
        support_overflow();
    return fgets(to, room, stream);
}

ssize_t getdelim(char **restrict line, size_t *restrict room, int end, FILE *restrict stream)
{
    check_input(stream);
    char *theirs = NULL;
    size_t their_room = 0;
    ssize_t length = HOST(REAL(getdelim)(&theirs, &their_room, end, stream));
    sw_work(STREAM_WORK(length < 0 ? 0 : length));
    if (length >= 0 && (*line == NULL || *room <= (size_t)length)) {
        size_t wanted = (size_t)length + 1 < 120 ? 120 : (size_t)length + 1;
        char *larger = realloc(*line, wanted);
        if (larger == NULL) {
            length = -1;
        } else {
            *line = larger;
            *room = wanted;
        }
    }
    if (length >= 0)
        memcpy(*line, theirs, (size_t)length + 1);
    free(theirs);
    return length;
}
ssize_t __getdelim(char **restrict, size_t *restrict, int, FILE *restrict) ALIAS(getdelim);

ssize_t getline(char **restrict line, size_t *restrict room, FILE *restrict stream)
{
    return getdelim(line, room, '\n', stream);
}
