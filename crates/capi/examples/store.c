/*
 * A key-value store that speaks memcached's text protocol, on the engine or on the kernel:
 *
 *   cc -o store store.c -loutboard && ./store 0.0.0.0 11211
 *
 * It knows get gets set add replace append prepend cas delete incr decr touch flush_all version quit.
 * What does not fit into its memory is refused; nothing is evicted. The items are in items.h.
 */
#include <outboard.h>

#include "items.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define ANSWERS (64 << 10) /* bytes of answers that may wait before a further command */

struct client {
    ob_handle handle;
    char in[8192]; /* what came and was not understood yet: from..to */
    size_t from, to;
    char *out; /* answers: sent..made */
    size_t sent, made, room;
    struct storing storing;
    char getting; /* t or s: the keys of a get or gets follow */
    int quiet, ended;
};

static void die(const char *what, int result)
{
    fprintf(stderr, "%s: %s\n", what, strerror(-result));
    exit(1);
}

static void answer(struct client *client, const char *bytes, size_t len)
{
    if (client->made + len > client->room) {
        size_t room = (client->made + len) * 2;
        char *out = realloc(client->out, room);
        if (!out) {
            client->ended = 1;
            return;
        }
        client->out = out;
        client->room = room;
    }
    memcpy(client->out + client->made, bytes, len);
    client->made += len;
}

static void say(struct client *client, const char *line)
{
    if (line && !client->quiet) {
        answer(client, line, strlen(line));
        answer(client, "\r\n", 2);
    }
}

/* The next key of a get, as soon as all of it is there. 0: it is not. */
static int get(struct client *client)
{
    char line[LONGEST_KEY + 80], *key;
    struct item *item;
    size_t len;
    while (client->from < client->to && client->in[client->from] == ' ')
        client->from++;
    key = client->in + client->from;
    for (len = 0; client->from + len < client->to && !strchr(" \r\n", key[len]); len++)
        ;
    if (len > LONGEST_KEY) {
        say(client, "CLIENT_ERROR bad command line format");
        client->ended = 1;
        return 0;
    }
    if (client->from + len == client->to)
        return 0;
    if (len == 0) {
        if (*key == '\n') {
            answer(client, "END\r\n", 5);
            client->getting = 0;
        }
        client->from++;
        return 1;
    }
    client->from += len; /* what ends the key stays, for it may be the end of the line */
    line[0] = key[len];
    key[len] = 0;
    item = *find(key);
    key[len] = line[0];
    if (item) {
        int made = sprintf(line, "VALUE %s %" PRIu32 " %zu", item->key, item->flags, item->len);
        if (client->getting == 's')
            made += sprintf(line + made, " %" PRIu64, item->unique);
        answer(client, line, (size_t)made);
        answer(client, "\r\n", 2);
        answer(client, item->value, item->len + 2);
    }
    return 1;
}

/* Understands a piece of what came. 0: there is not enough of it. */
static int step(struct client *client)
{
    struct storing *storing = &client->storing;
    char *in = client->in + client->from, *words[8], *end;
    size_t len = client->to - client->from;
    int count = 0;
    if (storing->skipping > 0) {
        if (len > storing->skipping)
            len = storing->skipping;
        storing->skipping -= len;
        client->from += len;
        return len > 0;
    }
    if (storing->item) {
        size_t lacking = storing->item->len + 2 - storing->filled;
        if (len > lacking)
            len = lacking; /* 0: it was received where it stays */
        memcpy(storing->item->value + storing->filled, in, len);
        storing->filled += len;
        client->from += len;
        if (len == lacking)
            say(client, store(storing));
        return len == lacking;
    }
    if (client->getting)
        return get(client);
    if (len > 5 && (!memcmp(in, "get ", 4) || !memcmp(in, "gets ", 5))) {
        client->quiet = 0;
        client->getting = in[3] == 's' ? 's' : 't';
        client->from += client->getting == 's' ? 4 : 3;
        return 1;
    }
    if (!(end = memchr(in, '\n', len))) {
        client->ended |= len == sizeof client->in;
        return 0;
    }
    client->from += (size_t)(end - in) + 1;
    *end = 0;
    for (in = strtok(in, " \r"); in && count < 8; in = strtok(NULL, " \r"))
        words[count++] = in;
    if (flush_at && flush_at <= time(NULL))
        flush_all();
    client->quiet = count > 1 && !strcmp(words[count - 1], "noreply");
    count -= client->quiet;
    if (count && !strcmp(words[0], "quit"))
        client->ended = 1;
    else
        say(client, execute(storing, words, count));
    return !client->ended;
}

/* Does all there is to do. 0: the connection is done. */
static int serve(ob_queue *queue, struct client *client)
{
    for (;;) {
        int more = 1;
        ssize_t moved;
        while (!client->ended && client->made < ANSWERS && (more = step(client)))
            ;
        while (client->sent < client->made) {
            moved = ob_send(queue, client->handle, client->out + client->sent,
                            client->made - client->sent, 0, 0);
            if (moved == -EAGAIN)
                return 1; /* OB_ROOM comes */
            if (moved < 0)
                return 0;
            client->sent += (size_t)moved;
        }
        client->sent = client->made = 0;
        if (client->ended)
            return 0;
        if (more)
            continue;
        if (client->storing.item && client->from == client->to) {
            /* A value is received where it stays. */
            struct storing *storing = &client->storing;
            moved = ob_recv(queue, client->handle, storing->item->value + storing->filled,
                            storing->item->len + 2 - storing->filled, 0);
            if (moved > 0) {
                storing->filled += (size_t)moved;
                continue;
            }
        } else {
            memmove(client->in, client->in + client->from, client->to - client->from);
            client->to -= client->from;
            client->from = 0;
            moved = ob_recv(queue, client->handle, client->in + client->to,
                            sizeof client->in - client->to, 0);
        }
        if (moved == -EAGAIN)
            return 1; /* OB_RECEIVE comes */
        if (moved <= 0)
            return 0;
        client->to += (size_t)moved;
    }
}

static void accept_all(ob_queue *queue, ob_handle listener)
{
    for (;;) {
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
        fprintf(stderr, "usage: store ADDRESS PORT\n");
        return 2;
    }
    address.sin_port = htons((uint16_t)atoi(words[2]));
    if ((result = ob_attach(&context, NULL, "store", OB_ANY)) < 0)
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
                free_item(client->storing.item);
                free(client->out);
                free(client);
                break;
            }
        }
    }
}
