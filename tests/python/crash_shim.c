/* Preloaded into a process that writes files: counts the system calls that change files, tells them to a
 * log, and at a chosen one kills the process or makes the call fail, the way a power cut, kill -9 or a full
 * disk does. Armed by the process itself, so that loading libraries is not counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_int armed, count;
static int at, fault; /* fault 0: kill; else the errno */
static int log_fd = -1;

/* Begins to count; the call with this number (from 1; 0: none) ends the process or fails. */
void shim_arm(int number, int with, const char *log)
{
    at = number;
    fault = with;
    log_fd = log ? open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    atomic_store(&count, 0);
    atomic_store(&armed, 1);
}

void shim_disarm(void)
{
    atomic_store(&armed, 0);
}

static ssize_t (*real_write)(int, const void *, size_t);

/* Counts a call; true if it is the one to fail. */
static int meet(const char *what, int fd)
{
    if (!atomic_load(&armed) || fd == log_fd || (fd >= 0 && fd <= 2))
        return 0;
    char line[4200], name[4096] = "";
    if (fd >= 0) { /* by the name that the descriptor has now; only what lies in files counts */
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, name, sizeof name - 1);
        name[length > 0 ? length : 0] = 0;
        if (name[0] != '/' || !strncmp(name, "/dev/", 5))
            return 0;
    }
    int number = atomic_fetch_add(&count, 1) + 1;
    if (log_fd >= 0) {
        int length = snprintf(line, sizeof line, "%s %s\n", what, name);
        if (!real_write)
            real_write = dlsym(RTLD_NEXT, "write");
        if (real_write(log_fd, line, length) != length)
            _exit(99);
    }
    if (number != at)
        return 0;
    if (!fault)
        kill(getpid(), SIGKILL);
    errno = fault;
    return 1;
}

#define REAL(type, name, ...)                                                                                         \
    static type (*real)(__VA_ARGS__);                                                                                 \
    if (!real)                                                                                                        \
        real = dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *bytes, size_t length)
{
    REAL(ssize_t, write, int, const void *, size_t);
    return meet("write", fd) ? -1 : real(fd, bytes, length);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t place)
{
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    return meet("write", fd) ? -1 : real(fd, bytes, length, place);
}

ssize_t writev(int fd, const struct iovec *parts, int number)
{
    REAL(ssize_t, writev, int, const struct iovec *, int);
    return meet("write", fd) ? -1 : real(fd, parts, number);
}

ssize_t copy_file_range(int from, off64_t *a, int fd, off64_t *b, size_t length, unsigned flags)
{
    REAL(ssize_t, copy_file_range, int, off64_t *, int, off64_t *, size_t, unsigned);
    return meet("write", fd) ? -1 : real(from, a, fd, b, length, flags);
}

int fsync(int fd)
{
    REAL(int, fsync, int);
    return meet("fsync", fd) ? -1 : real(fd);
}

int rename(const char *from, const char *to)
{
    REAL(int, rename, const char *, const char *);
    return meet("rename", -1) ? -1 : real(from, to);
}

/* Only what creates a file counts. */
static int creating(int flags)
{
    return (flags & (O_CREAT | O_TRUNC)) != 0;
}

#define OPEN(name)                                                                                                    \
    int name(const char *path, int flags, ...)                                                                        \
    {                                                                                                                 \
        va_list rest;                                                                                                 \
        va_start(rest, flags);                                                                                        \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                     \
        va_end(rest);                                                                                                 \
        REAL(int, name, const char *, int, ...);                                                                      \
        return creating(flags) && meet("create", -1) ? -1 : real(path, flags, mode);                                  \
    }

OPEN(open)
OPEN(open64)
