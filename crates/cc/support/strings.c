/* The str functions, because programs keep strings in persistent memory. Strings are read by
 * aligned words, which may reach past their end but never into another page. */
#include "support.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

typedef uint64_t word8 __attribute__((may_alias));

#define EACH_BYTE 0x0101010101010101ul

/* Not 0 if a byte of the word is 0; its lowest bit is then in the first such byte. */
static inline uint64_t zeros(uint64_t word)
{
    return (word - EACH_BYTE) & ~word & 0x8080808080808080ul;
}

/* The byte of a word in which the lowest bit of this is. */
static inline size_t byte_of(uint64_t bits)
{
    return (size_t)__builtin_ctzl(bits) >> 3;
}

static inline bool is_aligned(const void *at)
{
    return ((uintptr_t)at & 7) == 0;
}

size_t strlen(const char *s)
{
    const char *at = s;
    for (; !is_aligned(at); at++) {
        if (*at == 0)
            return (size_t)(at - s);
    }
    for (;; at += 8) {
        uint64_t found = zeros(*(const word8 *)at);
        if (found != 0)
            return (size_t)(at - s) + byte_of(found);
    }
}

size_t strnlen(const char *s, size_t n)
{
    const char *end = memchr(s, 0, n);
    return end == NULL ? n : (size_t)(end - s);
}

char *strcpy(char *restrict to, const char *restrict from)
{
    return memcpy(to, from, strlen(from) + 1);
}

char *stpcpy(char *restrict to, const char *restrict from)
{
    size_t length = strlen(from);
    memcpy(to, from, length + 1);
    return to + length;
}
char *__stpcpy(char *restrict, const char *restrict) ALIAS(stpcpy);

char *stpncpy(char *restrict to, const char *restrict from, size_t n)
{
    size_t length = strnlen(from, n);
    memcpy(to, from, length);
    memset(to + length, 0, n - length);
    return to + length;
}

char *strncpy(char *restrict to, const char *restrict from, size_t n)
{
    stpncpy(to, from, n);
    return to;
}

char *strcat(char *restrict to, const char *restrict from)
{
    strcpy(to + strlen(to), from);
    return to;
}

char *strncat(char *restrict to, const char *restrict from, size_t n)
{
    size_t length = strnlen(from, n);
    char *end = to + strlen(to);
    memcpy(end, from, length);
    end[length] = 0;
    return to;
}

int strncmp(const char *a, const char *b, size_t n)
{
    if ((((uintptr_t)a ^ (uintptr_t)b) & 7) == 0) {
        for (; n > 0 && !is_aligned(a); a++, b++, n--) {
            if (*a != *b || *a == 0)
                return (unsigned char)*a - (unsigned char)*b;
        }
        for (; n >= 8; a += 8, b += 8, n -= 8) {
            uint64_t left = *(const word8 *)a;
            if (left != *(const word8 *)b || zeros(left) != 0)
                break;
        }
    }
    for (; n > 0; a++, b++, n--) {
        if (*a != *b || *a == 0)
            return (unsigned char)*a - (unsigned char)*b;
    }
    return 0;
}

int strcmp(const char *a, const char *b)
{
    return strncmp(a, b, SIZE_MAX);
}

int strncasecmp(const char *a, const char *b, size_t n)
{
    for (; n > 0; a++, b++, n--) {
        int left = tolower((unsigned char)*a);
        int right = tolower((unsigned char)*b);
        if (left != right || left == 0)
            return left - right;
    }
    return 0;
}

int strcasecmp(const char *a, const char *b)
{
    return strncasecmp(a, b, SIZE_MAX);
}

char *strchrnul(const char *s, int c)
{
    char wanted = (char)c;
    uint64_t pattern = (unsigned char)wanted * EACH_BYTE;
    for (; !is_aligned(s); s++) {
        if (*s == wanted || *s == 0)
            return (char *)s;
    }
    for (;; s += 8) {
        uint64_t word = *(const word8 *)s;
        uint64_t found = zeros(word);
        uint64_t same = zeros(word ^ pattern);
        /* Above its lowest bit either may be wrong, so the lower of the lowest ones counts. */
        if ((found | same) != 0)
            return (char *)s + byte_of(found | same);
    }
}

char *strchr(const char *s, int c)
{
    char *found = strchrnul(s, c);
    return *found == (char)c ? found : NULL;
}
char *index(const char *, int) ALIAS(strchr);

char *strrchr(const char *s, int c)
{
    return memrchr(s, c, strlen(s) + 1);
}
char *rindex(const char *, int) ALIAS(strrchr);

char *strstr(const char *text, const char *wanted)
{
    size_t length = strlen(wanted);
    if (length == 0)
        return (char *)text;
    for (;; text++) {
        text = strchr(text, *wanted);
        if (text == NULL || strncmp(text, wanted, length) == 0)
            return (char *)text;
    }
}

char *strndup(const char *s, size_t n)
{
    size_t length = strnlen(s, n);
    char *copy = malloc(length + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, s, length);
    copy[length] = 0;
    return copy;
}
char *__strndup(const char *, size_t) ALIAS(strndup);

char *strdup(const char *s)
{
    size_t bytes = strlen(s) + 1;
    char *copy = malloc(bytes);
    return copy == NULL ? NULL : memcpy(copy, s, bytes);
}
char *__strdup(const char *) ALIAS(strdup);

/* How many characters from the start are in the set, or are not; the end always stops it. */
static size_t span(const char *s, const char *set, bool in_set)
{
    size_t length = 0;
    while (s[length] != 0 && (strchr(set, s[length]) != NULL) == in_set)
        length++;
    return length;
}

size_t strspn(const char *s, const char *set)
{
    return span(s, set, true);
}

size_t strcspn(const char *s, const char *set)
{
    return span(s, set, false);
}

char *strpbrk(const char *s, const char *set)
{
    s += strcspn(s, set);
    return *s == 0 ? NULL : (char *)s;
}

char *strsep(char **rest, const char *set)
{
    char *token = *rest;
    if (token == NULL)
        return NULL;
    char *end = strpbrk(token, set);
    if (end != NULL)
        *end++ = 0;
    *rest = end;
    return token;
}

char *strtok_r(char *restrict s, const char *restrict set, char **restrict rest)
{
    if (s == NULL)
        s = *rest;
    s += strspn(s, set);
    char *end = s + strcspn(s, set);
    *rest = *end == 0 ? end : end + 1;
    if (end == s)
        return NULL;
    *end = 0;
    return s;
}
char *__strtok_r(char *restrict, const char *restrict, char **restrict) ALIAS(strtok_r);

char *strtok(char *restrict s, const char *restrict set)
{
    static char nothing[1];
    static char *rest = nothing;
    return strtok_r(s, set, &rest);
}

char *__strcpy_chk(char *restrict to, const char *restrict from, size_t room)
{
    if (strlen(from) >= room)
        support_overflow();
    return strcpy(to, from);
}

char *__stpcpy_chk(char *restrict to, const char *restrict from, size_t room)
{
    if (strlen(from) >= room)
        support_overflow();
    return stpcpy(to, from);
}

char *__strncpy_chk(char *restrict to, const char *restrict from, size_t n, size_t room)
{
    if (n > room)
        support_overflow();
    return strncpy(to, from, n);
}

char *__stpncpy_chk(char *restrict to, const char *restrict from, size_t n, size_t room)
{
    if (n > room)
        support_overflow();
    return stpncpy(to, from, n);
}

char *__strcat_chk(char *restrict to, const char *restrict from, size_t room)
{
    if (strlen(to) + strlen(from) >= room)
        support_overflow();
    return strcat(to, from);
}

char *__strncat_chk(char *restrict to, const char *restrict from, size_t n, size_t room)
{
    if (strlen(to) + strnlen(from, n) >= room)
        support_overflow();
    return strncat(to, from, n);
}
