/*
 * How sockets of the kernel's are served: by epoll, and by io_uring, where small sends on several connections leave
 * together. Both ends are in this process, and those of the clients are plain sockets.
 */
#define _GNU_SOURCE
#include "expect.h"
#include "outboard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANG_MS 60000
#define CLIENTS 3
#define FEW 2

static ob_queue *queue;
static int clients[CLIENTS];
static ob_handle accepted[CLIENTS];

static void begin(ob_context *context)
{
    struct sockaddr_in here;
    socklen_t len = sizeof here;
    ob_handle listener;
    ob_event event;
    int at;
    memset(&here, 0, sizeof here);
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT(0, ob_queue_new(context, &queue));
    EXPECT(0, ob_listen(queue, (struct sockaddr *)&here, len, 8, 0, &listener));
    EXPECT(0, ob_local(queue, listener, (struct sockaddr *)&here, &len));
    for (at = 0; at < CLIENTS; at++) {
        clients[at] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT(0, connect(clients[at], (struct sockaddr *)&here, len));
        EXPECT(1, ob_wait(queue, &event, 1, HANG_MS));
        EXPECT(OB_ACCEPT, event.kind);
        EXPECT(0, ob_accept(queue, listener, 0, &accepted[at]));
    }
}

/* All clients say something, of which the queue tells at once. */
static void say(void)
{
    ob_event events[64];
    ob_info info;
    int at, count, told = 0;
    char byte;
    EXPECT(1, ob_poll(queue, events, 64) >= 0);
    for (at = 0; at < CLIENTS; at++) {
        EXPECT(1, send(clients[at], "?", 1, 0));
        do
            EXPECT(0, ob_get_info(queue, accepted[at], &info));
        while (!info.unread);
    }
    count = ob_wait(queue, events, 64, HANG_MS);
    for (at = 0; at < count; at++)
        told += events[at].kind == OB_RECEIVE;
    EXPECT(CLIENTS, told);
    for (at = 0; at < CLIENTS; at++)
        EXPECT(1, ob_recv(queue, accepted[at], &byte, 1, 0));
}

/* What a client reads, and nothing behind it. */
static void reads(int client, const char *word)
{
    char bytes[64];
    size_t len = strlen(word);
    EXPECT(len, recv(clients[client], bytes, len, MSG_WAITALL));
    EXPECT(0, memcmp(bytes, word, len));
    EXPECT(-1, recv(clients[client], bytes, 1, MSG_DONTWAIT));
    EXPECT(EAGAIN, errno);
}

/* So many connections are sent a word. */
static void answer(const char *word, int count)
{
    int at;
    for (at = 0; at < count; at++)
        EXPECT(strlen(word), ob_send(queue, accepted[at], word, strlen(word), 0, 0));
}

static void read_by(const char *word, int count)
{
    int at;
    for (at = 0; at < count; at++)
        reads(at, word);
}

static void serves(int by, const char *served_by)
{
    ob_context *context;
    ob_event event;
    ob_info info;
    int at, status;
    char byte;
    pid_t child;
    EXPECT(0, ob_attach(&context, NULL, "kernel sockets", OB_KERNEL | by));
    begin(context);
    EXPECT(0, ob_get_info(queue, accepted[0], &info));
    EXPECT(0, strcmp(served_by, info.served_by));

    /* Of what was told nothing is left to be answered. */
    say();
    answer("at once", CLIENTS);
    read_by("at once", CLIENTS);

    say();
    answer("before a look", FEW);
    EXPECT(1, ob_poll(queue, &event, 1) >= 0);
    read_by("before a look", FEW);

    say();
    answer("before a sleep", FEW);
    EXPECT(1, ob_arm(queue) >= -1);
    read_by("before a sleep", FEW);
    ob_disarm(queue);

    /* What is kept is its parent's to send. */
    say();
    answer("once", FEW);
    child = fork();
    if (child == 0) {
        ob_queue_free(queue);
        ob_detach(context);
        _exit(0);
    }
    EXPECT(child, waitpid(child, &status, 0));
    EXPECT(0, status);
    EXPECT(1, ob_poll(queue, &event, 1) >= 0);
    read_by("once", FEW);

    say();
    answer("to the end", CLIENTS);
    EXPECT(0, ob_shutdown(queue, accepted[0], SHUT_WR));
    EXPECT(0, ob_close(queue, accepted[1]));
    ob_queue_free(queue);
    ob_detach(context);
    for (at = 0; at < CLIENTS; at++) {
        char bytes[16];
        EXPECT(10, recv(clients[at], bytes, 10, MSG_WAITALL));
        EXPECT(0, memcmp(bytes, "to the end", 10));
        EXPECT(0, recv(clients[at], &byte, 1, 0));
        EXPECT(0, close(clients[at]));
    }
}

int main(void)
{
    ob_context *context;
    int refused;
    EXPECT(-EINVAL, ob_attach(&context, NULL, NULL, OB_KERNEL | OB_BY_EPOLL | OB_BY_IO_URING));
    EXPECT(-EINVAL, ob_attach(&context, NULL, NULL, OB_KERNEL | 0x40));
    serves(OB_BY_EPOLL, "kernel, epoll");
    refused = ob_attach(&context, NULL, NULL, OB_KERNEL | OB_BY_IO_URING);
    if (!refused) {
        ob_detach(context);
        serves(OB_BY_IO_URING, "kernel, io_uring");
    }
    /* Where it is not there it is one of these. */
    EXPECT(1, !refused || refused == -ENOSYS || refused == -EPERM || refused == -EINVAL);
    puts("all as outboard.h says");
    return 0;
}
