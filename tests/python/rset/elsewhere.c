/* Allocates in a thread on one processor, small and large, and writes in a thread on another: so that the node of
 * the thread that allocates and that of the thread that touches are told apart. Holds it all until its end.
 * Usage: elsewhere ALLOCATING-PROCESSOR TOUCHING-PROCESSOR */
#define _GNU_SOURCE
#include "on_processor.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 1000, PIECES = 4000, LARGE = 4 << 20 };

static char *pieces[PIECES], *large;

static void *allocate(void *none) {
    for (int at = 0; at < PIECES; at++) pieces[at] = malloc(SMALL);
    large = malloc(LARGE);
    return none;
}

static void *touch(void *none) {
    for (int at = 0; at < PIECES; at++) memset(pieces[at], 1, SMALL);
    memset(large, 1, LARGE);
    return none;
}

int main(int count, char **words) {
    if (count != 3) return 2;
    on(words[1], allocate);
    on(words[2], touch);
    return 0;
}
