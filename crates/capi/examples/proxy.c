/*
 * A proxy: what a client sends goes to a server, and back, on the engine or on the kernel:
 *
 *   cc -o proxy proxy.c -loutboard && ./proxy 0.0.0.0 8080 192.0.2.7 80
 *
 * Bytes are looked at where they arrived and given back when the other side has taken them, so that a
 * side that does not read holds up the other one, and nothing is kept here. Either side may end its
 * direction and go on reading.
 */
#include <outboard.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PIECE (64 << 10) /* bytes that are looked at at once */

struct pair;

struct side {
    struct pair *pair;
    struct side *other;
    ob_handle handle;
    ob_span view; /* what came here and the other side has not taken yet: from..view.len */
    size_t from;
    int open, read_all, ended;
};

struct pair {
    struct side client, server;
    int over;
    struct pair *next; /* of those that are over */
};

static ob_queue *queue;
static struct pair *over;

static void die(const char *what, int result)
{
    fprintf(stderr, "%s: %s\n", what, strerror(-result));
    exit(1);
}

/* Ends both connections, with a reset if one failed. Events that were taken may still name the pair,
 * so it is freed after them. */
static void end(struct pair *pair, int failed)
{
    struct side *sides[2] = { &pair->client, &pair->server };
    int at;
    if (pair->over)
        return;
    for (at = 0; at < 2; at++) {
        if (failed)
            ob_set(queue, sides[at]->handle, OB_RESET_ON_CLOSE, 1);
        ob_close(queue, sides[at]->handle);
    }
    pair->over = 1;
    pair->next = over;
    over = pair;
}

/* Moves what came on one side to the other, as far as that takes it. */
static void move(struct side *from)
{
    struct side *to = from->other;
    while (from->open && to->open && !from->read_all) {
        ssize_t moved;
        int shown;
        if (from->from < from->view.len) {
            moved = ob_send(queue, to->handle, (char *)from->view.data + from->from,
                            from->view.len - from->from, 0, 0);
            if (moved == -EAGAIN)
                return; /* OB_ROOM comes */
            if (moved < 0) {
                end(from->pair, 1);
                return;
            }
            from->from += (size_t)moved;
            if (from->from < from->view.len)
                continue;
            ob_release(queue, from->view.id);
        }
        from->view.len = from->from = 0;
        shown = ob_view(queue, from->handle, PIECE, &from->view);
        if (shown == -EAGAIN)
            return; /* OB_RECEIVE comes */
        if (shown < 0) {
            end(from->pair, 1);
            return;
        }
        if (shown == 0) {
            from->read_all = 1;
            ob_shutdown(queue, to->handle, SHUT_WR);
        }
    }
    if (from->read_all && to->read_all && from->ended && to->ended)
        end(from->pair, 0);
}

static void accept_all(ob_handle listener, const struct sockaddr_in *server)
{
    static const ob_setting settings[] = { { OB_NODELAY, 1 } };
    for (;;) {
        struct pair *pair = calloc(1, sizeof *pair);
        int result = pair ? ob_accept(queue, listener, (uintptr_t)&pair->client,
                                      &pair->client.handle)
                          : -ENOMEM;
        if (result < 0) {
            free(pair);
            if (result != -EAGAIN)
                fprintf(stderr, "ob_accept: %s\n", strerror(-result));
            return;
        }
        pair->client.pair = pair->server.pair = pair;
        pair->client.other = &pair->server;
        pair->server.other = &pair->client;
        pair->client.open = 1;
        result = ob_connect(queue, (const struct sockaddr *)server, sizeof *server, settings, 1,
                            (uintptr_t)&pair->server, &pair->server.handle);
        if (result < 0) {
            fprintf(stderr, "ob_connect: %s\n", strerror(-result));
            end(pair, 1);
        }
    }
}

static void happened(const ob_event *event)
{
    struct side *side = (struct side *)(uintptr_t)event->cookie;
    if (side->pair->over)
        return;
    if (event->error) {
        end(side->pair, 1);
        return;
    }
    side->open |= event->kind == OB_OPEN;
    side->ended |= event->kind == OB_END;
    move(side);
    if (!side->pair->over)
        move(side->other);
}

static void parse(struct sockaddr_in *address, const char *host, const char *port)
{
    memset(address, 0, sizeof *address);
    address->sin_family = AF_INET;
    address->sin_port = htons((uint16_t)atoi(port));
    if (inet_pton(AF_INET, host, &address->sin_addr) != 1)
        die(host, -EINVAL);
}

int main(int count, char **words)
{
    struct sockaddr_in address, server;
    ob_context *context;
    ob_handle listener;
    int result;
    if (count != 5) {
        fprintf(stderr, "usage: proxy ADDRESS PORT SERVER-ADDRESS SERVER-PORT\n");
        return 2;
    }
    parse(&address, words[1], words[2]);
    parse(&server, words[3], words[4]);
    if ((result = ob_attach(&context, NULL, "proxy", OB_ANY)) < 0)
        die("ob_attach", result);
    if ((result = ob_queue_new(context, &queue)) < 0)
        die("ob_queue_new", result);
    result = ob_listen(queue, (struct sockaddr *)&address, sizeof address, 1024, 0, &listener);
    if (result < 0)
        die("ob_listen", result);
    if ((result = ob_set(queue, listener, OB_NODELAY, 1)) < 0)
        die("ob_set", result);
    for (;;) {
        ob_event events[64];
        int at, taken = ob_wait(queue, events, 64, -1);
        if (taken < 0 && taken != -EINTR)
            die("ob_wait", taken);
        for (at = 0; at < taken; at++) {
            if (events[at].kind == OB_ACCEPT)
                accept_all(listener, &server);
            else
                happened(&events[at]);
        }
        while (over) {
            struct pair *pair = over;
            over = pair->next;
            free(pair);
        }
    }
}
