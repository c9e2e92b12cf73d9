/* A child makes a call that waits, and is traced by its parent, which steps through it up to the very
 * instruction that begins the kernel's sleep: there a signal comes. The child says how its call has ended. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS 20000000

static volatile sig_atomic_t handled;

static void handle(int number) {
    (void)number;
    handled++;
}

/* Whether the thread is about to make a call that sleeps without an end. */
static int sleeps_next(pid_t child) {
    struct user_regs_struct now;
    ptrace(PTRACE_GETREGS, child, 0, &now);
    errno = 0;
    long code = ptrace(PTRACE_PEEKTEXT, child, (void *)now.rip, 0);
    if (errno || (code & 0xffff) != 0x050f)
        return 0;
    switch (now.rax) {
    case SYS_futex:
        return (now.rsi & FUTEX_CMD_MASK) == FUTEX_WAIT && !now.r10;
    case SYS_ppoll:
        return !now.rdx;
    case SYS_poll:
        return (int)now.rdx < 0;
    case SYS_epoll_pwait:
    case SYS_epoll_wait:
        return (int)now.r10 < 0;
    default:
        return 0;
    }
}

/* The child stops before its call. Who has the other end of the connection is told when the signal has come. */
static void interrupt(pid_t child, int number, int connection) {
    int status;
    waitpid(child, &status, 0);
    for (int step = 0; step < STEPS && !sleeps_next(child); step++) {
        ptrace(PTRACE_SINGLESTEP, child, 0, 0);
        waitpid(child, &status, 0);
        if (!WIFSTOPPED(status))
            exit(1);
    }
    send(connection, "now ", 4, 0);
    ptrace(PTRACE_CONT, child, 0, (void *)(long)number);
    /* Whatever stops it later is nothing to us. */
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status))
        ptrace(PTRACE_CONT, child, 0, 0);
}

static int call(const char *way, int connection) {
    char byte;
    fd_set set;
    struct pollfd entry = {.fd = connection, .events = POLLIN};
    struct epoll_event event = {.events = EPOLLIN};
    int ready = epoll_create1(0);
    epoll_ctl(ready, EPOLL_CTL_ADD, connection, &event);
    FD_ZERO(&set);
    FD_SET(connection, &set);
    /* What is done once is not stepped through. */
    recv(connection, &byte, 1, MSG_DONTWAIT);
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    if (!strcmp(way, "poll"))
        return poll(&entry, 1, -1);
    if (!strcmp(way, "select"))
        return select(connection + 1, &set, 0, 0, 0);
    if (!strcmp(way, "epoll"))
        return epoll_wait(ready, &event, 1, -1);
    return read(connection, &byte, 1);
}

int main(void) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(7000)};
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 8))
        return 1;
    for (;;) {
        int connection = accept(listener, 0, 0);
        char word[32] = {0}, answer[64];
        if (connection < 0 || read(connection, word, sizeof word - 1) <= 0)
            return 1;
        /* "read" and "read goes on": with a handler that lets calls go on. */
        char *rest = strchr(word, ' ');
        if (rest)
            *rest = 0;
        struct sigaction action = {.sa_handler = handle, .sa_flags = rest ? SA_RESTART : 0};
        sigaction(SIGUSR1, &action, 0);
        handled = 0;
        pid_t child = fork();
        if (!child) {
            int result = call(word, connection);
            snprintf(answer, sizeof answer, "%d %s after %d", result,
                     result < 0 ? strerrorname_np(errno) : "-", handled);
            send(connection, answer, strlen(answer), 0);
            _exit(0);
        }
        interrupt(child, SIGUSR1, connection);
        close(connection);
    }
}
