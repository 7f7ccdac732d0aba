/* A program with a handler of its own for faults on pages that it protects itself, which another thread uses all the time,
 * and with a thread that blocks every signal. Prints how many of a hundred faults its own handler saw. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 256 };

static volatile char *used, *own;
static volatile int seen, stop;

static void mend(int number, siginfo_t *about, void *context) {
    (void)number, (void)context;
    seen++;
    mprotect((void *)((unsigned long)about->si_addr / PAGE * PAGE), PAGE, PROT_READ | PROT_WRITE);
}

static void *use(void *nothing) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    while (!stop)
        for (int page = 0; page < PAGES; page++) used[page * PAGE]++;
    return nothing;
}

static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = mend, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    used = malloc(PAGES * PAGE), own = malloc(PAGES * PAGE);
    memset((char *)used, 1, PAGES * PAGE), memset((char *)own, 1, PAGES * PAGE);
    pthread_t thread;
    if (pthread_create(&thread, NULL, use, NULL) != 0) return 1;
    for (int turn = 0; turn < 100; turn++) {
        mprotect((void *)(own + turn * PAGE), PAGE, PROT_NONE);
        own[turn * PAGE]++;
    }
    while (seconds() < 1) usleep(1000);
    stop = 1;
    pthread_join(thread, NULL);
    printf("protected %d of 100, blocked well\n", seen);
    return 0;
}
