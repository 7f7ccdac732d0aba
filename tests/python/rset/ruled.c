/* Memory that rules can name: small pieces from one site, large ones from another, a mapping with a name; all of it
 * written, by a thread of its own, and given back before the end. Some pages of the mapping exist before it has its name:
 * two of each half, or with the word "huge" one huge page that is all of it. Prints the processors of its first two
 * threads. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

enum { PIECES = 3000, SMALL = 1000, LARGE = 1 << 20, NAMED = 2 << 20 };

static char *pieces[PIECES], *large[2], *named;
static int huge;
/* A number that the compiler does not know: the loop stays one, with one place that allocates. */
static volatile int blocks = 2;

static void say_processors(const char *who) {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    printf("%s", who);
    for (int at = 0; at < CPU_SETSIZE; at++)
        if (CPU_ISSET(at, &set)) printf(" %d", at);
    printf("\n");
}

/* A mapping that is a huge page's place, or that has a page in two of those: never which of both by chance. What lies
 * around it cannot be touched, so that the kernel does not join it with a neighbour. */
static char *mapped(void) {
    char *place = mmap(NULL, 3 * NAMED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    place += NAMED - (uintptr_t)place % NAMED + (huge ? 0 : 4096);
    mprotect(place, NAMED, PROT_READ | PROT_WRITE);
    return place;
}

/* One of four pages that exist before the mapping has its name. */
static char *early(int at) { return named + (huge ? 0 : at) * (NAMED / 4) + at * 4096; }

/* Touches them; whether the whole of the mapping is there then. */
static int existing(void) {
    unsigned char there;
    for (int at = 0; at < 4; at++) *early(at) = 'a' + at;
    return mincore(named + NAMED - 4096, 4096, &there) == 0 && there & 1;
}

static void *work(void *none) {
    say_processors("second:");
    for (int at = 0; at < PIECES; at++) pieces[at] = malloc(SMALL);
    for (int at = 0; at < blocks; at++) large[at] = calloc(1, LARGE);
    named = mapped();
    if (existing() != huge) exit(3);
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, named, NAMED, "test.grid");
    for (int at = 0; at < 4; at++)
        if (*early(at) != 'a' + at) exit(4);
    for (int at = 0; at < PIECES; at++) memset(pieces[at], 1, SMALL);
    for (int at = 0; at < 2; at++) memset(large[at], 1, LARGE);
    memset(named, 1, NAMED);
    return none;
}

int main(int count, char **words) {
    pthread_t thread;
    huge = count > 1 && strcmp(words[1], "huge") == 0;
    say_processors("first:");
    fflush(stdout);
    if (pthread_create(&thread, NULL, work, NULL) != 0) return 1;
    pthread_join(thread, NULL);
    /* The kernel takes whole pages back, whatever the number of bytes. */
    munmap(named, NAMED - 100);
    for (int at = 0; at < 2; at++) free(large[at]);
    return 0;
}
