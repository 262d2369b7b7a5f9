/* malloc, free and their kin: the program's heap, whose lists and headers are memory of the machine
 * like everything else, so that allocating costs what it costs and its lines move between cores.
 *
 * A block is a header of 16 bytes and what the program sees. Small blocks come in classes of size.
 * Each thread keeps some free ones of each class, and cuts new ones from a span of its own, as
 * allocators with an arena or a cache a thread do; beyond these there is one list a class, under
 * one lock. Big blocks are whole pages, with the size of the block before them in their header, so
 * that free neighbours become one. Nothing depends on anything but the calls made, so that runs
 * repeat.
 *
 * The C library has its own heap. It is used while the C library works (support_in_host), and what
 * comes from it is told from ours by its address. */
#include "support.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define HEADER 16ul
#define PAGE 4096ul
#define GROW_BYTES (1ul << 20)
#define SPAN_BYTES (1ul << 16)

/* Small blocks: of 16, 32 .. 1024 bytes, then of four sizes for each doubling up to 32 KiB. */
#define FINE_CLASSES 64
#define CLASSES (FINE_CLASSES + 20)
#define SMALL_MAX 32768ul

enum kind {
    SMALL = 1,
    SMALL_FREE = 2,
    BIG = 3,
    BIG_FREE = 4,
    /* Stands before aligned memory inside of another block. */
    INNER = 5,
};
#define KIND_MASK 15ul

struct block {
    /* Bytes of the block with its header (of the class, of all pages), and its kind. */
    uint64_t size_and_kind;
    /* Big: the bytes of the block before it, 0 if it is the first. Inner: where the memory of the
     * outer block starts. */
    uint64_t other;
    /* From here on it is the program's; in a free block, the lists. */
    struct block *next;
    struct block *previous;
};

struct list {
    struct block *first;
    uint64_t count;
};

/* What a thread keeps. A number is used by one thread at a time. */
struct own {
    struct list kept[CLASSES];
    /* What is left of its span. */
    char *span_at;
    char *span_end;
} __attribute__((aligned(64)));
static struct own owned[SUPPORT_THREADS];

/* From here on under the lock. */
static volatile uint32_t heap_lock __attribute__((aligned(64)));
static struct list shared[CLASSES];
static struct block *big_free;
static char *heap_start;
static char *heap_end;
static struct block *last_block;
/* From here on memory has never been used and is 0, but for the 32 bytes of a free block. */
static char *untouched;

/* Our blocks that the C library has freed; they wait here until we may take the lock. */
static struct block *freed_by_host;

static uint64_t size_of(const struct block *b)
{
    return b->size_and_kind & ~KIND_MASK;
}

static enum kind kind_of(const struct block *b)
{
    return (enum kind)(b->size_and_kind & KIND_MASK);
}

static void *memory_of(struct block *b)
{
    return (char *)b + HEADER;
}

static struct block *block_of(const void *memory)
{
    return (struct block *)((char *)memory - HEADER);
}

static struct block *after(struct block *b)
{
    char *end = (char *)b + size_of(b);
    return end == heap_end ? NULL : (struct block *)end;
}

static bool is_ours(const void *memory)
{
    return (const char *)memory >= heap_start && (const char *)memory < heap_end;
}

/* ---- classes ---- */

static unsigned class_of(uint64_t bytes)
{
    if (bytes <= 1024)
        return bytes == 0 ? 0 : (unsigned)((bytes - 1) / 16);
    unsigned doubling = 63 - (unsigned)__builtin_clzl(bytes - 1);
    unsigned quarter = (unsigned)((bytes - 1) >> (doubling - 2)) & 3;
    return FINE_CLASSES + (doubling - 10) * 4 + quarter;
}

/* The bytes that the program gets. */
static uint64_t bytes_of_class(unsigned class)
{
    if (class < FINE_CLASSES)
        return 16ul * (class + 1);
    class -= FINE_CLASSES;
    return (1ul << (10 + class / 4)) + ((1ul << (8 + class / 4)) * (class % 4 + 1));
}

/* How many blocks move at once between a thread and what is shared. */
static uint64_t batch_of(unsigned class)
{
    uint64_t batch = 4096 / bytes_of_class(class);
    return batch < 1 ? 1 : batch > 16 ? 16 : batch;
}

static void push(struct list *list, struct block *b)
{
    b->next = list->first;
    list->first = b;
    list->count++;
}

static struct block *pop(struct list *list)
{
    struct block *b = list->first;
    if (b != NULL) {
        list->first = b->next;
        list->count--;
    }
    return b;
}

/* ---- big blocks; all of this under the lock ---- */

static void set_big(struct block *b, uint64_t size, enum kind kind)
{
    b->size_and_kind = size | kind;
    struct block *next = after(b);
    if (next == NULL)
        last_block = b;
    else
        next->other = size;
}

static void link_free(struct block *b)
{
    b->previous = NULL;
    b->next = big_free;
    if (big_free != NULL)
        big_free->previous = b;
    big_free = b;
}

static void unlink_free(struct block *b)
{
    if (b->previous == NULL)
        big_free = b->next;
    else
        b->previous->next = b->next;
    if (b->next != NULL)
        b->next->previous = b->previous;
}

static void free_big(struct block *b)
{
    uint64_t size = size_of(b);
    struct block *next = after(b);
    if (next != NULL && kind_of(next) == BIG_FREE) {
        unlink_free(next);
        size += size_of(next);
    }
    if (b->other != 0) {
        struct block *before = (struct block *)((char *)b - b->other);
        if (kind_of(before) == BIG_FREE) {
            unlink_free(before);
            size += size_of(before);
            b = before;
        }
    }
    set_big(b, size, BIG_FREE);
    link_free(b);
}

/* Makes the last block a free one of at least this size. */
static bool grow(uint64_t size)
{
    bool extends = last_block != NULL && kind_of(last_block) == BIG_FREE;
    uint64_t has = extends ? size_of(last_block) : 0;
    uint64_t more = (size - has + GROW_BYTES - 1) & ~(GROW_BYTES - 1);
    char *at = sw_heap_grow(more);
    if (at == NULL)
        return false;
    if (heap_start == NULL)
        heap_start = heap_end = untouched = at;
    if (at != heap_end)
        support_abort("malloc: the heap has holes");
    heap_end += more;
    if (extends) {
        set_big(last_block, has + more, BIG_FREE);
        return true;
    }
    struct block *b = (struct block *)at;
    b->other = last_block == NULL ? 0 : size_of(last_block);
    set_big(b, more, BIG_FREE);
    link_free(b);
    return true;
}

/* Takes the front of a free block. */
static void take(struct block *b, uint64_t size)
{
    uint64_t rest = size_of(b) - size;
    unlink_free(b);
    if (rest > 0) {
        struct block *remainder = (struct block *)((char *)b + size);
        b->size_and_kind = size | BIG;
        remainder->other = size;
        set_big(remainder, rest, BIG_FREE);
        link_free(remainder);
    } else {
        b->size_and_kind = size | BIG;
    }
}

/* A big block, and how many bytes of it, from its start, may not be 0. */
static struct block *big_block(uint64_t size, uint64_t *used)
{
    struct block *b = big_free;
    while (b != NULL && size_of(b) < size)
        b = b->next;
    if (b == NULL) {
        if (!grow(size))
            return NULL;
        b = last_block;
    }
    take(b, size);
    char *end = (char *)b + size;
    char *dirty_end = untouched + sizeof(struct block);
    if (dirty_end < (char *)b + sizeof(struct block))
        dirty_end = (char *)b + sizeof(struct block);
    *used = (uint64_t)((dirty_end < end ? dirty_end : end) - (char *)b);
    if (untouched < end)
        untouched = end;
    return b;
}

/* ---- small blocks ---- */

static struct own *own(void)
{
    return &owned[sw_thread_self() % SUPPORT_THREADS];
}

/* A new block of the class, from the thread's span. */
static struct block *carve(struct own *mine, unsigned class)
{
    uint64_t size = HEADER + bytes_of_class(class);
    if ((uint64_t)(mine->span_end - mine->span_at) < size) {
        uint64_t used;
        support_lock(&heap_lock);
        struct block *span = big_block(SPAN_BYTES, &used);
        support_unlock(&heap_lock);
        if (span == NULL)
            return NULL;
        mine->span_at = memory_of(span);
        mine->span_end = (char *)span + SPAN_BYTES;
    }
    struct block *b = (struct block *)mine->span_at;
    mine->span_at += size;
    b->size_and_kind = size | SMALL_FREE;
    return b;
}

/* A block of the class where the thread keeps none. */
static struct block *refill(struct own *mine, unsigned class)
{
    struct list *list = &mine->kept[class];
    if (__atomic_load_n(&shared[class].first, __ATOMIC_RELAXED) == NULL)
        return carve(mine, class);
    support_lock(&heap_lock);
    for (uint64_t n = batch_of(class); n > 0 && shared[class].first != NULL; n--)
        push(list, pop(&shared[class]));
    support_unlock(&heap_lock);
    struct block *b = pop(list);
    return b != NULL ? b : carve(mine, class);
}

static void give_back(struct list *list, unsigned class)
{
    support_lock(&heap_lock);
    for (uint64_t n = batch_of(class); n > 0; n--)
        push(&shared[class], pop(list));
    support_unlock(&heap_lock);
}

static void free_block(struct block *b)
{
    if (kind_of(b) == INNER)
        b = block_of((void *)b->other);
    if (kind_of(b) == BIG) {
        support_lock(&heap_lock);
        free_big(b);
        support_unlock(&heap_lock);
        return;
    }
    if (kind_of(b) != SMALL)
        support_abort("free(): invalid pointer");
    unsigned class = class_of(size_of(b) - HEADER);
    struct list *list = &own()->kept[class];
    b->size_and_kind = size_of(b) | SMALL_FREE;
    push(list, b);
    if (list->count > 2 * batch_of(class))
        give_back(list, class);
}

/* While the C library works, the lock may be another thread's. */
static void free_later(struct block *b)
{
    b->next = __atomic_load_n(&freed_by_host, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&freed_by_host, &b->next, b, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
        ;
}

static void free_what_host_freed(void)
{
    struct block *b = __atomic_exchange_n(&freed_by_host, NULL, __ATOMIC_ACQUIRE);
    while (b != NULL) {
        struct block *next = b->next;
        free_block(b);
        b = next;
    }
}

/* Memory, of which `used` bytes may not be 0. */
static void *allocate(size_t bytes, uint64_t *used)
{
    if (__atomic_load_n(&freed_by_host, __ATOMIC_RELAXED) != NULL)
        free_what_host_freed();
    struct block *b;
    if (bytes <= SMALL_MAX) {
        unsigned class = class_of(bytes);
        struct own *mine = own();
        b = pop(&mine->kept[class]);
        if (b == NULL)
            b = refill(mine, class);
        if (b != NULL)
            b->size_and_kind = size_of(b) | SMALL;
        *used = bytes;
    } else if (bytes <= PTRDIFF_MAX - PAGE) {
        support_lock(&heap_lock);
        b = big_block((bytes + HEADER + PAGE - 1) & ~(PAGE - 1), used);
        support_unlock(&heap_lock);
        *used = *used - HEADER < bytes ? *used - HEADER : bytes;
    } else {
        b = NULL;
    }
    if (b == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    return memory_of(b);
}

/* ---- what programs call ---- */

void *malloc(size_t bytes)
{
    if (support_in_host())
        return REAL(malloc)(bytes);
    uint64_t used;
    return allocate(bytes, &used);
}

void free(void *memory)
{
    if (memory == NULL)
        return;
    if (!is_ours(memory)) {
        support_host_begin();
        REAL(free)(memory);
        support_host_end();
    } else if (support_in_host()) {
        free_later(block_of(memory));
    } else {
        free_block(block_of(memory));
    }
}
void cfree(void *) ALIAS(free);

void *calloc(size_t count, size_t size)
{
    if (support_in_host())
        return REAL(calloc)(count, size);
    size_t bytes;
    uint64_t used;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *memory = allocate(bytes, &used);
    if (memory != NULL)
        memset(memory, 0, used);
    return memory;
}

size_t malloc_usable_size(void *memory)
{
    if (memory == NULL)
        return 0;
    if (!is_ours(memory))
        return HOST(REAL(malloc_usable_size)(memory));
    struct block *b = block_of(memory);
    if (kind_of(b) == INNER)
        b = block_of((void *)b->other);
    return (size_t)((char *)b + size_of(b) - (char *)memory);
}

void *realloc(void *memory, size_t bytes)
{
    if (memory == NULL)
        return malloc(bytes);
    if (support_in_host() && !is_ours(memory))
        return REAL(realloc)(memory, bytes);
    if (bytes == 0) {
        free(memory);
        return NULL;
    }
    size_t has = malloc_usable_size(memory);
    if (is_ours(memory) && bytes <= has && (bytes >= has / 2 || has <= 64))
        return memory;
    void *moved = malloc(bytes);
    if (moved == NULL)
        return NULL;
    memcpy(moved, memory, has < bytes ? has : bytes);
    free(memory);
    return moved;
}

void *reallocarray(void *memory, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(memory, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    if (support_in_host())
        return REAL(memalign)(alignment, bytes);
    if (alignment <= HEADER)
        return malloc(bytes);
    size_t outer_bytes;
    if (__builtin_add_overflow(bytes, alignment, &outer_bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    char *outer = malloc(outer_bytes);
    if (outer == NULL)
        return NULL;
    char *inner = (char *)(((uintptr_t)outer + alignment - 1) & -alignment);
    if (inner != outer) {
        struct block *b = block_of(inner);
        b->size_and_kind = INNER;
        b->other = (uint64_t)outer;
    }
    return inner;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
        errno = EINVAL;
        return NULL;
    }
    return memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0)
        return EINVAL;
    int errno_before = errno;
    void *allocated = memalign(alignment, bytes);
    errno = errno_before;
    if (allocated == NULL)
        return ENOMEM;
    *memory = allocated;
    return 0;
}

void *valloc(size_t bytes)
{
    return memalign(PAGE, bytes);
}

void *pvalloc(size_t bytes)
{
    return memalign(PAGE, (bytes + PAGE - 1) & ~(PAGE - 1));
}
