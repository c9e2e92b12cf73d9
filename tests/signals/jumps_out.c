/* A thread that polls, or accepts, is jumped out of its call by a signal handler and does something else for a
 * while: meanwhile another thread goes on polling, and then the call is made anew. Each echoes what it reads. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define JUMPS 5

static sigjmp_buf outside;
static int pipes[2];

static void jump(int number) {
    (void)number;
    siglongjmp(outside, 1);
}

static void set_timer(int microseconds) {
    struct itimerval in = {.it_value = {.tv_usec = microseconds}};
    setitimer(ITIMER_REAL, &in, 0);
}

static void await(int fd) {
    struct pollfd fds[2] = {{.fd = pipes[0], .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    poll(fds, 2, -1);
}

static void *echo(void *of) {
    int fd = (int)(long)of;
    char byte;
    for (;;) {
        await(fd);
        if (read(fd, &byte, 1) < 1 || write(fd, &byte, 1) < 1)
            exit(0);
    }
}

int main(void) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(7000)};
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (pipe(pipes) || bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 8))
        return 1;
    int first = accept(listener, 0, 0), second = accept(listener, 0, 0);
    signal(SIGALRM, jump);
    volatile int jumps = 0;
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    /* In this thread alone. */
    pthread_sigmask(SIG_BLOCK, &alarm, 0);
    pthread_t other;
    pthread_create(&other, 0, echo, (void *)(long)second);
    pthread_sigmask(SIG_UNBLOCK, &alarm, 0);
    if (sigsetjmp(outside, 1))
        usleep(200000);
    if (jumps++ < JUMPS) {
        set_timer(20000);
        await(first);
    }
    int third = -1;
    jumps = 0;
    if (sigsetjmp(outside, 1))
        jumps++;
    if (jumps < JUMPS)
        set_timer(20000);
    third = accept(listener, 0, 0);
    pthread_create(&other, 0, echo, (void *)(long)third);
    echo((void *)(long)first);
}
