/* A thread is jumped out of read and accept by a signal handler, and closes what these waited for. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static sigjmp_buf outside;

static void jump(int number) {
    (void)number;
    siglongjmp(outside, 1);
}

static void soon(void) {
    struct itimerval in = {.it_value = {.tv_usec = 20000}};
    setitimer(ITIMER_REAL, &in, 0);
}

static int listens(int port) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 8))
        _exit(1);
    return listener;
}

int main(void) {
    int listener = listens(7000);
    volatile int fd = accept(listener, 0, 0), other;
    char byte;
    signal(SIGALRM, jump);
    if (!sigsetjmp(outside, 1)) {
        soon();
        read(fd, &byte, 1);
        return 2;
    }
    close(fd);
    other = listens(7001);
    if (!sigsetjmp(outside, 1)) {
        soon();
        accept(other, 0, 0);
        return 3;
    }
    close(other);
    /* There is none any more. */
    listens(7001);
    fd = accept(listener, 0, 0);
    return write(fd, "again", 5) != 5;
}
