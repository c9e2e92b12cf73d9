/*
 * What outboard.h says of sends of many parts, of buffers that are full and of connections that are reset.
 *
 *   ends any|kernel ADDRESS PORT OFFLOADED
 *
 * The peer takes connections in pairs, and does to the first what single bytes on the second say: 'h' ends its
 * direction, 'r' resets it, 'd' reads all of it, 'p' does nothing. It answers each of them by one byte, and
 * others not at all.
 * OFFLOADED is 1 if the engine is to have the connections. Ends with 0 if all is as outboard.h says.
 */
#define _GNU_SOURCE
#include "expect.h"
#include "outboard.h"
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HANG_MS 60000
#define VICTIM 1
#define CONTROL 2
#define SENDS 100

static ob_queue *queue;
static place address;
static unsigned char piece[1 << 16];
/* Of the victim: sends that came back without an error, then with which, and how it ended. */
static int done, failed, sent_error, ended, end_error;

/* What is tried. */
static const char *stage;

static void fresh(void)
{
    done = failed = sent_error = ended = 0;
    end_error = -1;
}

/* Takes one event of the queue and remembers what it says of the victim; its kind. */
static uint32_t next(ob_event *event)
{
    int taken = ob_wait(queue, event, 1, HANG_MS);
    if (taken != 1)
        fprintf(stderr, "at %s: %d came back, %d with an error, %d ends\n", stage, done, failed, ended);
    EXPECT(1, taken);
    if (event->cookie == VICTIM && event->kind == OB_END) {
        ended++;
        end_error = event->error;
    }
    if (event->kind == OB_SENT && event->cookie >= SENDS) {
        /* In the order of the stream: after the first that failed all have. */
        EXPECT(1, event->error || !failed);
        done += !event->error;
        failed += !!event->error;
        sent_error = event->error;
    }
    return event->kind;
}

static ob_event until(uint32_t kind, uint64_t cookie)
{
    ob_event event;
    while (next(&event) != kind || event.cookie != cookie)
        ;
    return event;
}

static ob_handle reach(uint64_t cookie, int offloaded)
{
    ob_handle made;
    ob_info info;
    EXPECT(0, ob_connect(queue, &address.any, len_of(&address), NULL, 0, cookie, &made));
    EXPECT(0, until(OB_OPEN, cookie).error);
    EXPECT(0, ob_get_info(queue, made, &info));
    EXPECT(offloaded, info.offloaded);
    EXPECT(offloaded, !info.why_not[0]);
    return made;
}

/* Has the peer do something, and waits until it has. */
static void command(ob_handle control, const char *what)
{
    char answer;
    EXPECT(1, ob_send(queue, control, what, 1, 0, 0));
    while (ob_recv(queue, control, &answer, 1, 0) != 1)
        until(OB_RECEIVE, CONTROL);
}

/* Sends until there is no room; how many sends that were. */
static int fill(ob_handle victim)
{
    int sends = 0;
    ssize_t taken;
    while ((taken = ob_send(queue, victim, piece, sizeof piece, OB_ASYNC,
                            SENDS + (uint64_t)sends)) > 0)
        sends++;
    EXPECT(-EAGAIN, taken);
    return sends;
}

/* All that was under way has come back, the last of it with this error, and the end says the same. */
static void expect_end(int sends, int error)
{
    ob_event event;
    while (!ended || done + failed < sends)
        next(&event);
    EXPECT(1, ended);
    EXPECT(error, end_error);
    EXPECT(sends, done + failed);
    EXPECT(1, failed > 0);
    EXPECT(error, sent_error);
}

/* What is sent from. */
struct ways {
    ob_memory *memory;
    ob_file *file;
    int fd;
};

static const char *const kinds[] = { "a copy", "registered memory", "pieces of it", "a registered file",
                                     "a file", "a room" };
#define KINDS 6

static ssize_t send_by(int kind, ob_handle victim, const struct ways *ways)
{
    ob_piece pieces[2] = { { ways->memory, 0, 1 }, { ways->memory, 1, 1 } };
    ob_span room;
    int lent;
    switch (kind) {
    case 0:
        return ob_send(queue, victim, ".", 1, 0, 0);
    case 1:
        return ob_send_registered(queue, victim, ways->memory, 0, 1, OB_ASYNC, 9);
    case 2:
        return ob_sendv_registered(queue, victim, pieces, 2, OB_ASYNC, 9);
    case 3:
        return ob_send_registered_file(queue, victim, ways->file, 0, 1, OB_ASYNC, 9);
    case 4:
        return ob_send_file(queue, victim, ways->fd, 0, 1, 0, 0);
    default:
        lent = ob_room(queue, victim, 1, &room);
        return lent ? lent : ob_commit(queue, room.id, 1, 0, 0);
    }
}

/* Who only sends, and takes no events, is told of a reset by the send, of whatever kind. */
static void resets_of_each_kind(ob_context *context, int offloaded)
{
    struct ways ways;
    int kind;
    ways.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    EXPECT(0, ob_register(context, 100, &ways.memory));
    EXPECT(0, ob_register_file(context, ways.fd, &ways.file));
    for (kind = 0; kind < KINDS; kind++) {
        ob_handle victim = reach(VICTIM, offloaded), control = reach(CONTROL, offloaded);
        ssize_t result;
        stage = kinds[kind];
        fresh();
        fill(victim);
        EXPECT(1, ob_send(queue, control, "r", 1, 0, 0));
        /* A little may still find room. */
        while ((result = send_by(kind, victim, &ways)) == -EAGAIN || result >= 0)
            ;
        EXPECT(-ECONNRESET, result);
        EXPECT(-EPIPE, send_by(kind, victim, &ways));
        EXPECT(0, ob_close(queue, victim));
        EXPECT(0, ob_close(queue, control));
    }
    EXPECT(0, ob_unregister(ways.memory));
    ob_unregister_file(ways.file);
    close(ways.fd);
}

static void resets(int offloaded)
{
    static const char *const turns[] = { "a reset", "a reset and a send", "a reset and a receive",
                                         "a reset after the peer's end" };
    char byte = '.';
    int turn;
    for (turn = 0; turn < 4; turn++) {
        ob_handle victim = reach(VICTIM, offloaded), control = reach(CONTROL, offloaded);
        int sends, error = turn == 3 ? EPIPE : ECONNRESET;
        stage = turns[turn];
        fresh();
        if (turn == 3) {
            command(control, "h");
            while (ob_recv(queue, victim, &byte, 1, 0) != 0)
                until(OB_RECEIVE, VICTIM);
        }
        sends = fill(victim);
        /* Nobody looks at the events before it is reset. */
        EXPECT(1, ob_send(queue, control, "r", 1, 0, 0));
        if (turn == 1 || turn == 3) {
            ssize_t result;
            /* A little may still find room. */
            while ((result = ob_send(queue, victim, &byte, 1, 0, 0)) == -EAGAIN || result == 1)
                ;
            EXPECT(-error, result);
        } else if (turn == 2) {
            ssize_t result;
            while ((result = ob_recv(queue, victim, &byte, 1, 0)) == -EAGAIN)
                ;
            EXPECT(-ECONNRESET, result);
        }
        expect_end(sends, error);
        EXPECT(-EPIPE, ob_send(queue, victim, &byte, 1, 0, 0));
        EXPECT(-error, ob_recv(queue, victim, &byte, 1, 0));
        EXPECT(-error, ob_recv(queue, victim, &byte, 1, 0));
        EXPECT(0, ob_close(queue, victim));
        EXPECT(0, ob_close(queue, control));
    }
}

/* Of what is closed nothing is told any more. */
static void closes(int offloaded)
{
    ob_handle victim = reach(VICTIM, offloaded), control = reach(CONTROL, offloaded);
    ob_event event;
    int answers = 0;
    char answer;
    fresh();
    fill(victim);
    EXPECT(1, ob_send(queue, control, "r", 1, 0, 0));
    /* One of many that have happened is taken. */
    do
        next(&event);
    while (event.handle != victim);
    EXPECT(0, ob_close(queue, victim));
    EXPECT(1, ob_send(queue, control, "p", 1, 0, 0));
    while (answers < 2) {
        ssize_t result = ob_recv(queue, control, &answer, 1, 0);
        if (result == 1) {
            answers++;
            continue;
        }
        EXPECT(-EAGAIN, result);
        EXPECT(1, ob_wait(queue, &event, 1, HANG_MS));
        EXPECT(1, event.handle != victim);
    }
    while (ob_poll(queue, &event, 1) == 1)
        EXPECT(1, event.handle != victim);
    EXPECT(0, ob_close(queue, control));
}

/* A buffer that is posted when the peer has ended its direction, and when both have ended, comes back empty. */
static void posts_at_the_end(ob_context *context, int offloaded)
{
    ob_handle victim = reach(VICTIM, offloaded), control = reach(CONTROL, offloaded);
    ob_memory *memory;
    ob_event event;
    char byte;
    int turn;
    EXPECT(0, ob_register(context, 100, &memory));
    command(control, "h");
    while (ob_recv(queue, victim, &byte, 1, 0) != 0)
        until(OB_RECEIVE, VICTIM);
    fresh();
    for (turn = 0; turn < 2; turn++) {
        EXPECT(0, ob_post(queue, victim, memory, 0, 100, 20));
        event = until(OB_FILLED, 20);
        EXPECT(0, event.bytes);
        EXPECT(0, event.error);
        if (turn)
            break;
        EXPECT(0, ob_shutdown(queue, victim, SHUT_WR));
        while (!ended)
            next(&event);
        EXPECT(0, end_error);
    }
    EXPECT(0, ob_unregister(memory));
    EXPECT(0, ob_close(queue, victim));
    EXPECT(0, ob_close(queue, control));
}

/* What has no room is not taken, and what was comes back as one. */
static void parts(int offloaded)
{
    ob_handle victim = reach(VICTIM, offloaded), control = reach(CONTROL, offloaded);
    struct iovec many[1024];
    ssize_t taken;
    int at;
    for (at = 0; at < 1024; at++) {
        many[at].iov_base = piece;
        many[at].iov_len = sizeof piece;
    }
    taken = ob_sendv(queue, victim, many, 1024, OB_ASYNC, 7);
    EXPECT(1, taken > 0 && taken < 1024 * (ssize_t)sizeof piece);
    EXPECT(1, ob_send(queue, control, "d", 1, 0, 0));
    EXPECT(taken, until(OB_SENT, 7).bytes);
    many[1].iov_len = 0;
    many[0].iov_len = 3;
    EXPECT(3, ob_sendv(queue, control, many, 2, OB_ASYNC, 8));
    EXPECT(3, until(OB_SENT, 8).bytes);
    EXPECT(0, ob_sendv(queue, control, NULL, 0, 0, 0));
    EXPECT(-EINVAL, ob_sendv(queue, control, NULL, 1, 0, 0));
    EXPECT(-EINVAL, ob_sendv(queue, control, many, -1, 0, 0));
    many[0].iov_len = many[1].iov_len = (size_t)-1 / 2;
    EXPECT(-EINVAL, ob_sendv(queue, control, many, 2, 0, 0));
    EXPECT(0, ob_close(queue, victim));
    EXPECT(0, ob_close(queue, control));
}

/* Registered memory: gathered, sent and changed at once, and given back. */
static void pieces(ob_context *context, int offloaded)
{
    ob_handle victim = reach(VICTIM, offloaded), control = reach(CONTROL, offloaded);
    ob_memory *one, *two;
    ob_piece both[2];
    EXPECT(-ENOBUFS, ob_register(context, (size_t)-1, &one));
    EXPECT(0, ob_register(context, 100, &one));
    EXPECT(0, ob_register(context, 100, &two));
    memset(ob_memory_data(one), '.', 100);
    memset(ob_memory_data(two), '.', 100);
    both[0].memory = one;
    both[0].offset = 90;
    both[0].len = 10;
    both[1].memory = two;
    both[1].offset = 1;
    both[1].len = 99;
    EXPECT(109, ob_sendv_registered(queue, victim, both, 2, OB_ASYNC, 9));
    EXPECT(-EBUSY, ob_unregister(one));
    EXPECT(-EBUSY, ob_unregister(two));
    EXPECT(109, until(OB_SENT, 9).bytes);
    /* Synchronous: it may be changed, and given back, at once. */
    EXPECT(109, ob_sendv_registered(queue, control, both, 2, 0, 0));
    EXPECT(10, ob_send_registered(queue, control, one, 0, 10, 0, 0));
    memset(ob_memory_data(one), 'r', 100);
    both[1].len = 100;
    EXPECT(-EINVAL, ob_sendv_registered(queue, victim, both, 2, OB_ASYNC, 9));
    EXPECT(-EINVAL, ob_sendv_registered(queue, victim, both, 2, 0, 9));
    EXPECT(-EINVAL, ob_sendv_registered(queue, victim, NULL, 2, 0, 9));
    both[0].memory = NULL;
    EXPECT(-EINVAL, ob_sendv_registered(queue, victim, both, 1, 0, 9));
    EXPECT(0, ob_unregister(one));
    EXPECT(0, ob_unregister(two));
    /* When it has left, which is not later than when it is acknowledged. */
    EXPECT(-EINVAL, ob_send(queue, victim, piece, 10, OB_LEFT, 10));
    EXPECT(10, ob_send(queue, victim, piece, 10, OB_ASYNC | OB_LEFT, 10));
    EXPECT(10, until(OB_SENT, 10).bytes);
    EXPECT(0, ob_close(queue, victim));
    EXPECT(0, ob_close(queue, control));
}

/* While a room is lent nothing else is sent. */
static void rooms(int offloaded)
{
    ob_handle victim = reach(VICTIM, offloaded), control = reach(CONTROL, offloaded);
    ob_span room, other;
    EXPECT(0, ob_room(queue, control, 10, &room));
    EXPECT(-EBUSY, ob_room(queue, control, 10, &other));
    EXPECT(-EBUSY, ob_send(queue, control, ".", 1, 0, 0));
    EXPECT(0, ob_abandon(queue, room.id));
    EXPECT(0, ob_room(queue, control, 10, &room));
    ((char *)room.data)[0] = '.';
    EXPECT(0, ob_commit(queue, room.id, 1, 0, 0));
    EXPECT(1, ob_send(queue, control, ".", 1, 0, 0));
    EXPECT(0, ob_close(queue, victim));
    EXPECT(0, ob_close(queue, control));
}

int main(int count, char **words)
{
    place here;
    ob_context *context;
    ob_handle listener;
    ob_info info;
    int kernel, offloaded, why;
    if (count != 5)
        return 2;
    kernel = !strcmp(words[1], "kernel");
    offloaded = words[4][0] == '1';
    memset(piece, '.', sizeof piece);
    read_place(&address, words[2], words[3]);
    EXPECT(0, ob_attach(&context, NULL, "ends", kernel ? OB_KERNEL : OB_ANY));
    EXPECT(-EINVAL, ob_why_detached(NULL));
    why = ob_why_detached(context);
    if (kernel)
        EXPECT(-EOPNOTSUPP, why);
    else if (offloaded)
        EXPECT(0, why);
    else
        EXPECT(1, why == -ENOENT || why == -ECONNREFUSED);
    EXPECT(0, ob_queue_new(context, &queue));
    memset(&here, 0, sizeof here);
    here.any.sa_family = address.any.sa_family;
    *port_of(&here) = htons(7777);
    EXPECT(0, ob_listen(queue, &here.any, len_of(&here), 4, 0, &listener));
    EXPECT(0, ob_get_info(queue, listener, &info));
    EXPECT(offloaded, info.offloaded);
    EXPECT(offloaded, !info.why_not[0]);
    EXPECT(0, info.unread);
    resets(offloaded);
    resets_of_each_kind(context, offloaded);
    stage = "what is closed";
    closes(offloaded);
    stage = "what is posted at the end";
    posts_at_the_end(context, offloaded);
    stage = "many parts";
    parts(offloaded);
    stage = "registered memory";
    pieces(context, offloaded);
    stage = "rooms";
    rooms(offloaded);
    ob_queue_free(queue);
    ob_detach(context);
    puts("all as outboard.h says");
    return 0;
}
