/* A thread is jumped out of read by a signal handler, as often as it likes, and then polls the same connection
 * beside a pipe. It echoes what it reads. */
#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define JUMPS 3

static sigjmp_buf outside;

static void jump(int number) {
    (void)number;
    siglongjmp(outside, 1);
}

int main(void) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(7000)};
    int pipes[2], on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (pipe(pipes) || bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 8))
        return 1;
    int fd = accept(listener, 0, 0);
    char byte;
    signal(SIGALRM, jump);
    volatile int jumps = 0;
    sigsetjmp(outside, 1);
    if (jumps++ < JUMPS) {
        struct itimerval in = {.it_value = {.tv_usec = 20000}};
        setitimer(ITIMER_REAL, &in, 0);
        if (read(fd, &byte, 1) != -2)
            return 2;
    }
    if (write(fd, "j", 1) != 1)
        return 3;
    for (;;) {
        struct pollfd fds[2] = {{.fd = pipes[0], .events = POLLIN}, {.fd = fd, .events = POLLIN}};
        poll(fds, 2, -1);
        if (read(fd, &byte, 1) < 1 || write(fd, &byte, 1) < 1)
            return 0;
    }
}
