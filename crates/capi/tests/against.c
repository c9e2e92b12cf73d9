/*
 * What programs get of outboard.h and of the socket calls for the same: each result is a line, and the test holds
 * the lines of all against each other.
 *
 *   against sockets|any|kernel ADDRESS PORT LOCAL
 *
 * LOCAL is an address of this machine's. The peer at ADDRESS and PORT is that of ends.c.
 */
#define _GNU_SOURCE
#include "expect.h"
#include "outboard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define HANG_MS 60000

static ob_queue *queue; /* NULL: by the socket calls */
static struct sockaddr_in address;

/* A handle, or a descriptor. */
typedef uint64_t connection;

/* What a socket call gives, as outboard.h would say it. */
static long as_ours(long result)
{
    return result < 0 ? -errno : result;
}

static void told(const char *what, long result)
{
    if (result < 0)
        printf("%s: %s\n", what, strerrorname_np((int)-result));
    else
        printf("%s: %ld\n", what, result);
}

/* Until something has happened, to a socket what is named. */
static void wait_for(connection of, short what)
{
    ob_event event;
    struct pollfd waits;
    if (queue) {
        EXPECT(1, ob_wait(queue, &event, 1, HANG_MS));
        return;
    }
    waits.fd = (int)of;
    waits.events = what;
    EXPECT(1, poll(&waits, 1, HANG_MS));
}

static long sends(connection to, const void *bytes, size_t len)
{
    if (queue)
        return ob_send(queue, to, bytes, len, 0, 0);
    return as_ours(send((int)to, bytes, len, MSG_NOSIGNAL));
}

static long receives(connection from, void *bytes, size_t len, int peeks)
{
    if (queue)
        return ob_recv(queue, from, bytes, len, peeks ? OB_PEEK : 0);
    return as_ours(recv((int)from, bytes, len, peeks ? MSG_PEEK : 0));
}

/* The first result that is not that there is nothing yet. */
static long received(connection from, void *bytes, size_t len, int peeks)
{
    long result;
    while ((result = receives(from, bytes, len, peeks)) == -EAGAIN)
        wait_for(from, POLLIN);
    return result;
}

static long shuts(connection of, int how)
{
    return queue ? ob_shutdown(queue, of, how) : as_ours(shutdown((int)of, how));
}

static long closes(connection of)
{
    return queue ? ob_close(queue, of) : as_ours(close((int)of));
}

/* Sets an option, by its name here and there. */
static long sets(connection of, uint32_t ours, int level, int name, int value)
{
    if (queue)
        return ob_set(queue, of, ours, (uint32_t)value);
    return as_ours(setsockopt((int)of, level, name, &value, sizeof value));
}

static long opens(const struct sockaddr_in *to, connection *out)
{
    int error = 0;
    socklen_t len = sizeof error;
    ob_event event;
    if (queue) {
        long began = ob_connect(queue, (const struct sockaddr *)to, sizeof *to, NULL, 0, 7, out);
        if (began < 0)
            return began;
        do
            EXPECT(1, ob_wait(queue, &event, 1, HANG_MS));
        while (event.kind != OB_OPEN || event.handle != *out);
        return -event.error;
    }
    *out = (connection)socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (connect((int)*out, (const struct sockaddr *)to, sizeof *to) < 0) {
        EXPECT(EINPROGRESS, errno);
        wait_for(*out, POLLOUT);
        EXPECT(0, getsockopt((int)*out, SOL_SOCKET, SO_ERROR, &error, &len));
    }
    return -error;
}

static long listens(const struct sockaddr_in *at, connection *out)
{
    int one = 1;
    if (queue)
        return ob_listen(queue, (const struct sockaddr *)at, sizeof *at, 16, 8, out);
    *out = (connection)socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    EXPECT(0, setsockopt((int)*out, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
    if (bind((int)*out, (const struct sockaddr *)at, sizeof *at) < 0 || listen((int)*out, 16) < 0) {
        long result = -errno;
        close((int)*out);
        return result;
    }
    return 0;
}

static long accepts(connection at)
{
    ob_handle made;
    if (queue)
        return ob_accept(queue, at, 9, &made);
    return as_ours(accept4((int)at, NULL, NULL, SOCK_NONBLOCK));
}

/* One of both addresses. */
static long names(connection of, int other, struct sockaddr_in *out)
{
    socklen_t len = sizeof *out;
    struct sockaddr *to = (struct sockaddr *)out;
    memset(out, 0, sizeof *out);
    if (queue)
        return other ? ob_peer(queue, of, to, &len) : ob_local(queue, of, to, &len);
    return as_ours(other ? getpeername((int)of, to, &len) : getsockname((int)of, to, &len));
}

/* A connection, and one that says what is done to it. */
static void pair(connection *victim, connection *control)
{
    EXPECT(0, opens(&address, victim));
    EXPECT(0, opens(&address, control));
}

static void has_peer(connection control, const char *done)
{
    char byte;
    EXPECT(1, sends(control, done, 1));
    EXPECT(1, received(control, &byte, 1, 0));
}

static void first_things(connection of, connection control)
{
    struct sockaddr_in name;
    char bytes[4];
    told("this end's address", names(of, 0, &name));
    told("it has a port", name.sin_family == AF_INET && name.sin_port != 0);
    told("the other end's address", names(of, 1, &name));
    told("it is that", name.sin_port == address.sin_port && name.sin_addr.s_addr == address.sin_addr.s_addr);
    told("nothing has come", receives(of, bytes, 4, 0));
    told("nothing to be seen", receives(of, bytes, 4, 1));
    told("nothing is sent", sends(of, bytes, 0));
    told("no delay", sets(of, OB_NODELAY, IPPROTO_TCP, TCP_NODELAY, 1));
    told("seconds", sets(of, OB_KEEPIDLE, IPPROTO_TCP, TCP_KEEPIDLE, 32767));
    told("too many seconds", sets(of, OB_KEEPIDLE, IPPROTO_TCP, TCP_KEEPIDLE, 32768));
    told("no seconds", sets(of, OB_KEEPIDLE, IPPROTO_TCP, TCP_KEEPIDLE, 0));
    told("too many seconds between", sets(of, OB_KEEPINTVL, IPPROTO_TCP, TCP_KEEPINTVL, 32768));
    told("no seconds between", sets(of, OB_KEEPINTVL, IPPROTO_TCP, TCP_KEEPINTVL, 0));
    told("probes", sets(of, OB_KEEPCNT, IPPROTO_TCP, TCP_KEEPCNT, 127));
    told("too many probes", sets(of, OB_KEEPCNT, IPPROTO_TCP, TCP_KEEPCNT, 128));
    told("no probes", sets(of, OB_KEEPCNT, IPPROTO_TCP, TCP_KEEPCNT, 0));
    told("a limit", sets(of, OB_USER_TIMEOUT, IPPROTO_TCP, TCP_USER_TIMEOUT, 5000));
    told("the longest", sets(of, OB_USER_TIMEOUT, IPPROTO_TCP, TCP_USER_TIMEOUT, INT_MAX));
    told("none can be negative", sets(of, OB_USER_TIMEOUT, IPPROTO_TCP, TCP_USER_TIMEOUT, INT_MIN));
    told("an answer", sends(control, "p", 1));
    told("it is seen", received(control, bytes, 4, 1));
    told("and comes", received(control, bytes, 4, 0));
    told("once", receives(control, bytes, 4, 0));
}

static void ends(connection of, connection control)
{
    char bytes[4];
    has_peer(control, "h");
    told("the peer has ended", received(of, bytes, 4, 0));
    told("and says so again", receives(of, bytes, 4, 0));
    told("and when it is only looked for", receives(of, bytes, 4, 1));
    told("but it hears", sends(of, "heard", 5));
    has_peer(control, "d");
    told("both have ended", shuts(of, SHUT_WR));
    told("nothing more is sent", sends(of, "x", 1));
    told("and that is so", sends(of, "x", 1));
}

static void ends_here(connection of)
{
    char bytes[4];
    told("this end writes no more", shuts(of, SHUT_WR));
    told("nor does it", sends(of, "x", 1));
    told("it may say so again", shuts(of, SHUT_WR));
    told("it still waits", receives(of, bytes, 4, 0));
    told("it reads no more", shuts(of, SHUT_RD));
    told("so there is an end", receives(of, bytes, 4, 0));
    told("what is no direction", shuts(of, 5));
}

static void is_reset(connection of, connection control)
{
    char bytes[4];
    has_peer(control, "r");
    told("it is reset", received(of, bytes, 4, 0));
    told("nothing can be sent", sends(of, "x", 1));
    told("and has no other end", shuts(of, SHUT_RDWR));
}

static void is_reset_while_it_sends(connection of, connection control)
{
    static char bytes[1 << 16];
    long sent;
    while ((sent = sends(of, bytes, sizeof bytes)) > 0)
        ;
    told("it is full", sent);
    /* Nobody looks at the events: what tells of it first is the call. */
    EXPECT(1, sends(control, "r", 1));
    while ((sent = sends(of, bytes, sizeof bytes)) == -EAGAIN || sent > 0)
        ;
    told("then it is told of the reset", sent);
    told("and then", sends(of, bytes, 1));
}

static void listeners(const struct sockaddr_in *local)
{
    struct sockaddr_in name, there = *local;
    connection listener, second;
    told("it listens", listens(local, &listener));
    told("it has a name", names(listener, 0, &name));
    told("with a port", name.sin_port != 0);
    told("and no other end", names(listener, 1, &name));
    told("nobody has come", accepts(listener));
    names(listener, 0, &there);
    told("so does another", listens(&there, &second));
    told("it is closed", closes(listener));
    there.sin_addr.s_addr = inet_addr("192.0.2.77");
    told("not at others' addresses", listens(&there, &second));
    there = address;
    there.sin_port = htons(1);
    told("nobody listens there", opens(&there, &second));
    told("it is closed, too", closes(second));
}

int main(int count, char **words)
{
    struct sockaddr_in local = { .sin_family = AF_INET };
    ob_context *context = NULL;
    connection victim, control;
    int stage;
    EXPECT(5, count);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(words[3]));
    EXPECT(1, inet_pton(AF_INET, words[2], &address.sin_addr));
    EXPECT(1, inet_pton(AF_INET, words[4], &local.sin_addr));
    if (strcmp(words[1], "sockets")) {
        int mode = strcmp(words[1], "kernel") ? OB_ANY : OB_KERNEL;
        EXPECT(0, ob_attach(&context, NULL, "against", mode));
        EXPECT(0, ob_queue_new(context, &queue));
    }
    for (stage = 0; stage < 5; stage++) {
        pair(&victim, &control);
        if (stage == 0)
            first_things(victim, control);
        else if (stage == 1)
            ends(victim, control);
        else if (stage == 2)
            ends_here(victim);
        else if (stage == 3)
            is_reset(victim, control);
        else
            is_reset_while_it_sends(victim, control);
        told("it is closed", closes(victim));
        EXPECT(0, closes(control));
    }
    listeners(&local);
    if (queue) {
        ob_queue_free(queue);
        ob_detach(context);
    }
    return 0;
}
