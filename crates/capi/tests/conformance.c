/*
 * Every call of outboard.h, on one connection to a peer that echoes.
 *
 *   conformance listen|connect any|engine|kernel ADDRESS PORT OFFLOADED
 *
 * OFFLOADED is 1 if the engine is to have the connection. Ends with 0 if all is as outboard.h says.
 */
#define _GNU_SOURCE
#include "outboard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANG_MS 60000
#define LISTENER 1
#define CONNECTION 2

static ob_queue *queue;
/* Events that were seen and not asked for yet. */
static ob_event seen[4096];
static int seen_count;

static void fail(int line, const char *what, long result)
{
    fprintf(stderr, "conformance.c:%d: %s gives %ld\n", line, what, result);
    exit(1);
}

/* Ends the program unless `call` gives `expected`. */
#define EXPECT(expected, call)                              \
    do {                                                    \
        long result_ = (long)(call);                        \
        if (result_ != (long)(expected))                    \
            fail(__LINE__, #call, result_);                 \
    } while (0)

/* The first event of a kind with a cookie; others are kept. */
static ob_event until(uint32_t kind, uint64_t cookie)
{
    for (;;) {
        int at, count;
        for (at = 0; at < seen_count; at++) {
            if (seen[at].kind == kind && seen[at].cookie == cookie) {
                ob_event found = seen[at];
                memmove(seen + at, seen + at + 1, (size_t)(--seen_count - at) * sizeof found);
                return found;
            }
        }
        if (seen_count > 4000)
            fail(__LINE__, "too many events", kind);
        count = ob_wait(queue, seen + seen_count, 64, HANG_MS);
        if (count == -EINTR)
            continue;
        if (count <= 0) {
            fprintf(stderr, "no event of kind %u with cookie %lu; ", (unsigned)kind,
                    (unsigned long)cookie);
            fail(__LINE__, "ob_wait", count);
        }
        seen_count += count;
    }
}

static unsigned char pattern(size_t at)
{
    return (unsigned char)(at * 7 + at / 251);
}

/* Receives `len` bytes by copying and holds them against the pattern from `from` on. */
static void receive(ob_handle connection, size_t from, size_t len)
{
    static unsigned char out[65536];
    size_t done = 0;
    while (done < len) {
        size_t at, want = len - done < sizeof out ? len - done : sizeof out;
        ssize_t read = ob_recv(queue, connection, out, want, 0);
        if (read == -EAGAIN) {
            until(OB_RECEIVE, CONNECTION);
            continue;
        }
        if (read <= 0)
            fail(__LINE__, "ob_recv", read);
        for (at = 0; at < (size_t)read; at++)
            if (out[at] != pattern(from + done + at))
                fail(__LINE__, "a byte", (long)(from + done + at));
        done += (size_t)read;
    }
}

static void fill(void *to, size_t from, size_t len)
{
    size_t at;
    for (at = 0; at < len; at++)
        ((unsigned char *)to)[at] = pattern(from + at);
}

static void copies(ob_handle connection)
{
    unsigned char bytes[1000], out[10];
    struct iovec parts[3];
    fill(bytes, 0, sizeof bytes);
    EXPECT(1000, ob_send(queue, connection, bytes, sizeof bytes, 0, 0));
    receive(connection, 0, 1000);
    EXPECT(500, ob_send(queue, connection, bytes, 500, OB_MORE, 0));
    EXPECT(500, ob_send(queue, connection, bytes + 500, 500, OB_ASYNC, 71));
    receive(connection, 0, 1000);
    {
        ob_event sent = until(OB_SENT, 71);
        EXPECT(500, sent.bytes);
        EXPECT(0, sent.error);
        EXPECT(1, sent.handle == connection);
    }
    parts[0].iov_base = bytes;
    parts[0].iov_len = 300;
    parts[1].iov_base = bytes + 300;
    parts[1].iov_len = 0;
    parts[2].iov_base = bytes + 300;
    parts[2].iov_len = 700;
    EXPECT(1000, ob_sendv(queue, connection, parts, 3, OB_ASYNC, 72));
    until(OB_SENT, 72);
    while (ob_recv(queue, connection, out, 10, OB_PEEK) != 10)
        until(OB_RECEIVE, CONNECTION);
    receive(connection, 0, 1000);
    EXPECT(-EAGAIN, ob_recv(queue, connection, out, 10, 0));
    EXPECT(0, ob_recv(queue, connection, out, 0, 0));
}

static void registered(ob_context *context, ob_handle connection)
{
    ob_memory *memory;
    size_t len = 300000, sent = 0, shown = 0;
    uint64_t cookies = 100;
    EXPECT(0, ob_register(context, len, &memory));
    EXPECT(len, ob_memory_len(memory));
    fill(ob_memory_data(memory), 5, len);
    EXPECT(-EINVAL, ob_send_registered(queue, connection, memory, len, 1, 0, 0));
    EXPECT(-EINVAL, ob_send_registered(queue, connection, memory, (size_t)-1, 2, 0, 0));
    while (sent < len) {
        ssize_t more = ob_send_registered(queue, connection, memory, sent, len - sent, OB_ASYNC,
                                          cookies);
        if (more == -EAGAIN) {
            until(OB_ROOM, CONNECTION);
            continue;
        }
        if (more <= 0)
            fail(__LINE__, "ob_send_registered", more);
        sent += (size_t)more;
        cookies++;
    }
    /* Looked at where it arrived, two at a time, released in the other order. */
    while (shown < len) {
        ob_span first, second;
        int two;
        size_t at;
        int one = ob_view(queue, connection, len - shown, &first);
        if (one == -EAGAIN) {
            until(OB_RECEIVE, CONNECTION);
            continue;
        }
        EXPECT(1, one);
        two = shown + first.len < len
                  ? ob_view(queue, connection, len - shown - first.len, &second)
                  : -EAGAIN;
        EXPECT(-EBUSY, ob_recv(queue, connection, &at, sizeof at, 0));
        for (at = 0; at < first.len; at++)
            if (((unsigned char *)first.data)[at] != pattern(5 + shown + at))
                fail(__LINE__, "a byte of a view", (long)(shown + at));
        shown += first.len;
        if (two == 1) {
            for (at = 0; at < second.len; at++)
                if (((unsigned char *)second.data)[at] != pattern(5 + shown + at))
                    fail(__LINE__, "a byte of a second view", (long)(shown + at));
            shown += second.len;
            EXPECT(0, ob_release(queue, second.id));
            EXPECT(-EINVAL, ob_release(queue, second.id));
        }
        EXPECT(0, ob_release(queue, first.id));
    }
    while (--cookies >= 100)
        EXPECT(0, until(OB_SENT, cookies).error);
    EXPECT(0, ob_unregister(memory));
}

/* Receives `len` bytes of `memory`, as pattern from 3 on, into buffers of `sizes`. */
static void into_buffers(ob_handle connection, ob_memory *memory, const size_t *sizes, int count,
                         int before)
{
    size_t len = 0, at;
    unsigned char *bytes = (unsigned char *)ob_memory_data(memory), *out;
    unsigned char sent[3000];
    int buffer;
    for (buffer = 0; buffer < count; buffer++)
        len += sizes[buffer];
    out = bytes + 8192;
    memset(out, 0, len);
    for (at = 0; at < len && !before;) {
        size_t piece = len - at < sizeof sent ? len - at : sizeof sent;
        fill(sent, 3 + at, piece);
        EXPECT(piece, ob_send(queue, connection, sent, piece, 0, 0));
        at += piece;
    }
    for (buffer = 0, at = 0; buffer < count; buffer++) {
        EXPECT(0, ob_post(queue, connection, memory, 8192 + at, sizes[buffer],
                          500 + (uint64_t)buffer));
        at += sizes[buffer];
    }
    if (before)
        EXPECT(-EBUSY, ob_unregister(memory));
    for (at = 0; at < len && before;) {
        size_t piece = len - at < sizeof sent ? len - at : sizeof sent;
        ssize_t taken;
        fill(sent, 3 + at, piece);
        taken = ob_send(queue, connection, sent, piece, 0, 0);
        if (taken == -EAGAIN) {
            until(OB_ROOM, CONNECTION);
            continue;
        }
        if (taken <= 0)
            fail(__LINE__, "ob_send", taken);
        at += (size_t)taken;
    }
    for (buffer = 0; buffer < count; buffer++) {
        ob_event filled = until(OB_FILLED, 500 + (uint64_t)buffer);
        EXPECT(0, filled.error);
        EXPECT(sizes[buffer], filled.bytes);
        EXPECT(1, filled.handle == connection);
    }
    for (at = 0; at < len; at++)
        if (out[at] != pattern(3 + at))
            fail(__LINE__, "a byte of a posted buffer", (long)at);
}

static void posted(ob_context *context, ob_handle connection)
{
    size_t some[3] = { 1, 5000, 20000 }, many[2] = { 400000, 600000 };
    unsigned char byte;
    ob_memory *memory;
    ob_span span;
    EXPECT(0, ob_register(context, 1100000, &memory));
    EXPECT(-EINVAL, ob_post(queue, connection, NULL, 0, 1, 0));
    EXPECT(-EINVAL, ob_post(queue, connection, memory, 0, 0, 0));
    EXPECT(-EINVAL, ob_post(queue, connection, memory, 1100000, 1, 0));
    EXPECT(-EINVAL, ob_post(queue, connection, memory, (size_t)-1, 2, 0));
    EXPECT(-EBADF, ob_post(queue, 0, memory, 0, 1, 0));
    /* What comes before it is posted, and after. */
    into_buffers(connection, memory, some, 3, 0);
    into_buffers(connection, memory, some, 3, 1);
    into_buffers(connection, memory, many, 2, 1);
    /* Progress, in units. */
    EXPECT(0, ob_set(queue, connection, OB_RECEIVE_UNIT, 10));
    EXPECT(0, ob_post(queue, connection, memory, 0, 30, 600));
    EXPECT(-EBUSY, ob_recv(queue, connection, &byte, 1, 0));
    EXPECT(-EBUSY, ob_view(queue, connection, 1, &span));
    EXPECT(9, ob_send(queue, connection, "012345678", 9, 0, 0));
    EXPECT(6, ob_send(queue, connection, "9abcde", 6, 0, 0));
    EXPECT(1, until(OB_PLACED, 600).bytes >= 10);
    EXPECT(15, ob_send(queue, connection, "fghijklmnopqrst", 15, 0, 0));
    EXPECT(30, until(OB_FILLED, 600).bytes);
    EXPECT(0, memcmp(ob_memory_data(memory), "0123456789abcdefghijklmnopqrst", 30));
    EXPECT(0, ob_set(queue, connection, OB_RECEIVE_UNIT, 0));
    /* And copying goes on behind it. */
    copies(connection);
    EXPECT(0, ob_unregister(memory));
}

static void rooms(ob_handle connection)
{
    ob_span room;
    EXPECT(0, ob_room(queue, connection, 5000, &room));
    if (room.len == 0 || room.len > 5000)
        fail(__LINE__, "the length of a room", (long)room.len);
    EXPECT(0, ob_abandon(queue, room.id));
    EXPECT(-EINVAL, ob_abandon(queue, room.id));
    EXPECT(0, ob_room(queue, connection, 1000, &room));
    fill(room.data, 9, 700);
    EXPECT(0, ob_commit(queue, room.id, 700, OB_ASYNC, 73));
    EXPECT(-EINVAL, ob_commit(queue, room.id, 1, 0, 0));
    receive(connection, 9, 700);
    EXPECT(700, until(OB_SENT, 73).bytes);
}

static void files(ob_handle connection)
{
    unsigned char bytes[5000];
    char name[] = "/tmp/outboard-conformance-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    fill(bytes, 0, sizeof bytes);
    EXPECT(5000, write(file, bytes, sizeof bytes));
    EXPECT(4900, ob_send_file(queue, connection, file, 100, 10000, OB_ASYNC, 74));
    receive(connection, 100, 4900);
    until(OB_SENT, 74);
    EXPECT(0, ob_send_file(queue, connection, file, 5000, 10, 0, 0));
    EXPECT(-EBADF, ob_send_file(queue, connection, -1, 0, 10, 0, 0));
    close(file);
}

/* The same of files that are registered: more than a buffer holds, and what cannot be. */
static void registered_files(ob_context *context, ob_handle connection)
{
    static unsigned char bytes[1 << 20];
    char name[] = "/var/tmp/outboard-conformance-XXXXXX";
    size_t sent = 0, got = 0;
    ob_file *file, *none = NULL;
    int pipes[2];
    int fd = mkstemp(name);
    unlink(name);
    fill(bytes, 0, sizeof bytes);
    EXPECT((long)sizeof bytes, write(fd, bytes, sizeof bytes));
    EXPECT(0, ob_register_file(context, fd, &file));
    EXPECT(0, ob_register_file(context, fd, &none));
    ob_unregister_file(none);
    /* It depends on what /var/tmp is on. */
    EXPECT(1, ob_file_is_offloaded(file) <= ob_is_attached(context));
    close(fd);
    EXPECT(4900, ob_send_registered_file(queue, connection, file, 100, 4900, OB_ASYNC, 75));
    receive(connection, 100, 4900);
    until(OB_SENT, 75);
    while (got < sizeof bytes) {
        size_t at;
        ssize_t read;
        if (sent < sizeof bytes) {
            ssize_t more = ob_send_registered_file(queue, connection, file, sent,
                                                   2 * sizeof bytes, 0, 0);
            if (more > 0)
                sent += (size_t)more;
            else if (more != -EAGAIN)
                fail(__LINE__, "ob_send_registered_file", more);
        }
        read = ob_recv(queue, connection, bytes, sizeof bytes, 0);
        if (read == -EAGAIN) {
            ob_event event;
            ob_wait(queue, &event, 1, 100);
            continue;
        }
        if (read <= 0)
            fail(__LINE__, "ob_recv", read);
        for (at = 0; at < (size_t)read; at++)
            if (bytes[at] != pattern(got + at))
                fail(__LINE__, "a byte", (long)(got + at));
        got += (size_t)read;
    }
    EXPECT(0, ob_send_registered_file(queue, connection, file, sizeof bytes, 1, 0, 0));
    EXPECT(-EINVAL, ob_send_registered_file(queue, connection, NULL, 0, 1, 0, 0));
    EXPECT(-EINVAL, ob_send_registered_file(queue, connection, file, 0, 1, 2, 0));
    /* What was sent from it is still delivered. */
    EXPECT(3000, ob_send_registered_file(queue, connection, file, 7, 3000, 0, 0));
    ob_unregister_file(file);
    ob_unregister_file(NULL);
    receive(connection, 7, 3000);
    EXPECT(0, ob_file_is_offloaded(NULL));
    EXPECT(-EBADF, ob_register_file(context, -1, &file));
    EXPECT(-EINVAL, ob_register_file(NULL, 0, &file));
    EXPECT(-EINVAL, ob_register_file(context, 0, NULL));
    EXPECT(0, pipe(pipes));
    EXPECT(-EINVAL, ob_register_file(context, pipes[0], &file));
    close(pipes[0]);
    close(pipes[1]);
}

/* Far more than any buffer holds, both ways at once. */
static void bulk(ob_handle connection)
{
    static unsigned char bytes[1 << 16];
    size_t total = 8 << 20, sent = 0, got = 0;
    while (got < total) {
        int moved = 0;
        if (sent < total) {
            size_t len = total - sent < sizeof bytes ? total - sent : sizeof bytes;
            ssize_t more;
            fill(bytes, sent, len);
            more = ob_send(queue, connection, bytes, len, 0, 0);
            if (more > 0) {
                sent += (size_t)more;
                moved = 1;
            } else if (more != -EAGAIN) {
                fail(__LINE__, "ob_send", more);
            }
        }
        if (got < sent) {
            size_t at;
            ssize_t read = ob_recv(queue, connection, bytes, sizeof bytes, 0);
            if (read > 0) {
                for (at = 0; at < (size_t)read; at++)
                    if (bytes[at] != pattern(got + at))
                        fail(__LINE__, "a byte", (long)(got + at));
                got += (size_t)read;
                moved = 1;
            } else if (read != -EAGAIN) {
                fail(__LINE__, "ob_recv", read);
            }
        }
        if (!moved) {
            ob_event event;
            int count = ob_wait(queue, &event, 1, HANG_MS);
            if (count != 1 && count != -EINTR)
                fail(__LINE__, "ob_wait", count);
        }
    }
}

static void *wakes(void *nothing)
{
    (void)nothing;
    EXPECT(0, ob_wake(queue));
    return NULL;
}

static void loops(ob_handle connection)
{
    struct pollfd waits;
    pthread_t thread;
    ob_handle watched;
    ob_event event;
    int ends[2], limit;
    EXPECT(0, pipe(ends));
    EXPECT(0, ob_watch(queue, ends[0], EPOLLIN, 75, &watched));
    EXPECT(-EINVAL, ob_watch(queue, ends[0], 1u << 30, 75, &watched));
    EXPECT(-EBADF, ob_watch(queue, -1, EPOLLIN, 75, &watched));
    EXPECT(1, write(ends[1], "x", 1));
    event = until(OB_READY, 75);
    EXPECT(EPOLLIN, event.bytes);
    EXPECT(0, ob_close(queue, event.handle));
    EXPECT(-EBADF, ob_close(queue, event.handle));
    EXPECT(0, pthread_create(&thread, NULL, wakes, NULL));
    until(OB_WAKE, 0);
    EXPECT(0, pthread_join(thread, NULL));
    close(ends[0]);
    close(ends[1]);

    /* A loop of the program's own. */
    while (ob_poll(queue, &event, 1) == 1)
        ;
    seen_count = 0;
    EXPECT(1, ob_send(queue, connection, "\0", 1, 0, 0));
    for (;;) {
        char byte;
        waits.fd = ob_queue_fd(queue);
        waits.events = POLLIN;
        limit = ob_arm(queue);
        if (limit < -1)
            fail(__LINE__, "ob_arm", limit);
        if (limit != 0 && poll(&waits, 1, limit < 0 ? HANG_MS : limit) == 0 && limit < 0)
            fail(__LINE__, "poll", 0);
        EXPECT(0, ob_disarm(queue));
        while (ob_poll(queue, &event, 1) == 1)
            ;
        if (ob_recv(queue, connection, &byte, 1, 0) == 1)
            break;
    }
}

/* The child of a fork has nothing of its parent's until it asks, and takes nothing from it. */
static void forks(ob_context *context, ob_handle connection, int mode, int attached)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        ob_context *mine;
        ob_queue *other;
        ob_memory *memory;
        EXPECT(0, ob_is_attached(context));
        EXPECT(0, ob_attach(&mine, NULL, "child", mode));
        EXPECT(attached, ob_is_attached(mine));
        EXPECT(0, ob_queue_new(mine, &other));
        EXPECT(0, ob_register(mine, 100000, &memory));
        fill(ob_memory_data(memory), 0, 100000);
        EXPECT(0, ob_unregister(memory));
        ob_queue_free(other);
        ob_detach(mine);
        _exit(0);
    }
    EXPECT(child, waitpid(child, &status, 0));
    EXPECT(0, status);
    copies(connection);
}

/* What is known of the engine, and of the way to the other end. */
static void device(ob_context *context, ob_handle connection, int attached, int offloaded)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    ob_memory *memory;
    ob_engine engine, after;
    ob_way way;
    EXPECT(-EINVAL, ob_ctl(NULL, &engine));
    EXPECT(-EINVAL, ob_ctl(context, NULL));
    EXPECT(0, ob_ctl(context, &engine));
    EXPECT(attached, engine.attached);
    EXPECT(attached, engine.protocol >= 7);
    EXPECT(attached, engine.interface && engine.mtu >= 1280 && engine.name[0] && engine.congestion[0]);
    EXPECT(attached, engine.most_connections && engine.accept_backlog && engine.receive_area);
    EXPECT(offloaded, engine.connections > 0);
    EXPECT(0, ob_register(context, 1 << 20, &memory));
    EXPECT(0, ob_ctl(context, &after));
    EXPECT(attached ? 1 << 20 : 0, engine.send_free - after.send_free);
    EXPECT(engine.send_area, after.send_area);
    EXPECT(0, ob_unregister(memory));

    EXPECT(0, ob_peer(queue, connection, (struct sockaddr *)&peer, &len));
    EXPECT(-EINVAL, ob_neigh(context, NULL, 0, &way));
    EXPECT(-EINVAL, ob_neigh(context, (struct sockaddr *)&peer, len, NULL));
    if (!attached) {
        EXPECT(-ENOTCONN, ob_neigh(context, (struct sockaddr *)&peer, len, &way));
        EXPECT(-ENOTCONN, ob_neigh_update(context, (struct sockaddr *)&peer, len, &way));
        return;
    }
    EXPECT(0, ob_neigh(context, (struct sockaddr *)&peer, len, &way));
    EXPECT(peer.ss_family, way.next_hop.ss_family);
    EXPECT(peer.ss_family, way.source.ss_family);
    EXPECT(1, way.mtu >= 1280);
    EXPECT(1, way.state == OB_NEIGHBOUR_REACHABLE || way.state == OB_NEIGHBOUR_STALE);
    EXPECT(1, way.hardware[0] || way.hardware[1] || way.hardware[5]);
    EXPECT(0, ob_neigh_update(context, (struct sockaddr *)&peer, len, &way));
    EXPECT(1, way.state != OB_NEIGHBOUR_FAILED);
    /* This end is no way of the engine's. */
    len = sizeof peer;
    EXPECT(0, ob_local(queue, connection, (struct sockaddr *)&peer, &len));
    EXPECT(-EOPNOTSUPP, ob_neigh(context, (struct sockaddr *)&peer, len, &way));
}

static void misuse(ob_handle connection)
{
    ob_handle none;
    ob_span span;
    ob_event event;
    EXPECT(-EINVAL, ob_send(NULL, connection, "x", 1, 0, 0));
    EXPECT(-EINVAL, ob_send(queue, connection, NULL, 1, 0, 0));
    EXPECT(-EINVAL, ob_send(queue, connection, "x", 1, 64, 0));
    EXPECT(-EBADF, ob_send(queue, 0, "x", 1, 0, 0));
    EXPECT(-EBADF, ob_send(queue, ~(ob_handle)0, "x", 1, 0, 0));
    EXPECT(-EINVAL, ob_recv(queue, connection, NULL, 1, 0));
    EXPECT(-EINVAL, ob_view(queue, connection, 0, &span));
    EXPECT(-EINVAL, ob_view(queue, connection, 1, NULL));
    EXPECT(-EINVAL, ob_release(queue, 12345));
    EXPECT(-EINVAL, ob_commit(queue, 12345, 1, 0, 0));
    EXPECT(-EINVAL, ob_wait(queue, NULL, 1, 0));
    EXPECT(-EINVAL, ob_wait(queue, &event, 0, 0));
    EXPECT(-EINVAL, ob_shutdown(queue, connection, 17));
    EXPECT(-EINVAL, ob_set(queue, connection, 99, 1));
    EXPECT(-EBADF, ob_accept(queue, connection, 0, &none));
    EXPECT(-EINVAL, ob_listen(queue, NULL, 0, 1, 0, &none));
    EXPECT(-EINVAL, ob_unregister(NULL));
    EXPECT(-EINVAL, ob_queue_fd(NULL));
    EXPECT(0, ob_is_attached(NULL));
    EXPECT(-EBADF, ob_set_admission(queue, connection, NULL));
    EXPECT(-EINVAL, ob_set(queue, connection, OB_EAGER_ACCEPT, 4));
}

int main(int count, char **words)
{
    ob_context *context;
    ob_handle listener = 0, connection = 0, none;
    ob_memory *memory;
    ob_info info;
    struct sockaddr_storage address, other;
    struct sockaddr_in *four = (struct sockaddr_in *)&address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address;
    socklen_t len = sizeof other, address_len = sizeof *four;
    char why[96];
    int mode, can, attached;
    if (count != 6)
        return 2;
    mode = !strcmp(words[2], "engine") ? OB_ENGINE : !strcmp(words[2], "kernel") ? OB_KERNEL
                                                                                : OB_ANY;
    memset(&address, 0, sizeof address);
    if (strchr(words[3], ':')) {
        address_len = sizeof *six;
        six->sin6_family = AF_INET6;
        six->sin6_port = htons((uint16_t)atoi(words[4]));
        EXPECT(1, inet_pton(AF_INET6, words[3], &six->sin6_addr));
    } else {
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)atoi(words[4]));
        EXPECT(1, inet_pton(AF_INET, words[3], &four->sin_addr));
    }
    EXPECT(OB_VERSION_MAJOR * 1000 + OB_VERSION_MINOR, ob_version());
    EXPECT(-EINVAL, ob_attach(&context, NULL, NULL, 9));
    EXPECT(0, ob_attach(&context, NULL, "conformance", mode));
    attached = ob_is_attached(context);
    EXPECT(words[5][0] == '1' && mode != OB_KERNEL, attached);
    EXPECT(0, ob_queue_new(context, &queue));
    if (!strcmp(words[1], "listen")) {
        ob_setting own = { OB_NODELAY, 1 };
        ob_span first = { 0 };
        ob_admission policy;
        ob_admitted admitted;
        int result;
        EXPECT(0, ob_listen(queue, (struct sockaddr *)&address, address_len, 16, LISTENER,
                            &listener));
        EXPECT(0, ob_set(queue, listener, OB_NODELAY, 1));
        memset(&policy, 0, sizeof policy);
        policy.all.in_flight = 4;
        EXPECT(0, ob_set_admission(queue, listener, &policy));
        EXPECT(1, until(OB_ACCEPT, LISTENER).handle == listener);
        for (;;) {
            result = mode == OB_ANY
                         ? ob_accept_with(queue, listener, &own, 1, CONNECTION, &connection, 100,
                                          &first)
                         : ob_accept(queue, listener, CONNECTION, &connection);
            if (result != -EAGAIN)
                break;
            until(OB_ACCEPT, LISTENER);
        }
        EXPECT(0, result);
        /* The other end only answers. */
        EXPECT(0, first.len);
        EXPECT(-EAGAIN, ob_accept(queue, listener, CONNECTION, &none));
        EXPECT(-EINVAL, ob_get_admitted(queue, listener, NULL));
        EXPECT(0, ob_get_admitted(queue, listener, &admitted));
        EXPECT(words[5][0] == '1', admitted.by_engine);
        /* It may have come before the policy. */
        EXPECT(1, admitted.accepts <= 1);
        EXPECT(1, admitted.in_flight <= admitted.accepts);
    } else {
        ob_setting settings[2] = { { OB_NODELAY, 1 }, { OB_KEEPALIVE, 1 } };
        ob_event open;
        can = ob_can_offload(context, (struct sockaddr *)&address, address_len, why,
                             sizeof why);
        EXPECT(words[5][0] == '1', can);
        if (!can && !why[0])
            fail(__LINE__, "the reason", 0);
        EXPECT(-EINVAL, ob_connect(queue, (struct sockaddr *)&address, address_len, NULL, 1,
                                   CONNECTION, &connection));
        memset(&other, 0, sizeof other);
        other.ss_family = address.ss_family;
        EXPECT(-EINVAL, ob_connect_from(queue, NULL, 0, (struct sockaddr *)&address, address_len,
                                        settings, 2, CONNECTION, &connection));
        EXPECT(0, words[2][0] == 'a' /* any */
                      ? ob_connect_from(queue, (struct sockaddr *)&other, address_len,
                                        (struct sockaddr *)&address, address_len, settings, 2,
                                        CONNECTION, &connection)
                      : ob_connect(queue, (struct sockaddr *)&address, address_len, settings, 2,
                                   CONNECTION, &connection));
        open = until(OB_OPEN, CONNECTION);
        EXPECT(0, open.error);
        EXPECT(1, open.handle == connection);
    }
    EXPECT(0, ob_get_info(queue, connection, &info));
    EXPECT(words[5][0] == '1', info.offloaded);
    if (info.offloaded && (!info.cwnd || !info.send_mss))
        fail(__LINE__, "the facts", info.cwnd);
    EXPECT(0, ob_local(queue, connection, (struct sockaddr *)&other, &len));
    EXPECT(address_len, len);
    EXPECT(address.ss_family, other.ss_family);
    if (listener) /* where it listens is where it was reached */
        EXPECT(0, memcmp(&other, &address, len));
    len = sizeof other;
    EXPECT(0, ob_peer(queue, connection, (struct sockaddr *)&other, &len));
    EXPECT(address_len, len);
    if (!listener)
        EXPECT(0, memcmp(&other, &address, len));
    EXPECT(0, ob_set(queue, connection, OB_KEEPIDLE, 100));

    copies(connection);
    registered(context, connection);
    posted(context, connection);
    rooms(connection);
    files(connection);
    registered_files(context, connection);
    bulk(connection);
    loops(connection);
    misuse(connection);
    device(context, connection, attached, words[5][0] == '1');
    forks(context, connection, mode, attached);

    /* A buffer that is posted comes back at the stream's end, with what there was. */
    EXPECT(0, ob_register(context, 4096, &memory));
    EXPECT(0, ob_post(queue, connection, memory, 100, 1000, 700));
    EXPECT(4, ob_send(queue, connection, "last", 4, 0, 0));
    EXPECT(0, ob_shutdown(queue, connection, SHUT_WR));
    EXPECT(-EPIPE, ob_send(queue, connection, "x", 1, 0, 0));
    EXPECT(0, until(OB_END, CONNECTION).error);
    EXPECT(4, until(OB_FILLED, 700).bytes);
    EXPECT(0, memcmp((char *)ob_memory_data(memory) + 100, "last", 4));
    EXPECT(0, ob_unregister(memory));
    EXPECT(0, ob_recv(queue, connection, why, sizeof why, 0));
    EXPECT(0, ob_close(queue, connection));
    EXPECT(-EBADF, ob_recv(queue, connection, why, sizeof why, 0));
    if (listener)
        EXPECT(0, ob_close(queue, listener));
    ob_queue_free(queue);
    ob_queue_free(NULL);
    ob_detach(context);
    ob_detach(NULL);
    puts("all as outboard.h says");
    return 0;
}
