/*
 * An echo server whose loop is its own: poll(2) waits for the library and for what else there is, here for
 * datagrams on the same port, each of which is answered by how many bytes were echoed.
 *
 *   cc -o loop loop.c -loutboard && ./loop 0.0.0.0 7000
 */
#include <outboard.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static ob_queue *queue;
static ob_handle listener;
static unsigned long long echoed;

static int check(const char *what, int result)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(-result));
        exit(1);
    }
    return result;
}

/* Echoes as much as there is and fits. What does not fit stays where it is until OB_ROOM. */
static void serve(ob_handle connection)
{
    char bytes[16384];
    for (;;) {
        ssize_t there = ob_recv(queue, connection, bytes, sizeof bytes, OB_PEEK), sent;
        if (there == -EAGAIN)
            return;
        sent = there > 0 ? ob_send(queue, connection, bytes, (size_t)there, 0, 0) : there;
        if (sent == -EAGAIN)
            return;
        if (sent <= 0) {
            ob_shutdown(queue, connection, SHUT_RDWR);
            return;
        }
        ob_recv(queue, connection, bytes, (size_t)sent, 0);
        echoed += (unsigned long long)sent;
    }
}

/* Does what has happened in the queue, all of it. */
static void take(void)
{
    ob_event events[64];
    ob_handle accepted;
    int at, taken;
    while ((taken = check("ob_poll", ob_poll(queue, events, 64))) > 0)
        for (at = 0; at < taken; at++)
            if (events[at].kind == OB_ACCEPT)
                while (ob_accept(queue, listener, 0, &accepted) == 0)
                    ;
            else if (events[at].kind == OB_END)
                ob_close(queue, events[at].handle);
            else
                serve(events[at].handle);
}

static void answer(int datagrams)
{
    struct sockaddr_storage from;
    socklen_t len = sizeof from;
    char bytes[64];
    if (recvfrom(datagrams, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &len) >= 0) {
        int count = snprintf(bytes, sizeof bytes, "%llu", echoed);
        sendto(datagrams, bytes, (size_t)count, 0, (struct sockaddr *)&from, len);
    }
}

int main(int count, char **words)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    struct sockaddr *const at = (struct sockaddr *)&address;
    struct pollfd waits[2] = { { .events = POLLIN }, { .events = POLLIN } };
    ob_context *context;
    if (count != 3 || inet_pton(AF_INET, words[1], &address.sin_addr) != 1) {
        fprintf(stderr, "usage: loop ADDRESS PORT\n");
        return 2;
    }
    address.sin_port = htons((uint16_t)atoi(words[2]));
    check("ob_attach", ob_attach(&context, NULL, "loop", OB_ANY));
    check("ob_queue_new", ob_queue_new(context, &queue));
    check("ob_listen", ob_listen(queue, at, sizeof address, 1024, 0, &listener));
    waits[0].fd = ob_queue_fd(queue);
    waits[1].fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (waits[1].fd < 0 || bind(waits[1].fd, at, sizeof address) < 0)
        check("bind", -errno);
    for (;;) {
        /* -1 is no error: it is "as long as you like". */
        int limit = ob_arm(queue);
        if (limit < -1)
            check("ob_arm", limit);
        if (poll(waits, 2, limit) < 0 && errno != EINTR)
            check("poll", -errno);
        ob_disarm(queue);
        take();
        if (waits[1].revents)
            answer(waits[1].fd);
    }
}
