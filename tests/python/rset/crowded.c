/* A program that has as many mappings as the kernel lets it, and then allocates, frees, forks and begins a thread. Prints how
 * many mappings it made and how many allocations it got. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ALLOCATIONS = 400 };

static void *nothing(void *given) {
    return given;
}

int main(void) {
    static char *got[ALLOCATIONS];
    long mappings = 0;
    /* Neighbours that differ are never joined. */
    while (mmap(NULL, 4096, mappings % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        mappings++;
    int many = 0;
    for (int turn = 0; turn < 3; turn++) {
        for (int at = 0; at < ALLOCATIONS; at++) {
            size_t bytes = at % 2 ? 100000 + 40000 * (at % 50) : 200 + 100 * at;
            got[at] = malloc(bytes);
            if (got[at] == NULL) continue;
            many++;
            for (size_t byte = 0; byte < bytes && at % 2; byte += 4096)
                if (got[at][byte] != 0) return 3;
            memset(got[at], at + 1, bytes);
        }
        for (int at = 0; at < ALLOCATIONS; at++) {
            if (got[at] != NULL && got[at][150] != (char)(at + 1)) return 4;
            free(got[at]);
        }
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL) == 0) pthread_join(thread, NULL);
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        free(malloc(1 << 20));
        _exit(0);
    }
    if (child > 0) waitpid(child, &status, 0);
    printf("%ld %d\n", mappings, many);
    return status == 0 ? 0 : 5;
}
