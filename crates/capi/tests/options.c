/*
 * What the options of outboard.h are at the kernel. Both ends of each connection are the program's own.
 *
 *   options
 */
#define _GNU_SOURCE
#include "expect.h"
#include "outboard.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#define HANG_MS 60000
#define MOST_DESCRIPTORS 256

static ob_queue *queue;

static const struct one {
    uint32_t ours;
    int level, theirs;
    uint32_t value; /* another than a connection begins with */
    int is;         /* what the kernel says then */
} all[] = {
    { OB_NODELAY, IPPROTO_TCP, TCP_NODELAY, 1, 1 },
    { OB_CORK, IPPROTO_TCP, TCP_CORK, 1, 1 },
    { OB_QUICKACK, IPPROTO_TCP, TCP_QUICKACK, 1, 1 },
    { OB_QUICKACK, IPPROTO_TCP, TCP_QUICKACK, 0, 0 },
    { OB_KEEPALIVE, SOL_SOCKET, SO_KEEPALIVE, 1, 1 },
    { OB_KEEPIDLE, IPPROTO_TCP, TCP_KEEPIDLE, 11, 11 },
    { OB_KEEPINTVL, IPPROTO_TCP, TCP_KEEPINTVL, 12, 12 },
    { OB_KEEPCNT, IPPROTO_TCP, TCP_KEEPCNT, 13, 13 },
    { OB_USER_TIMEOUT, IPPROTO_TCP, TCP_USER_TIMEOUT, 14000, 14000 },
    { OB_SEND_BUFFER, SOL_SOCKET, SO_SNDBUF, 100000, 100000 },
    { OB_RECEIVE_BUFFER, SOL_SOCKET, SO_RCVBUF, 90000, 90000 },
    { OB_RESET_ON_CLOSE, SOL_SOCKET, SO_LINGER, 1, 1 },
    { OB_RESET_ON_CLOSE, SOL_SOCKET, SO_LINGER, 0, 0 },
};
#define COUNT (sizeof all / sizeof *all)

/* The kernel's socket of a connection, by its addresses. */
static int socket_of(ob_handle connection)
{
    struct sockaddr_in local, peer, name;
    socklen_t len = sizeof local;
    int fd;
    EXPECT(0, ob_local(queue, connection, (struct sockaddr *)&local, &len));
    EXPECT(0, ob_peer(queue, connection, (struct sockaddr *)&peer, &len));
    for (fd = 3; fd < MOST_DESCRIPTORS; fd++) {
        len = sizeof name;
        if (getsockname(fd, (struct sockaddr *)&name, &len) || name.sin_port != local.sin_port)
            continue;
        len = sizeof name;
        if (!getpeername(fd, (struct sockaddr *)&name, &len) && name.sin_port == peer.sin_port)
            return fd;
    }
    EXPECT(1, 0);
    return -1;
}

/* What an option is; of a time to linger whether there is one, which is 0. */
static int is(int fd, const struct one *one)
{
    struct linger linger = { 0, 0 };
    socklen_t len = sizeof linger;
    if (one->theirs != SO_LINGER || one->level != SOL_SOCKET)
        len = sizeof linger.l_onoff;
    EXPECT(0, getsockopt(fd, one->level, one->theirs, &linger, &len));
    EXPECT(0, linger.l_linger);
    return linger.l_onoff;
}

/* Each changes what it names, and nothing else. */
static void each(ob_handle connection)
{
    int fd = socket_of(connection), before[COUNT];
    size_t at, other;
    for (at = 0; at < COUNT; at++) {
        for (other = 0; other < COUNT; other++)
            before[other] = is(fd, &all[other]);
        EXPECT(0, ob_set(queue, connection, all[at].ours, all[at].value));
        EXPECT(all[at].is, is(fd, &all[at]));
        for (other = 0; other < COUNT; other++)
            if (all[other].ours != all[at].ours)
                EXPECT(before[other], is(fd, &all[other]));
    }
}

int main(void)
{
    const ob_setting opened_with = { OB_KEEPIDLE, 21 }, accepted_with = { OB_KEEPCNT, 22 };
    const struct one *idle = &all[5], *interval = &all[6], *count = &all[7];
    struct sockaddr_in here;
    socklen_t len = sizeof here;
    ob_handle listener, opened, accepted = 0;
    ob_context *context;
    ob_event event;
    int open = 0;
    memset(&here, 0, sizeof here);
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT(0, ob_attach(&context, NULL, "options", OB_KERNEL));
    EXPECT(0, ob_queue_new(context, &queue));
    EXPECT(0, ob_listen(queue, (struct sockaddr *)&here, len, 4, 0, &listener));
    EXPECT(0, ob_local(queue, listener, (struct sockaddr *)&here, &len));
    EXPECT(0, ob_set(queue, listener, OB_KEEPINTVL, 23));
    EXPECT(0, ob_connect(queue, (struct sockaddr *)&here, len, &opened_with, 1, 0, &opened));
    while (!open || !accepted) {
        EXPECT(1, ob_wait(queue, &event, 1, HANG_MS));
        open |= event.kind == OB_OPEN && event.error == 0;
        if (event.kind == OB_ACCEPT)
            EXPECT(0, ob_accept_with(queue, listener, &accepted_with, 1, 0, &accepted, 0, NULL));
    }
    EXPECT(21, is(socket_of(opened), idle));
    EXPECT(22, is(socket_of(accepted), count));
    EXPECT(23, is(socket_of(accepted), interval));
    each(opened);
    ob_queue_free(queue);
    ob_detach(context);
    puts("all as outboard.h says");
    return 0;
}
