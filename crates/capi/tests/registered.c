/*
 * How long registered memory is in use, and how a program is told when it is free, on a connection to a peer that
 * echoes and on one from within the machine, which the kernel has in any case.
 *
 *   registered connect any|engine|kernel ADDRESS PORT OFFLOADED
 *
 * Ends with 0, and "all as outboard.h says", if it is.
 */
#define _GNU_SOURCE
#include "expect.h"
#include "outboard.h"
#include "place.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define HANG_MS 60000
#define LEN ((size_t)20000)

static ob_queue *queue;

/* What is told besides: none of it is wanted here. */
static void handle(const ob_event *event)
{
    EXPECT(0, event->error);
}

static ob_event until(uint32_t kind, uint64_t cookie)
{
    ob_event event;
    for (;;) {
        EXPECT(1, ob_wait(queue, &event, 1, HANG_MS));
        if (event.kind == kind && event.cookie == cookie)
            return event;
        handle(&event);
    }
}

#define MINE 70

/* Sends from registered memory, and waits until it may change. */
static ssize_t send_and_wait(ob_queue *queue, ob_handle to, const ob_memory *memory, size_t offset, size_t len)
{
    ob_event event;
    ssize_t taken = ob_send_registered(queue, to, memory, offset, len, OB_ASYNC, MINE);
    while (taken > 0) {
        int got = ob_wait(queue, &event, 1, -1);
        if (got < 0 && got != -EINTR)
            return got;
        if (got == 1 && event.kind == OB_SENT && event.cookie == MINE)
            return event.error ? -event.error : taken;
        if (got == 1)
            handle(&event); /* it does not come again */
    }
    return taken;
}

static void receive(ob_handle connection, char expected, size_t len)
{
    static char out[LEN];
    size_t done = 0, at;
    while (done < len) {
        ssize_t read = ob_recv(queue, connection, out, len - done, 0);
        if (read == -EAGAIN) {
            ob_event event;
            EXPECT(1, ob_wait(queue, &event, 1, HANG_MS));
            continue;
        }
        EXPECT(1, read > 0);
        for (at = 0; at < (size_t)read; at++)
            EXPECT(expected, out[at]);
        done += (size_t)read;
    }
}

/* Told once, of nobody in particular. */
static void is_free(uint64_t cookie)
{
    ob_event event = until(OB_FREE, cookie);
    EXPECT(0, event.error);
    EXPECT(1, event.handle == 0 && event.bytes == 0);
}

static void waits(ob_handle connection, ob_memory *memory)
{
    char *bytes = ob_memory_data(memory);
    size_t sent = 0;
    memset(bytes, 'a', LEN);
    while (sent < LEN) {
        ssize_t more = send_and_wait(queue, connection, memory, sent, LEN - sent);
        EXPECT(1, more > 0);
        memset(bytes + sent, 'b', (size_t)more);
        sent += (size_t)more;
    }
    receive(connection, 'a', LEN);
    EXPECT(-EINVAL, send_and_wait(queue, connection, memory, LEN, 1));
}

static void becomes_free(ob_handle connection, ob_memory *memory)
{
    EXPECT(-EINVAL, ob_tell_when_free(NULL, memory, 1));
    EXPECT(-EINVAL, ob_tell_when_free(queue, NULL, 1));
    EXPECT(0, ob_tell_when_free(queue, memory, 1));
    is_free(1);
    memset(ob_memory_data(memory), 'c', 1000);
    EXPECT(1000, ob_send_registered(queue, connection, memory, 0, 1000, OB_ASYNC | OB_LEFT, 2));
    EXPECT(0, ob_tell_when_free(queue, memory, 3));
    EXPECT(0, until(OB_SENT, 2).error);
    is_free(3);
    receive(connection, 'c', 1000);
    /* It may change now, or go. */
    memset(ob_memory_data(memory), 'd', 1000);
    EXPECT(0, ob_unregister(memory));
}

/* A connection that the kernel has, whoever has made the memory. */
static void within_the_machine(ob_context *context, int family)
{
    char bytes[100], byte;
    place here;
    socklen_t len;
    ob_handle listener, accepted;
    ob_memory *memory;
    ob_info info;
    int client;
    memset(&here, 0, sizeof here);
    here.any.sa_family = (sa_family_t)family;
    len = len_of(&here);
    EXPECT(0, ob_listen(queue, &here.any, len, 4, 5, &listener));
    EXPECT(0, ob_local(queue, listener, &here.any, &len));
    EXPECT(1, inet_pton(family, family == AF_INET ? "127.0.0.1" : "::1", host_of(&here)));
    client = socket(family, SOCK_STREAM, 0);
    EXPECT(0, connect(client, &here.any, len));
    until(OB_ACCEPT, 5);
    EXPECT(0, ob_accept(queue, listener, 6, &accepted));
    EXPECT(0, ob_get_info(queue, accepted, &info));
    EXPECT(0, info.offloaded);
    EXPECT(0, ob_register(context, 100, &memory));
    EXPECT(100, ob_send_registered(queue, accepted, memory, 0, 100, OB_ASYNC, 7));
    EXPECT(-EBUSY, ob_unregister(memory));
    EXPECT(100, recv(client, bytes, 100, MSG_WAITALL));
    EXPECT(0, until(OB_SENT, 7).error);
    /* A buffer of a connection that is closed. */
    EXPECT(0, ob_post(queue, accepted, memory, 0, 100, 8));
    EXPECT(-EBUSY, ob_unregister(memory));
    EXPECT(0, ob_tell_when_free(queue, memory, 9));
    EXPECT(0, ob_close(queue, accepted));
    is_free(9);
    EXPECT(0, ob_unregister(memory));
    EXPECT(0, recv(client, &byte, 1, 0));
    EXPECT(0, close(client));
    EXPECT(0, ob_close(queue, listener));
}

int main(int count, char **words)
{
    ob_handle connection;
    ob_context *context;
    ob_memory *memory;
    ob_info info;
    place address;
    int mode;
    EXPECT(6, count);
    mode = mode_of(words[2]);
    read_place(&address, words[3], words[4]);
    EXPECT(0, ob_attach(&context, NULL, "registered", mode));
    EXPECT(0, ob_queue_new(context, &queue));
    EXPECT(0, ob_connect(queue, &address.any, len_of(&address), NULL, 0, 4, &connection));
    EXPECT(0, until(OB_OPEN, 4).error);
    EXPECT(0, ob_get_info(queue, connection, &info));
    EXPECT(words[5][0] == '1', info.offloaded);
    EXPECT(0, ob_register(context, LEN, &memory));
    waits(connection, memory);
    becomes_free(connection, memory);
    if (mode != OB_ENGINE)
        within_the_machine(context, address.any.sa_family);
    /* What the engine fills is its own until it has let go of the connection. */
    EXPECT(0, ob_register(context, LEN, &memory));
    EXPECT(0, ob_post(queue, connection, memory, 0, LEN, 10));
    EXPECT(0, ob_close(queue, connection));
    EXPECT(0, ob_tell_when_free(queue, memory, 11));
    is_free(11);
    EXPECT(0, ob_unregister(memory));
    ob_queue_free(queue);
    ob_detach(context);
    puts("all as outboard.h says");
    return 0;
}
