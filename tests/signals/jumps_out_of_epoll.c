/* A thread is jumped out of epoll_wait by a signal handler. Then the process forks, puts a connection into the set, and
 * waits there for a second. It tells of how many milliseconds of that it has used the processor. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static sigjmp_buf outside;

static void jump(int number) {
    (void)number;
    siglongjmp(outside, 1);
}

static long milliseconds(struct timeval time) {
    return time.tv_sec * 1000 + time.tv_usec / 1000;
}

static long used(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime);
}

int main(void) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(7000)};
    int pipes[2], on = 1, listener = socket(AF_INET, SOCK_STREAM, 0), set = epoll_create1(0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (pipe(pipes) || bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 8))
        return 1;
    int fd = accept(listener, 0, 0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(set, EPOLL_CTL_ADD, pipes[0], &event);
    signal(SIGALRM, jump);
    if (sigsetjmp(outside, 1) == 0) {
        struct itimerval in = {.it_value = {.tv_usec = 50000}};
        setitimer(ITIMER_REAL, &in, 0);
        epoll_wait(set, &event, 1, -1);
        return 2;
    }
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    event.events = EPOLLIN;
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    long before = used();
    if (epoll_wait(set, &event, 1, 1000))
        return 3;
    dprintf(fd, "%ld\n", used() - before);
    kill(child, SIGKILL);
    return 0;
}
