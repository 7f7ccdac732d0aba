/* What a call takes: a mebibyte allocated by a policy, written and given back, by this project's library for C, by
 * libnuma and by hwloc, in turn. Prints a line of microseconds for each: the least of five rounds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <servsim_rset.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 1 << 20, CALLS = 40, ROUNDS = 5 };
/* hwloc/2: HWLOC_MEMBIND_BIND, _INTERLEAVE, _BYNODESET. */
enum { BIND = 2, INTERLEAVE = 3, BY_NODE_SET = 1 << 5 };

static servsim_set *all;
static void *(*on_node)(size_t, int), *(*interleaved)(size_t);
static void (*give_back)(void *, size_t);
static void *topology, *third, *nodes;
static void *(*allocate)(void *, size_t, const void *, int, int);
static int (*give_back_to)(void *, void *, size_t);

static void ours(const char *policy) {
    servsim_block *block = servsim_allocate(all, policy, BYTES);
    if (block == NULL) {
        fprintf(stderr, "%s\n", servsim_rset_error());
        exit(1);
    }
    memset(servsim_block_memory(block), 1, BYTES);
    servsim_block_free(block);
}

static void ours_on_node(void) { ours("node(3)"); }
static void ours_striped(void) { ours("striped(1)"); }
static void ours_striped_by_four(void) { ours("striped(4)"); }

static void write_to(void *memory) {
    if (memory == NULL) exit(1);
    memset(memory, 1, BYTES);
}

static void libnuma_on_node(void) {
    void *memory = on_node(BYTES, 3);
    write_to(memory);
    give_back(memory, BYTES);
}

static void libnuma_striped(void) {
    void *memory = interleaved(BYTES);
    write_to(memory);
    give_back(memory, BYTES);
}

static void hwloc_on_node(void) {
    void *memory = allocate(topology, BYTES, third, BIND, BY_NODE_SET);
    write_to(memory);
    give_back_to(topology, memory, BYTES);
}

static void hwloc_striped(void) {
    void *memory = allocate(topology, BYTES, nodes, INTERLEAVE, BY_NODE_SET);
    write_to(memory);
    give_back_to(topology, memory, BYTES);
}

static double microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static void *function(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "%s is missing\n", name);
        exit(1);
    }
    return found;
}

static void set_up(void) {
    void *libnuma = dlopen("libnuma.so.1", RTLD_NOW), *hwloc = dlopen("libhwloc.so.15", RTLD_NOW);
    if (libnuma == NULL || hwloc == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    int (*available)(void) = (int (*)(void))function(libnuma, "numa_available");
    if (available() != 0) exit(1);
    on_node = (void *(*)(size_t, int))function(libnuma, "numa_alloc_onnode");
    interleaved = (void *(*)(size_t))function(libnuma, "numa_alloc_interleaved");
    give_back = (void (*)(void *, size_t))function(libnuma, "numa_free");
    int (*init)(void **) = (int (*)(void **))function(hwloc, "hwloc_topology_init");
    int (*load)(void *) = (int (*)(void *))function(hwloc, "hwloc_topology_load");
    void *(*bitmap)(void) = (void *(*)(void))function(hwloc, "hwloc_bitmap_alloc");
    int (*set)(void *, unsigned) = (int (*)(void *, unsigned))function(hwloc, "hwloc_bitmap_set");
    allocate = (void *(*)(void *, size_t, const void *, int, int))function(hwloc, "hwloc_alloc_membind");
    give_back_to = (int (*)(void *, void *, size_t))function(hwloc, "hwloc_free");
    if (init(&topology) != 0 || load(topology) != 0) exit(1);
    third = bitmap();
    nodes = bitmap();
    set(third, 3);
    for (unsigned node = 0; node < 4; node++) set(nodes, node);
    all = servsim_set_global();
}

int main(void) {
    static const struct { const char *name; void (*call)(void); } calls[] = {
        {"servsim node", ours_on_node},           {"servsim striped", ours_striped},
        {"servsim striped by 4", ours_striped_by_four}, {"libnuma node", libnuma_on_node},
        {"libnuma striped", libnuma_striped},     {"hwloc node", hwloc_on_node},
        {"hwloc striped", hwloc_striped},
    };
    enum { MANY = sizeof calls / sizeof *calls };
    double least[MANY];
    set_up();
    for (int round = 0; round < ROUNDS; round++)
        for (int at = 0; at < MANY; at++) {
            double begin = microseconds();
            for (int call = 0; call < CALLS; call++) calls[at].call();
            double took = (microseconds() - begin) / CALLS;
            if (round == 0 || took < least[at]) least[at] = took;
        }
    for (int at = 0; at < MANY; at++) printf("%s: %.0f\n", calls[at].name, least[at]);
    return 0;
}
