/* Runs a program with system calls forbidden, as a container's filter does it (EPERM).
 * Usage: forbidden NUMBER[,NUMBER...] PROGRAM [ARGUMENT]... */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { MOST = 16 };

int main(int count, char **words) {
    struct sock_filter filter[2 * MOST + 2];
    unsigned short at = 0;
    if (count < 3) return 2;
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (char *number = words[1]; *number && at < 2 * MOST; number += *number == ',') {
        unsigned call = strtoul(number, &number, 10);
        filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
        filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {at, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) {
        perror("forbidden");
        return 3;
    }
    execvp(words[2], words + 2);
    perror(words[2]);
    return 2;
}
