/* A handler that lets calls go on interrupts a read, waits in epoll_wait, and is interrupted there by another of its kind.
 * When both have returned, a byte is sent, and then what has become of the read: what is to be read comes only after
 * that byte. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static int fd, set;
static atomic_int waits, waited;
static pthread_t reader;
static pid_t reader_id;

static void wait_in_set(int number) {
    struct epoll_event event;
    (void)number;
    waits = 1;
    epoll_wait(set, &event, 1, 10000);
    waited = 1;
}

static void nothing(int number) {
    (void)number;
}

static int sleeps(void) {
    char path[64], state[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)reader_id);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    char *read = fgets(state, sizeof state, file);
    fclose(file);
    char *end = read ? strrchr(state, ')') : 0;
    return end && end[2] == 'S';
}

static void await_sleep(void) {
    for (int looks = 0; looks < 50; looks = sleeps() ? looks + 1 : 0)
        usleep(1000);
}

static void *interrupts(void *nobody) {
    (void)nobody;
    await_sleep();
    pthread_kill(reader, SIGUSR1);
    while (!waits)
        usleep(1000);
    await_sleep();
    pthread_kill(reader, SIGUSR2);
    while (!waited)
        usleep(1000);
    await_sleep();
    send(fd, "w", 1, 0);
    return 0;
}

int main(void) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(7000)};
    int pipes[2], on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (pipe(pipes) || bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 8))
        return 1;
    fd = accept(listener, 0, 0);
    set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(set, EPOLL_CTL_ADD, pipes[0], &event);
    struct sigaction action = {.sa_handler = wait_in_set, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, 0);
    action.sa_handler = nothing;
    sigaction(SIGUSR2, &action, 0);
    reader = pthread_self();
    reader_id = gettid();
    pthread_t other;
    if (pthread_create(&other, 0, interrupts, 0))
        return 2;
    char byte;
    const char *became = read(fd, &byte, 1) == 1 ? "read\n" : "ended\n";
    pthread_join(other, 0);
    send(fd, became, strlen(became), 0);
    return 0;
}
