/* Allocations of every size, alignment and function of the malloc family, in threads and over forks; each is
 * filled with a value of its own, and looked at before it goes. Exits with 0 when all of them held. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, HELD = 500, ROUNDS = 20000, FORKS = 10 };

#define HOLDS(truth)                                                \
    do {                                                            \
        if (!(truth)) {                                             \
            fprintf(stderr, "line %d: not %s\n", __LINE__, #truth); \
            _exit(1);                                               \
        }                                                           \
    } while (0)

static uint64_t draw(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void look(const unsigned char *memory, size_t bytes, unsigned char value) {
    for (size_t at = 0; at < bytes; at += bytes / 7 + 1) HOLDS(memory[at] == value);
    HOLDS(bytes == 0 || memory[bytes - 1] == value);
}

static void *allocate(uint64_t *state, size_t bytes) {
    void *memory = NULL;
    size_t alignment = 16;
    switch (draw(state) % 4) {
    case 0:
        memory = calloc(1, bytes);
        for (size_t at = 0; at < bytes; at++) HOLDS(((char *)memory)[at] == 0);
        break;
    case 1:
        alignment = (size_t)16 << draw(state) % 18;
        HOLDS(posix_memalign(&memory, alignment, bytes) == 0);
        break;
    case 2:
        alignment = 4096;
        memory = valloc(bytes);
        break;
    default:
        memory = malloc(bytes);
    }
    HOLDS(memory != NULL && (uintptr_t)memory % alignment == 0);
    HOLDS(malloc_usable_size(memory) >= bytes);
    return memory;
}

static void *work(void *seed) {
    uint64_t state = (uintptr_t)seed * 2654435761u;
    unsigned char *memory[HELD] = {0}, value[HELD] = {0};
    size_t bytes[HELD] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        int at = draw(&state) % HELD;
        size_t wanted = draw(&state) % (((size_t)1 << draw(&state) % 20) + 1) + 1;
        if (memory[at]) {
            look(memory[at], bytes[at], value[at]);
            if (draw(&state) % 2) {
                free(memory[at]);
                memory[at] = NULL;
                continue;
            }
            memory[at] = realloc(memory[at], wanted);
            HOLDS(memory[at] != NULL);
            look(memory[at], wanted < bytes[at] ? wanted : 0, value[at]);
        } else {
            memory[at] = allocate(&state, wanted);
        }
        bytes[at] = wanted;
        value[at] = draw(&state);
        memset(memory[at], value[at], wanted);
    }
    for (int at = 0; at < HELD; at++) free(memory[at]);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (uintptr_t at = 0; at < THREADS; at++) HOLDS(pthread_create(&threads[at], NULL, work, (void *)(at + 1)) == 0);
    for (int at = 0; at < FORKS; at++) {
        pid_t child = fork();
        if (child == 0) {
            void *memory = malloc(100000);
            memset(memory, 1, 100000);
            free(memory);
            _exit(0);
        }
        int status;
        HOLDS(waitpid(child, &status, 0) == child && status == 0);
    }
    for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
    /* Too large, and by a size that the compiler does not know. */
    volatile size_t most = SIZE_MAX / 2;
    errno = 0;
    HOLDS(malloc(most) == NULL && errno == ENOMEM);
    HOLDS(calloc(most, 3) == NULL && reallocarray(NULL, most, 3) == NULL);
    void *memory;
    HOLDS(posix_memalign(&memory, 3, 10) == EINVAL);
    HOLDS(posix_memalign(&memory, (size_t)8 << 20, 100) == 0 && (uintptr_t)memory % ((size_t)8 << 20) == 0);
    free(memory);
    free(malloc(0));
    free(NULL);
    return 0;
}
