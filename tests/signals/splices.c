/* A thread splices from a connection into a pipe, for which there is room when it begins to wait for bytes, and none,
 * or nobody who reads it, when they come. What the call has not put into the pipe is to be read afterwards. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fd, pipes[2];
static volatile int thread_id, is_over;
static ssize_t moved;
static int error;

static void interrupts(int number) {
    (void)number;
}

static void *splices(void *nothing) {
    (void)nothing;
    thread_id = syscall(SYS_gettid);
    moved = splice(fd, 0, pipes[1], 0, 100, 0);
    error = moved < 0 ? errno : 0;
    is_over = 1;
    return 0;
}

/* Until the thread has been asleep for a while, or is over. */
static void until_it_sleeps(void) {
    char path[64];
    for (int times = 0; times < 20 && !is_over;) {
        char text[512] = "", *state;
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread_id);
        FILE *file = fopen(path, "r");
        if (file) {
            if (!fgets(text, sizeof text, file))
                text[0] = 0;
            fclose(file);
        }
        state = strstr(text, ") ");
        times = state && state[2] == 'S' ? times + 1 : 0;
        usleep(5000);
    }
}

static pthread_t start(void) {
    pthread_t thread;
    thread_id = is_over = 0;
    if (pipe(pipes) || pthread_create(&thread, 0, splices, 0))
        _exit(1);
    while (!thread_id)
        usleep(1000);
    until_it_sleeps();
    return thread;
}

/* What is left in the connection. */
static int left(void) {
    char bytes[100];
    int got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    return got < 0 ? 0 : got;
}

/* The client sends. */
static void more(void) {
    if (write(fd, "n", 1) != 1)
        _exit(1);
}

int main(void) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(7000)};
    struct sigaction action = {.sa_handler = interrupts};
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 8))
        return 1;
    sigaction(SIGUSR1, &action, 0);
    signal(SIGPIPE, SIG_IGN);
    fd = accept(listener, 0, 0);
    char block[4096] = "", answer[100];

    pthread_t thread = start();
    fcntl(pipes[1], F_SETFL, O_NONBLOCK);
    while (write(pipes[1], block, sizeof block) > 0)
        ;
    fcntl(pipes[1], F_SETFL, 0);
    more();
    until_it_sleeps();
    while (!is_over) {
        pthread_kill(thread, SIGUSR1);
        usleep(10000);
    }
    pthread_join(thread, 0);
    int length = snprintf(answer, sizeof answer, "%zd %d %d, ", moved, error == EINTR, left());
    close(pipes[0]);
    close(pipes[1]);

    thread = start();
    close(pipes[0]);
    more();
    pthread_join(thread, 0);
    length += snprintf(answer + length, sizeof answer - length, "%zd %d %d", moved, error == EPIPE, left());
    return write(fd, answer, length) != length;
}
