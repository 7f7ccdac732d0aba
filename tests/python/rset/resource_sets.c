/* Every function of servsim_rset.h, on whatever machine runs it; ends with 0, or says which expectation failed. */
#include <servsim_rset.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPECT(what)                                                                                    \
    do {                                                                                                \
        if (!(what)) {                                                                                  \
            fprintf(stderr, "line %d: not so: %s (last reason: %s)\n", __LINE__, #what,                 \
                    servsim_rset_error());                                                              \
            exit(1);                                                                                    \
        }                                                                                               \
    } while (0)

enum { BYTES = 1 << 20, THREADS = 3 };

struct seen {
    unsigned processor[THREADS];
    int own_memory[THREADS];
};

static void work(const servsim_member *member, void *argument)
{
    struct seen *seen = (struct seen *)argument;
    size_t index = servsim_member_index(member);
    servsim_block *own = servsim_member_allocate(member, BYTES);
    struct servsim_found found;
    EXPECT(own != NULL);
    memset(servsim_block_memory(own), 1, BYTES);
    EXPECT(servsim_block_verify(own, &found) == 0);
    seen->own_memory[index] = found.elsewhere == 0 && found.absent == 0;
    seen->processor[index] = servsim_member_processor(member);
    servsim_block_free(own);
}

static void sets(servsim_set *all)
{
    unsigned processors[8192], nodes[1024];
    size_t count = servsim_set_processors(all, processors, 8192);
    servsim_set *node, *nothing, *rest, *both, *inherited, *child, *absent;

    EXPECT(count > 0 && servsim_set_processors(all, NULL, 0) == count);
    EXPECT(servsim_set_nodes(all, nodes, 1024) > 0);
    EXPECT((node = servsim_set_node(nodes[0])) != NULL);
    EXPECT((nothing = servsim_set_of("", "")) != NULL);
    EXPECT((rest = servsim_set_difference(all, node)) != NULL);
    EXPECT((both = servsim_set_union(rest, node)) != NULL);
    EXPECT(servsim_set_is_subset(all, both) == 1 && servsim_set_is_subset(both, all) == 1);
    EXPECT(servsim_set_is_subset(node, nothing) == 0);
    servsim_set_free(both);
    EXPECT((both = servsim_set_intersection(rest, node)) != NULL);
    EXPECT(servsim_set_is_subset(both, nothing) == 1);
    EXPECT((inherited = servsim_set_inherited()) != NULL && servsim_set_is_subset(inherited, all) == 1);
    EXPECT((child = servsim_set_child(all, node)) != NULL && servsim_set_validate(child) == 0);

    EXPECT((absent = servsim_set_of("0", "999")) != NULL);
    EXPECT(servsim_set_validate(absent) == -1 && strstr(servsim_rset_error(), "nodes 999") != NULL);
    EXPECT(servsim_set_child(all, absent) == NULL && strstr(servsim_rset_error(), "inside its parent") != NULL);
    EXPECT(servsim_set_of("3-1", "") == NULL && strstr(servsim_rset_error(), "3-1") != NULL);
    EXPECT(servsim_set_of(NULL, "") == NULL && servsim_set_node(999) == NULL);

    servsim_set_free(absent);
    servsim_set_free(child);
    servsim_set_free(inherited);
    servsim_set_free(both);
    servsim_set_free(rest);
    servsim_set_free(nothing);
    servsim_set_free(node);
    servsim_set_free(NULL);
}

static void memory(servsim_set *all)
{
    const char *policies[] = {"float", "local", "touch", "striped(3)"};
    struct servsim_found found;
    servsim_block *block;
    unsigned nodes[1024];
    size_t i, j;

    size_t count = servsim_set_nodes(all, nodes, 1024);
    for (i = 0; i < sizeof policies / sizeof *policies; i++) {
        long pages = 0;
        EXPECT((block = servsim_allocate(all, policies[i], BYTES)) != NULL);
        memset(servsim_block_memory(block), 1, BYTES);
        EXPECT(servsim_block_verify(block, &found) == 0);
        EXPECT(found.elsewhere == 0 && found.absent == 0 && found.pages == BYTES / (size_t)sysconf(_SC_PAGESIZE));
        for (j = 0; j < count; j++)
            pages += servsim_block_pages_in(block, nodes[j]);
        EXPECT(pages == (long)found.pages);
        servsim_block_free(block);
    }
    EXPECT((block = servsim_allocate(all, "touch", 5000)) != NULL);
    EXPECT(servsim_block_verify(block, &found) == 0 && found.absent == 2);
    EXPECT(servsim_block_pin(block) == 0);
    EXPECT(servsim_block_verify(block, &found) == 0 && found.absent == 0);
    servsim_block_free(block);
    EXPECT((block = servsim_allocate_contiguous(all, "local", 100)) != NULL);
    servsim_block_free(block);
    EXPECT(servsim_allocate_contiguous(all, "local", (size_t)1 << 45) == NULL);
    EXPECT(strstr(servsim_rset_error(), "one piece of physical memory") != NULL);
    EXPECT(servsim_allocate(all, "nearby", BYTES) == NULL && strstr(servsim_rset_error(), "striped(PAGES)") != NULL);
    EXPECT(servsim_allocate(all, "local", 0) == NULL && servsim_allocate(all, NULL, BYTES) == NULL);
    servsim_block_free(NULL);
}

/* How many threads the kernel still counts: one that was joined may be on its way out. */
static int threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int count = 0;

    EXPECT(tasks != NULL);
    while ((task = readdir(tasks)) != NULL)
        count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

int main(void)
{
    servsim_set *all = servsim_set_global();
    struct seen seen = {{0}, {0}};
    unsigned processors[8192];
    int i, rounds;

    EXPECT(all != NULL && strcmp(servsim_rset_error(), "") == 0);
    sets(all);
    memory(all);
    EXPECT(servsim_team_run(THREADS, NULL, "fill", "local", work, &seen) == 0);
    size_t count = servsim_set_processors(all, processors, 8192);
    for (i = 0; i < THREADS; i++)
        EXPECT(seen.own_memory[i] && seen.processor[i] == processors[(size_t)i % count]);
    EXPECT(servsim_team_run(THREADS, all, "sideways", "local", work, &seen) == -1);
    EXPECT(servsim_team_run(0, all, "fill", "local", work, &seen) == -1);

    for (rounds = 0; threads() > 1 && rounds < 30000; rounds++)
        usleep(1000);
    EXPECT(servsim_bind_thread(0, all) == 0);
    EXPECT(servsim_bind_process(getpid(), all) == 1);
    EXPECT(servsim_migrate_process(getpid(), all) == 0);
    EXPECT(servsim_bind_process(0x7ffffffe, all) == -1);
    servsim_set_free(all);
    puts("all so");
    return 0;
}
