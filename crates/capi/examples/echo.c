/*
 * An echo server on the engine, or on the kernel where there is none:
 *
 *   cc -o echo echo.c -loutboard && ./echo 0.0.0.0 7000
 */
#include <outboard.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* What a connection has received and could not send yet. */
struct client {
    ob_handle handle;
    unsigned char bytes[16384];
    size_t from, to;
    int ended;
};

static void die(const char *what, int result)
{
    fprintf(stderr, "%s: %s\n", what, strerror(-result));
    exit(1);
}

/* Echoes as much as there is and fits. 0: the connection is done. */
static int serve(ob_queue *queue, struct client *client)
{
    for (;;) {
        ssize_t moved;
        while (client->from < client->to) {
            moved = ob_send(queue, client->handle, client->bytes + client->from,
                            client->to - client->from, 0, 0);
            if (moved == -EAGAIN)
                return 1; /* OB_ROOM comes */
            if (moved < 0)
                return 0;
            client->from += (size_t)moved;
        }
        if (client->ended)
            return 0;
        moved = ob_recv(queue, client->handle, client->bytes, sizeof client->bytes, 0);
        if (moved == -EAGAIN)
            return 1; /* OB_RECEIVE comes */
        if (moved < 0)
            return 0;
        client->ended = moved == 0;
        client->from = 0;
        client->to = (size_t)moved;
    }
}

static void accept_all(ob_queue *queue, ob_handle listener)
{
    for (;;) {
        /* Its address is the cookie of its events. */
        struct client *client = calloc(1, sizeof *client);
        int result = client ? ob_accept(queue, listener, (uintptr_t)client, &client->handle)
                            : -ENOMEM;
        if (result < 0) {
            free(client);
            if (result != -EAGAIN)
                fprintf(stderr, "ob_accept: %s\n", strerror(-result));
            return;
        }
    }
}

int main(int count, char **words)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    ob_context *context;
    ob_queue *queue;
    ob_handle listener;
    int result;
    if (count != 3 || inet_pton(AF_INET, words[1], &address.sin_addr) != 1) {
        fprintf(stderr, "usage: echo ADDRESS PORT\n");
        return 2;
    }
    address.sin_port = htons((uint16_t)atoi(words[2]));
    if ((result = ob_attach(&context, NULL, "echo", OB_ANY)) < 0)
        die("ob_attach", result);
    if ((result = ob_queue_new(context, &queue)) < 0)
        die("ob_queue_new", result);
    result = ob_listen(queue, (struct sockaddr *)&address, sizeof address, 1024, 0, &listener);
    if (result < 0)
        die("ob_listen", result);
    printf("echoing, %s\n", ob_is_attached(context) ? "on the engine" : "on the kernel");
    fflush(stdout);
    for (;;) {
        ob_event events[64];
        int at, taken = ob_wait(queue, events, 64, -1);
        if (taken < 0 && taken != -EINTR)
            die("ob_wait", taken);
        for (at = 0; at < taken; at++) {
            struct client *client = (struct client *)(uintptr_t)events[at].cookie;
            switch (events[at].kind) {
            case OB_ACCEPT:
                accept_all(queue, listener);
                break;
            case OB_RECEIVE:
            case OB_ROOM:
                /* A connection that is done stays until its end is told. */
                if (!serve(queue, client))
                    ob_shutdown(queue, client->handle, SHUT_RDWR);
                break;
            case OB_END:
                ob_close(queue, client->handle);
                free(client);
                break;
            }
        }
    }
}
