/* A workload's client inside the guest, in C: everything that a capture expects of it.
 *
 * The client warms its server up, stops the machine for the checkpoint while its users are at work, and goes on when a
 * capture resumes it: it reads its orders, marks where the measurement begins and ends, and leaves a result. All of that
 * is behind three functions, which any number of threads may call:
 *
 *     servsim_begin(warm_up, users);                   once
 *     while (servsim_goes_on()) {                      each user
 *         ... send a request, read the complete reply ...
 *         servsim_ended(kind, server_pid);             kind: number of the transaction in workload.toml, from 1
 *     }
 *     return servsim_finish(problem);                  once; problem: a sentence, or NULL if all went well
 *
 * servsim_seed() draws the requests of a user: it changes when the capture gives its orders.
 *
 * A kind that workload.toml does not declare ends the run, which is not valid. Run natively (the variable servsim_native is
 * set), orders come from the variables servsim_transactions and servsim_seed, nothing is stopped, and the result goes to
 * standard output, with the throughput of the measured window.
 */
#ifndef SERVSIM_H
#define SERVSIM_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <time.h>
#include <unistd.h>
#ifdef __has_include
#if __has_include("servsim_kinds.h")
#include "servsim_kinds.h" /* of this folder's workload.toml, written beside when servsim builds the client */
#endif
#endif
#ifndef SERVSIM_KINDS
#define SERVSIM_KINDS 127
#define SERVSIM_UNDECLARED "the client ended a transaction of kind %d: kinds have numbers from 1 to 127"
#endif

/* Kinds of marks, the port of the pvpanic device, and the layout of the control disk (docs/parts/oltp.md). */
enum { SERVSIM_ENDED = 1, SERVSIM_START = 2, SERVSIM_STOP = 3, SERVSIM_CLIENT = 4 };
enum { SERVSIM_PORT = 0x505, SERVSIM_BLOCK = 4096, SERVSIM_RESULT = 1 << 20 };

static struct {
    pthread_mutex_t lock;
    unsigned long long warm_up, users, marks, ended, lead_in, transactions, seed;
    int ordered, undeclared;
    struct timespec began, ended_at;
    _Atomic int over;
    char failure[400];
} servsim = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The mark: an instruction without effect that the capture recognises. */
static inline void servsim_mark(int mark, int kind, int server)
{
    uint32_t code = (uint32_t)mark | (uint32_t)kind << 8;
    uint64_t sequence = servsim.marks++;
    __asm__ volatile(".byte 0x66, 0x87, 0xdb" : : "a"(code), "c"(sequence), "d"((uint64_t)server));
}

static inline void servsim_fail(const char *what)
{
    if (!servsim.failure[0])
        snprintf(servsim.failure, sizeof servsim.failure, "%s", what);
    servsim.over = 1;
}

static inline int servsim_is_native(void)
{
    return getenv("servsim_native") != NULL;
}

/* The number in a variable of the environment. */
static inline unsigned long long servsim_variable(const char *name, unsigned long long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* Reads or writes a block of the control disk past the guest's cache: the host changes it while the guest sleeps. */
static inline int servsim_block(char *block, off_t where, int writes)
{
    int disk = open("/dev/vdb", O_RDWR | O_DIRECT | O_SYNC);
    ssize_t done = disk < 0 ? -1 : writes ? pwrite(disk, block, SERVSIM_BLOCK, where) : pread(disk, block, SERVSIM_BLOCK, where);
    if (disk >= 0)
        close(disk);
    return done == SERVSIM_BLOCK;
}

static inline void servsim_leave(const char *json)
{
    static char block[SERVSIM_BLOCK] __attribute__((aligned(SERVSIM_BLOCK)));
    uint64_t length = strlen(json);
    if (servsim_is_native()) {
        puts(json);
        return;
    }
    memset(block, 0, sizeof block);
    memcpy(block, &length, sizeof length);
    memcpy(block + sizeof length, json, length);
    if (!servsim_block(block, SERVSIM_RESULT, 1))
        servsim_fail("the control disk does not take a result");
}

static inline unsigned long long servsim_number(const char *orders, const char *key, unsigned long long otherwise)
{
    const char *found = strstr(orders, key);
    char *end;
    if (!found)
        return otherwise;
    found += strlen(key);
    unsigned long long number = strtoull(found, &end, 10);
    return end == found ? otherwise : number;
}

/* Stops the machine; on the resume, reads the orders. The lock is held: nobody else ends a transaction meanwhile. */
static inline void servsim_save_point(void)
{
    static char block[SERVSIM_BLOCK] __attribute__((aligned(SERVSIM_BLOCK)));
    servsim.ended = 0;
    servsim.ordered = 1;
    if (servsim_is_native()) {
        servsim.transactions = servsim_variable("servsim_transactions", 1000);
        servsim.seed = servsim_variable("servsim_seed", 1);
        servsim.lead_in = servsim.users;
        return;
    }
    servsim_leave("null");
    if (ioperm(SERVSIM_PORT, 1, 1) != 0) {
        servsim_fail("the port of the pause may not be used: the client must run as root");
        return;
    }
    outb(1, SERVSIM_PORT);
    if (!servsim_block(block, 0, 0)) {
        servsim_fail("the control disk cannot be read");
        return;
    }
    block[SERVSIM_BLOCK - 1] = 0;
    servsim.transactions = servsim_number(block, "\"transactions\":", 0);
    servsim.seed = servsim_number(block, "\"seed\":", 1);
    servsim.lead_in = servsim_number(block, "\"lead_in\":", servsim.users);
    if (servsim.lead_in == 0)
        servsim.lead_in = 1;
    if (servsim.transactions == 0)
        servsim_fail("the control disk holds no orders");
}

static inline void servsim_begin(unsigned long long warm_up, unsigned long long users)
{
    servsim.warm_up = warm_up ? warm_up : 1;
    servsim.users = users;
    servsim_mark(SERVSIM_CLIENT, 0, 0);
}

static inline int servsim_goes_on(void)
{
    return !servsim.over;
}

static inline unsigned long long servsim_seed(void)
{
    return servsim.seed;
}

/* A transaction's reply has been read in full. */
static inline void servsim_ended(int kind, int server)
{
    pthread_mutex_lock(&servsim.lock);
    if (kind < 1 || kind > SERVSIM_KINDS) {
        char what[sizeof servsim.failure];
        snprintf(what, sizeof what, SERVSIM_UNDECLARED, kind);
        servsim_fail(what);
        servsim.undeclared = 1;
        pthread_mutex_unlock(&servsim.lock);
        return;
    }
    servsim_mark(SERVSIM_ENDED, kind, server);
    servsim.ended++;
    if (!servsim.ordered) {
        if (servsim.ended == servsim.warm_up)
            servsim_save_point();
    } else if (servsim.ended == servsim.lead_in) {
        servsim_mark(SERVSIM_START, 0, 0);
        clock_gettime(CLOCK_MONOTONIC, &servsim.began);
    } else if (servsim.ended == servsim.lead_in + servsim.transactions) {
        servsim_mark(SERVSIM_STOP, 0, 0);
        clock_gettime(CLOCK_MONOTONIC, &servsim.ended_at);
        servsim.over = 1;
    }
    pthread_mutex_unlock(&servsim.lock);
}

/* Leaves the result and returns the client's exit code: 1 for a run that is not valid, 2 where the folder is wrong. A problem must need no escapes in JSON. */
static inline int servsim_finish(const char *problem)
{
    char json[800], rate[80] = "";
    double seconds = (double)(servsim.ended_at.tv_sec - servsim.began.tv_sec) +
                     1e-9 * (double)(servsim.ended_at.tv_nsec - servsim.began.tv_nsec);
    if (!problem && servsim.failure[0])
        problem = servsim.failure;
    /* The guest's clock is no measure of any machine. */
    if (!problem && servsim_is_native())
        snprintf(rate, sizeof rate, ", \"transactions_per_second\": %.6g", (double)servsim.transactions / seconds);
    snprintf(json, sizeof json,
             "{\"schema\": \"servsim.workload.run/1\", \"valid\": %s, \"problems\": [%s%.400s%s], "
             "\"orders\": {\"transactions\": %llu, \"seed\": %llu}, \"lead_in_transactions\": %llu, \"seconds\": %.6f%s}",
             problem ? "false" : "true", problem ? "\"" : "", problem ? problem : "", problem ? "\"" : "",
             servsim.transactions, servsim.seed, servsim.lead_in, seconds, rate);
    servsim_leave(json);
    return !problem ? 0 : servsim.undeclared ? 2 : 1;
}
#endif
