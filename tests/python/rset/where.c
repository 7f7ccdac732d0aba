/* Allocates four mebibytes on one processor, writes them on another, and prints the node of every page.
 * Usage: where ALLOCATING-PROCESSOR TOUCHING-PROCESSOR */
#define _GNU_SOURCE
#include "on_processor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 1024 };

static char *memory;

static void *allocate(void *none) {
    memory = malloc((PAGES + 1) * PAGE);
    return none;
}

static void *touch(void *none) {
    memset(memory, 1, (PAGES + 1) * PAGE);
    return none;
}

int main(int count, char **words) {
    static void *pages[PAGES];
    static int nodes[PAGES];
    if (count != 3) return 2;
    on(words[1], allocate);
    on(words[2], touch);
    char *first = (char *)(((size_t)memory + PAGE - 1) / PAGE * PAGE);
    for (int at = 0; at < PAGES; at++) pages[at] = first + (size_t)at * PAGE;
    if (syscall(SYS_move_pages, 0, PAGES, pages, NULL, nodes, 0) != 0) return 1;
    for (int at = 0; at < PAGES; at++) putchar(nodes[at] < 0 ? '-' : '0' + nodes[at]);
    return 0;
}
