/* Threads with pages of their own: of every hundred references OWN (95 without it) go to the thread's part of a named
 * mapping and of a large allocation, the others anywhere in them. Prints each thread's number; then what the references
 * took of processors' time and of time, in microseconds. Usage: owners PAGES MILLIONS-OF-REFERENCES [OWN] */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

enum { THREADS = 4, PAGE = 4096 };

static size_t pages;
static uint64_t references, of_hundred = 95;
static volatile char *parts[2];
static long numbers[THREADS];
static pthread_barrier_t all;

static void *work(void *which) {
    uint64_t own = (uintptr_t)which, state = own * 2654435761u + 1;
    size_t share = pages / THREADS;
    numbers[own] = syscall(SYS_gettid);
    pthread_barrier_wait(&all);
    for (uint64_t at = 0; at < references; at++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        uint64_t draw = state * 0x9e3779b97f4a7c15u >> 16;
        size_t page = draw % 100 < of_hundred ? own * share + draw / 100 % share : draw / 100 % pages;
        parts[draw >> 47 & 1][page * PAGE + (draw >> 36) % PAGE] += 1;
    }
    return NULL;
}

static long microseconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000L + time.tv_nsec / 1000;
}

int main(int count, char **words) {
    if (count < 3 || count > 4) return 2;
    pages = strtoul(words[1], NULL, 10);
    references = strtoull(words[2], NULL, 10) * 1000000;
    if (count == 4) of_hundred = strtoull(words[3], NULL, 10);
    parts[0] = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, parts[0], pages * PAGE, "owners.grid");
    parts[1] = malloc(pages * PAGE);
    for (int at = 0; at < 2; at++) memset((char *)parts[at], 1, pages * PAGE);
    pthread_t threads[THREADS];
    pthread_barrier_init(&all, NULL, THREADS + 1);
    for (uintptr_t at = 0; at < THREADS; at++)
        if (pthread_create(&threads[at], NULL, work, (void *)at) != 0) return 1;
    long used = microseconds(CLOCK_PROCESS_CPUTIME_ID), begin = microseconds(CLOCK_MONOTONIC);
    pthread_barrier_wait(&all);
    for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
    used = microseconds(CLOCK_PROCESS_CPUTIME_ID) - used, begin = microseconds(CLOCK_MONOTONIC) - begin;
    for (int at = 0; at < THREADS; at++) printf("%ld ", numbers[at]);
    printf("%ld %ld\n", used, begin);
    return 0;
}
