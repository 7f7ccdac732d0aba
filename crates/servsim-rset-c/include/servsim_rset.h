/* Resource Sets on Linux: processors and memory as one object (link with -lservsim_rset_c).
 *
 * A set says where something may run and where its memory may lie. Sets are made from what the machine has and this
 * process may use, combined, and given to threads, processes and allocations. Whatever returns a pointer returns NULL
 * when it fails, whatever returns a number -1; servsim_rset_error() then holds the reason, one sentence, for the
 * calling thread. Sets and blocks belong to the caller and are freed by the functions named so; NULL may be freed.
 * Functions may be called by several threads at once, also with one set; a block being freed or pinned must not be in
 * use elsewhere.
 *
 * Lists of numbers are written as the kernel does: "0-3,8".
 */
#ifndef SERVSIM_RSET_H
#define SERVSIM_RSET_H

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct servsim_set servsim_set;
typedef struct servsim_block servsim_block;
typedef struct servsim_member servsim_member;

/* Why the last call of this thread that failed did so; "" if none did. Valid until the thread's next call. */
const char *servsim_rset_error(void);

/* --- Sets --- */

/* All that is online and that this process's cpuset allows. */
servsim_set *servsim_set_global(void);
/* What this thread was given, by taskset or numactl for instance: never more than the global set. */
servsim_set *servsim_set_inherited(void);
/* The processors and the memory of one node. */
servsim_set *servsim_set_node(unsigned node);
/* These processors and these nodes' memory; either list may be "". */
servsim_set *servsim_set_of(const char *processors, const char *nodes);
/* What is in either, in both, in the first alone. */
servsim_set *servsim_set_union(const servsim_set *a, const servsim_set *b);
servsim_set *servsim_set_intersection(const servsim_set *a, const servsim_set *b);
servsim_set *servsim_set_difference(const servsim_set *a, const servsim_set *b);
/* A copy of `wanted`, if it lies inside `parent`. */
servsim_set *servsim_set_child(const servsim_set *parent, const servsim_set *wanted);
/* Whether all of `a` is in `b`: 1 or 0. */
int servsim_set_is_subset(const servsim_set *a, const servsim_set *b);
/* 0 if this process may use all of the set now: hot-plug and cpusets change that. */
int servsim_set_validate(const servsim_set *set);
/* Writes the numbers, rising, as far as there is room, and returns how many there are. */
size_t servsim_set_processors(const servsim_set *set, unsigned *numbers, size_t room);
size_t servsim_set_nodes(const servsim_set *set, unsigned *numbers, size_t room);
void servsim_set_free(servsim_set *set);

/* --- Threads and processes --- */

/* Binds one thread (0: the calling one) to the processors of a set. */
int servsim_bind_thread(pid_t thread, const servsim_set *set);
/* Binds every thread of a process; returns how many there are. */
long servsim_bind_process(pid_t process, const servsim_set *set);
/* Moves the memory of a process into the nodes of a set; returns the pages that would not move. */
long servsim_migrate_process(pid_t process, const servsim_set *set);

/* --- Memory ---
 * A policy is one of
 *   "float"           where the kernel puts it
 *   "local"           on the node of the thread that allocates
 *   "touch"           for each page on the node of the thread that touches it first
 *   "remote"          on the set's next node after the allocating thread's
 *   "striped(PAGES)"  so many pages on the set's first node, the next on its second, and so on
 *   "node(NUMBER)"    there
 */

/* Zeroed memory of at least `bytes`, in whole pages, placed by a policy. */
servsim_block *servsim_allocate(const servsim_set *set, const char *policy, size_t bytes);
/* The same in one piece of physical memory: at most one huge page, if the host keeps such pages free. */
servsim_block *servsim_allocate_contiguous(const servsim_set *set, const char *policy, size_t bytes);
/* The block's first byte, at the beginning of a page. */
void *servsim_block_memory(servsim_block *block);
/* Makes every page exist, and keeps the kernel from swapping it out. */
int servsim_block_pin(servsim_block *block);

/* Where the pages of a block lie at this moment. */
struct servsim_found {
    size_t pages;     /* of 4 KiB, or what sysconf(_SC_PAGESIZE) says */
    size_t absent;    /* that nobody has touched yet */
    size_t elsewhere; /* that lie where the policy does not want them */
};
int servsim_block_verify(const servsim_block *block, struct servsim_found *found);
/* The pages of the block that lie in one node at this moment. */
long servsim_block_pages_in(const servsim_block *block, unsigned node);
void servsim_block_free(servsim_block *block);

/* --- Threads with memory of their own --- */

/* Runs work(member, argument) once in each of `threads` new threads, and returns when all have ended. Threads are
 * dealt to the processors of the set (NULL: the global one) in the order "fill" (node by node) or "round-robin"; what
 * they allocate lies by the policy. If one cannot be started or bound, none begins its work. */
int servsim_team_run(size_t threads, const servsim_set *set, const char *order, const char *policy,
                     void (*work)(const servsim_member *member, void *argument), void *argument);
/* The member's number from 0, its processor, and memory by the team's policy. Valid inside work() only. */
size_t servsim_member_index(const servsim_member *member);
unsigned servsim_member_processor(const servsim_member *member);
servsim_block *servsim_member_allocate(const servsim_member *member, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
