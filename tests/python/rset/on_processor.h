/* Runs a function in a thread on a processor and waits for its end. Define _GNU_SOURCE before all includes. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

static void on(const char *processor, void *(*run)(void *)) {
    cpu_set_t set;
    pthread_attr_t attributes;
    pthread_t thread;
    CPU_ZERO(&set);
    CPU_SET(atoi(processor), &set);
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
    if (pthread_create(&thread, &attributes, run, NULL) != 0) exit(1);
    pthread_join(thread, NULL);
}
