/*
 * What programs get of outboard.h and of the socket calls for the same: each result is a line, and the test holds
 * the lines of all against each other.
 *
 *   against sockets|any|kernel ADDRESS PORT LOCAL copies|registered|rooms|posted|memfd
 *
 * By outboard.h it sends and receives by copying; or from registered memory and files without a copy, and by views; or
 * in rooms; or it copies asynchronously, and receives into posted buffers; or it does that, and sends without a
 * copy, in memory of its own.
 * LOCAL is an address of this machine's, of the same family. The peer at ADDRESS and PORT is that of ends.c; at
 * 'c' it connects to port 7778 here, says "hello" and ends.
 */
#define _GNU_SOURCE
#include "expect.h"
#include "outboard.h"
#include "place.h"
#include "placed.h"
#include "watched.h"

#include <errno.h>
#include <limits.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#define HANG_MS 60000

#define HERE 7778

/* Registered memory: first what is small, in places of which the peer has the last when one comes round; then what is
 * large, which is the same each time; then posted buffers. */
#define SMALL ((size_t)256)
#define SMALLS ((size_t)256)
#define LARGE (SMALL * SMALLS)
#define POSTED_FROM (2 * LARGE)
#define MEMORY (POSTED_FROM + BUFFERS * BUFFER)

static ob_context *context;
static ob_queue *queue; /* NULL: by the socket calls */
static enum { COPIES, REGISTERED, ROOMS, POSTED, MEMFD } way;
static ob_memory *memory;
static place address;
/* Of whom the queue has said last that he has ended, and with which error. */
static uint64_t ended;
static int end_error;

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

/* Takes one event. */
static ob_event next(void)
{
    ob_event event;
    if (!was_kept(&event)) {
        EXPECT(1, ob_wait(queue, &event, 1, HANG_MS));
        note_placed(&event);
    }
    if (event.kind == OB_END) {
        ended = event.handle;
        end_error = event.error;
    }
    return event;
}

/* Until something has happened, to a socket what is named. */
static void wait_for(connection of, short what)
{
    struct pollfd waits;
    if (queue) {
        next();
        return;
    }
    waits.fd = (int)of;
    waits.events = what;
    EXPECT(1, poll(&waits, 1, HANG_MS));
}

/* Whether it sends from where the bytes are, and whether it receives into posted buffers. */
static int is_registered(void)
{
    return way == REGISTERED || way == MEMFD;
}
static int is_posted(void)
{
    return way == POSTED || way == MEMFD;
}

/* A place for so many bytes in registered memory. */
static size_t room_for(size_t len)
{
    static size_t turn;
    EXPECT(1, len <= LARGE);
    return len > SMALL ? LARGE : turn++ % SMALLS * SMALL;
}

static long sends_so(connection to, const void *bytes, size_t len, unsigned flags)
{
    ob_span room;
    long result;
    if (is_registered()) {
        size_t at = room_for(len);
        memcpy((char *)ob_memory_data(memory) + at, bytes, len);
        return ob_send_registered(queue, to, memory, at, len, flags | OB_ASYNC, 0);
    }
    if (way != ROOMS)
        return ob_send(queue, to, bytes, len, flags | (way == POSTED ? OB_ASYNC : 0), 0);
    if ((result = ob_room(queue, to, len, &room)) < 0)
        return result;
    if (len > room.len)
        len = room.len;
    memcpy(room.data, bytes, len);
    if ((result = ob_commit(queue, room.id, len, flags, 0)) == -EAGAIN)
        EXPECT(0, ob_abandon(queue, room.id));
    return result < 0 ? result : (long)len;
}

static long sends(connection to, const void *bytes, size_t len)
{
    if (queue)
        return sends_so(to, bytes, len, 0);
    return as_ours(send((int)to, bytes, len, MSG_NOSIGNAL));
}

/* More follows at once. */
static long begins(connection to, const void *bytes, size_t len)
{
    if (queue)
        return sends_so(to, bytes, len, OB_MORE);
    return as_ours(send((int)to, bytes, len, MSG_NOSIGNAL | MSG_MORE));
}

static long sends_parts(connection to, struct iovec *parts, int count)
{
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = (size_t)count };
    ob_piece pieces[3];
    int piece;
    if (queue && is_registered()) {
        size_t at = room_for(SMALL);
        for (piece = 0; piece < count; piece++) {
            pieces[piece].memory = memory;
            pieces[piece].offset = at;
            pieces[piece].len = parts[piece].iov_len;
            if (parts[piece].iov_len)
                memcpy((char *)ob_memory_data(memory) + at, parts[piece].iov_base, parts[piece].iov_len);
            at += parts[piece].iov_len;
        }
        return ob_sendv_registered(queue, to, pieces, count, OB_ASYNC, 0);
    }
    if (queue)
        return ob_sendv(queue, to, parts, count, way == POSTED ? OB_ASYNC : 0, 0);
    return as_ours(sendmsg((int)to, &message, MSG_NOSIGNAL));
}

static long sends_file(connection to, int fd, off_t from, size_t len)
{
    if (queue && is_registered()) {
        ob_file *file;
        long result = ob_register_file(context, fd, &file);
        if (result < 0)
            return result;
        result = ob_send_registered_file(queue, to, file, (uint64_t)from, len, OB_ASYNC, 0);
        ob_unregister_file(file);
        return result;
    }
    if (queue)
        return ob_send_file(queue, to, fd, (uint64_t)from, len, 0, 0);
    return as_ours(sendfile((int)to, fd, &from, len));
}

static int is_by_engine(connection of)
{
    ob_info info;
    EXPECT(0, ob_get_info(queue, of, &info));
    return info.offloaded;
}

/* Bytes that wait to be received. */
static long waiting(connection at)
{
    ob_info info;
    int bytes;
    if (queue && is_posted()) {
        /* What is in the posted buffer waits there, for the program. */
        char seen[8];
        long result = takes_placed(at, seen, sizeof seen, 1);
        return result == -EAGAIN ? 0 : result;
    }
    if (queue) {
        long result = ob_get_info(queue, at, &info);
        return result < 0 ? result : (long)info.unread;
    }
    return ioctl((int)at, FIONREAD, &bytes) < 0 ? -errno : bytes;
}

static long receives(connection from, void *bytes, size_t len, int peeks)
{
    ob_span view;
    if (queue && is_posted())
        return takes_placed(from, bytes, len, peeks);
    if (queue && way == REGISTERED && !peeks) {
        long result = ob_view(queue, from, len, &view);
        if (result <= 0)
            return result;
        memcpy(bytes, view.data, view.len);
        EXPECT(0, ob_release(queue, view.id));
        return (long)view.len;
    }
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

/* A socket that is bound, as outboard.h binds: its address may have been another's just now. */
static long bound(const place *at, connection *out)
{
    int one = 1;
    *out = (connection)socket(at->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    EXPECT(0, setsockopt((int)*out, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
    if (bind((int)*out, &at->any, len_of(at)) < 0) {
        long result = -errno;
        close((int)*out);
        return result;
    }
    return 0;
}

/* Opens a connection, from an address (NULL: from any). */
static long opens_from(const place *from, const place *to, connection *out)
{
    int error = 0;
    socklen_t len = sizeof error;
    ob_event event;
    if (queue) {
        long began = from ? ob_connect_from(queue, &from->any, len_of(from), &to->any, len_of(to), NULL, 0, 7, out)
                          : ob_connect(queue, &to->any, len_of(to), NULL, 0, 7, out);
        if (began < 0)
            return began;
        do
            event = next();
        while (event.kind != OB_OPEN || event.handle != *out);
        return -event.error;
    }
    if (from) {
        long is_bound = bound(from, out);
        if (is_bound < 0)
            return is_bound;
    } else {
        *out = (connection)socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    }
    if (connect((int)*out, &to->any, len_of(to)) < 0) {
        EXPECT(EINPROGRESS, errno);
        wait_for(*out, POLLOUT);
        EXPECT(0, getsockopt((int)*out, SOL_SOCKET, SO_ERROR, &error, &len));
    }
    return -error;
}

static long opens(const place *to, connection *out)
{
    return opens_from(NULL, to, out);
}

static long listens(const place *at, connection *out)
{
    long result;
    if (queue)
        return ob_listen(queue, &at->any, len_of(at), 16, 8, out);
    if ((result = bound(at, out)) < 0)
        return result;
    if (listen((int)*out, 16) < 0) {
        result = -errno;
        close((int)*out);
        return result;
    }
    return 0;
}

static long accepts(connection at, connection *out)
{
    long result;
    if (queue && way != COPIES)
        return ob_accept_with(queue, at, NULL, 0, 9, out, 0, NULL);
    if (queue)
        return ob_accept(queue, at, 9, out);
    result = accept4((int)at, NULL, NULL, SOCK_NONBLOCK);
    *out = (connection)result;
    return result < 0 ? -errno : 0;
}

/* One of both addresses. */
static long names(connection of, int other, place *out)
{
    socklen_t len = sizeof *out;
    memset(out, 0, sizeof *out);
    if (queue)
        return other ? ob_peer(queue, of, &out->any, &len) : ob_local(queue, of, &out->any, &len);
    return as_ours(other ? getpeername((int)of, &out->any, &len) : getsockname((int)of, &out->any, &len));
}

/* The error that it has ended with, once that is known. */
static long ends_with(connection of)
{
    int error;
    socklen_t len = sizeof error;
    if (queue) {
        while (ended != of)
            next();
        return -end_error;
    }
    wait_for(of, POLLIN);
    EXPECT(0, getsockopt((int)of, SOL_SOCKET, SO_ERROR, &error, &len));
    return -error;
}

/* Until the queue says this of it, or poll that. */
static void is_ready(connection of, uint32_t kind, short what)
{
    ob_event event;
    if (!queue) {
        wait_for(of, what);
        return;
    }
    if (kind == OB_RECEIVE && is_posted()) {
        while (waiting(of) == 0)
            next();
        return;
    }
    do
        event = next();
    while (event.kind != kind || event.handle != of);
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
    place name;
    char bytes[4];
    told("this end's address", names(of, 0, &name));
    told("it has a port", name.any.sa_family == address.any.sa_family && *port_of(&name) != 0);
    told("the other end's address", names(of, 1, &name));
    told("it is that", *port_of(&name) == *port_of(&address) && is_same_host(&name, &address));
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
    int end = way == POSTED && is_by_engine(of) ? -EAGAIN : 0;
    told("this end writes no more", shuts(of, SHUT_WR));
    told("nor does it", sends(of, "x", 1));
    told("it may say so again", shuts(of, SHUT_WR));
    told("it still waits", receives(of, bytes, 4, 0));
    told("it reads no more", shuts(of, SHUT_RD));
    /* A buffer that the engine fills is not the program's yet. */
    told("so there is an end", receives(of, bytes, 4, 0) - end);
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

static void is_reset_unseen(connection of, connection control)
{
    has_peer(control, "r");
    told("it has ended with", ends_with(of));
}

static void has_room_again(connection of, connection control)
{
    static char bytes[1 << 16];
    long sent;
    while ((sent = sends(of, bytes, sizeof bytes)) > 0)
        ;
    told("it is full", sent);
    EXPECT(1, sends(control, "d", 1));
    is_ready(of, OB_ROOM, POLLOUT);
    told("there is room again", sends(of, bytes, 1));
}

/* The ways to send, and options that only have to be taken. */
static void ways_and_options(connection of, connection control)
{
    struct iovec parts[3] = { { "p", 1 }, { NULL, 0 }, { "pp", 2 } };
    char bytes[8];
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), got = 0;
    told("three in parts", sends_parts(control, parts, 3));
    while (got < 3)
        got += (int)received(control, bytes, sizeof bytes, 0);
    told("three answers", got);
    told("no parts", sends_parts(control, parts, 0));
    told("more follows", begins(control, "p", 1));
    told("and more", begins(control, "p", 1));
    told("and that is all", sends(control, "p", 1));
    while (got < 6)
        got += (int)received(control, bytes, sizeof bytes, 0);
    told("as many answers", got);
    told("what has been received does not wait", waiting(control));
    told("part of a file", sends_file(of, file, 1, 1000));
    told("behind its end", sends_file(of, file, (off_t)1 << 40, 1000));
    told("nothing of it", sends_file(of, file, 1, 0));
    told("of none", sends_file(of, -1, 0, 10));
    close(file);
    told("cork", sets(of, OB_CORK, IPPROTO_TCP, TCP_CORK, 1));
    told("a part", sends(of, "x", 1));
    told("no cork", sets(of, OB_CORK, IPPROTO_TCP, TCP_CORK, 0));
    told("quick answers", sets(of, OB_QUICKACK, IPPROTO_TCP, TCP_QUICKACK, 1));
    told("no quick answers", sets(of, OB_QUICKACK, IPPROTO_TCP, TCP_QUICKACK, 0));
    told("whether it is alive", sets(of, OB_KEEPALIVE, SOL_SOCKET, SO_KEEPALIVE, 1));
    told("a send buffer", sets(of, OB_SEND_BUFFER, SOL_SOCKET, SO_SNDBUF, 100000));
    told("none of it", sets(of, OB_SEND_BUFFER, SOL_SOCKET, SO_SNDBUF, 0));
    told("a receive buffer", sets(of, OB_RECEIVE_BUFFER, SOL_SOCKET, SO_RCVBUF, 100000));
    told("none of that", sets(of, OB_RECEIVE_BUFFER, SOL_SOCKET, SO_RCVBUF, 0));
    EXPECT(1, sends(control, "p", 1));
    is_ready(control, OB_RECEIVE, POLLIN);
    told("a byte waits", waiting(control));
    told("and comes", receives(control, bytes, 1, 0));
}

/* Comes from an address of the program's choice; and the peer comes, too. */
static void from_here(connection of, connection control, const place *local)
{
    place name, there = *local;
    connection listener, second;
    char bytes[8];
    int got = 0;
    told("this end's address", names(of, 0, &name));
    told("is the one that was wanted", is_same_host(&name, local) && *port_of(&name) != 0);
    *port_of(&there) = htons(HERE);
    told("it listens", listens(&there, &listener));
    told("from where it listens", opens_from(&there, &address, &second));
    EXPECT(1, sends(control, "c", 1));
    is_ready(listener, OB_ACCEPT, POLLIN);
    told("somebody has come", accepts(listener, &second));
    told("and nobody besides", accepts(listener, &of));
    told("to this end's address", names(second, 0, &name));
    told("it is that", is_same_host(&name, &there) && *port_of(&name) == *port_of(&there));
    told("from the other's", names(second, 1, &name));
    told("it is his", is_same_host(&name, &address));
    while (got < 5)
        got += (int)received(second, bytes + got, sizeof bytes - got, 0);
    told("hello", got == 5 && !memcmp(bytes, "hello", 5));
    told("and an end", received(second, bytes, sizeof bytes, 0));
    told("which is said again", receives(second, bytes, sizeof bytes, 0));
    told("it is closed", closes(second));
    told("the listener, too", closes(listener));
}

static void listeners(const place *local)
{
    place name, there = *local;
    connection listener, second;
    told("it listens", listens(local, &listener));
    told("it has a name", names(listener, 0, &name));
    told("with a port", *port_of(&name) != 0);
    told("and no other end", names(listener, 1, &name));
    told("nobody has come", accepts(listener, &second));
    names(listener, 0, &there);
    told("so does another", listens(&there, &second));
    told("it is closed", closes(listener));
    read_place(&there, there.any.sa_family == AF_INET ? "192.0.2.77" : "2001:db8::77", "0");
    told("not at others' addresses", listens(&there, &second));
    told("nor from there", opens_from(&there, &address, &second));
    there = address;
    *port_of(&there) = htons(1);
    told("nobody listens there", opens(&there, &second));
    told("it is closed, too", closes(second));
}

/* Descriptors of the program's own. */
static void descriptors(void)
{
    static const char many[1 << 16];
    struct set set = new_set(queue ? context : NULL);
    uint64_t reads, writes;
    int ends[2], file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    char byte;
    EXPECT(0, pipe2(ends, O_NONBLOCK | O_CLOEXEC));
    told("one is watched", watches(&set, ends[0], EPOLLIN, &reads));
    told("nothing is told", is_told(&set));
    told("nor in a loop of one's own", is_told_in_a_loop(&set));
    EXPECT(1, write(ends[1], "x", 1));
    told("there is a byte", is_told(&set));
    told("which is told until it is read", is_told(&set));
    told("and in a loop", is_told_in_a_loop(&set));
    EXPECT(1, read(ends[0], &byte, 1));
    told("and then it is not", is_told(&set));
    told("nor in a loop", is_told_in_a_loop(&set));
    told("it is watched no more", watches_no_more(&set, reads));
    EXPECT(1, write(ends[1], "x", 1));
    told("nor is it told of", is_told(&set));
    told("it is watched for changes", watches(&set, ends[0], EPOLLIN | EPOLLET, &reads));
    told("there is one", is_told(&set));
    told("and not another", is_told(&set));
    EXPECT(1, write(ends[1], "x", 1));
    told("now there is", is_told_in_a_loop(&set));
    told("room is watched for", watches(&set, ends[1], EPOLLOUT, &writes));
    told("there is some", is_told(&set));
    while (write(ends[1], many, sizeof many) > 0)
        ;
    while (is_told(&set) == EPOLLIN)
        ;
    told("it is full", is_told(&set));
    told("the first is watched no more", watches_no_more(&set, reads));
    EXPECT(0, close(ends[0]));
    told("nobody reads", is_told(&set) & EPOLLERR);
    told("the other is watched no more, either", watches_no_more(&set, writes));
    told("a file is not waited for", watches(&set, file, EPOLLIN, &reads));
    close(file);
    close(ends[1]);
    told("nor what is closed", watches(&set, ends[1], EPOLLIN, &reads));
    free_set(&set);
}

/* The memory of this way. */
static void registers(void)
{
    int fd;
    if (way != MEMFD) {
        EXPECT(0, ob_register(context, MEMORY, &memory));
        return;
    }
    fd = memfd_create("against", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT(0, ftruncate(fd, (off_t)MEMORY));
    EXPECT(0, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
    EXPECT(0, ob_register_memfd(context, fd, 0, MEMORY, &memory));
    EXPECT(0, close(fd));
}

int main(int count, char **words)
{
    static const char *const ways[] = { "copies", "registered", "rooms", "posted", "memfd" };
    connection victim, control;
    place local;
    int stage;
    EXPECT(6, count);
    read_place(&address, words[2], words[3]);
    read_place(&local, words[4], "0");
    if (strcmp(words[1], "sockets")) {
        int mode = strcmp(words[1], "kernel") ? OB_ANY : OB_KERNEL;
        EXPECT(0, ob_attach(&context, NULL, "against", mode));
        EXPECT(0, ob_queue_new(context, &queue));
        while (strcmp(words[5], ways[way]))
            EXPECT(1, ++way <= MEMFD);
        registers();
        place_in(queue, memory, POSTED_FROM);
    }
    for (stage = 0; stage < 9; stage++) {
        if (stage == 8) {
            EXPECT(0, opens_from(&local, &address, &victim));
            EXPECT(0, opens(&address, &control));
        } else {
            pair(&victim, &control);
        }
        if (stage == 0)
            first_things(victim, control);
        else if (stage == 1)
            ends(victim, control);
        else if (stage == 2)
            ends_here(victim);
        else if (stage == 3)
            is_reset(victim, control);
        else if (stage == 4)
            is_reset_while_it_sends(victim, control);
        else if (stage == 5)
            is_reset_unseen(victim, control);
        else if (stage == 6)
            has_room_again(victim, control);
        else if (stage == 7)
            ways_and_options(victim, control);
        else
            from_here(victim, control, &local);
        told("it is closed", closes(victim));
        EXPECT(0, closes(control));
    }
    listeners(&local);
    descriptors();
    if (queue) {
        /* What was closed may be on its way, and its buffers the engine's. */
        EXPECT(0, ob_tell_when_free(queue, memory, 5));
        while (next().kind != OB_FREE)
            ;
        ob_queue_free(queue);
        EXPECT(0, ob_unregister(memory));
        ob_detach(context);
    }
    return 0;
}
