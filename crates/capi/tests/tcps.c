/*
 * A program of the paper's calls, in tcps.h: serves one client that echoes, and uses another.
 * `tcps listen|connect ADDRESS PORT`.
 */
#include "tcps.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/wait.h>

#define EXPECT(expected, call)                                                            \
    do {                                                                                  \
        long result_ = (long)(call);                                                      \
        if (result_ != (long)(expected)) {                                                \
            fprintf(stderr, "tcps.c:%d: %s gives %ld, errno %d\n", __LINE__, #call, result_, errno); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

static int connection;

/* All that comes is echoed by the peer. */
static void receive(const char *expected, int len)
{
    static char got[1 << 16];
    int done = 0;
    while (done < len) {
        int want = len - done < (int)sizeof got ? len - done : (int)sizeof got;
        int more = tcps_recv(connection, got, want, 0);
        if (more <= 0 || memcmp(got, expected + done, (size_t)more)) {
            fprintf(stderr, "tcps.c: after %d bytes: %d\n", done, more);
            exit(1);
        }
        done += more;
    }
}

static void *receives(void *expected)
{
    receive((const char *)expected, 1 << 20);
    return NULL;
}

static void *waits(void *byte)
{
    EXPECT(1, tcps_recv(connection, byte, 1, 0));
    return NULL;
}

/* A child that begins anew: both ends of a connection of its own. */
static void be_the_child(int gone)
{
    struct sockaddr_in here;
    int listener, opened, accepted;
    char byte = 0;
    alarm(60);
    EXPECT(-1, tcps_send(gone, &byte, 1, 0));
    EXPECT(EBADF, errno);
    EXPECT(-1, tcps_close(gone));
    EXPECT(EBADF, errno);
    EXPECT(-1, fcntl(gone, F_GETFD));
    memset(&here, 0, sizeof here);
    here.sin_family = AF_INET;
    /* Below those that an engine takes to connect from, of which it may hold any. */
    here.sin_port = htons(4568);
    EXPECT(1, (listener = tcps_socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    EXPECT(0, tcps_bind(listener, (struct sockaddr *)&here, sizeof here));
    EXPECT(0, tcps_listen(listener, 8));
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT(1, (opened = tcps_socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    EXPECT(0, tcps_connect(opened, (struct sockaddr *)&here, sizeof here));
    EXPECT(1, (accepted = tcps_accept(listener, NULL, NULL)) >= 0);
    EXPECT(1, tcps_send(opened, "c", 1, 0));
    EXPECT(1, tcps_recv(accepted, &byte, 1, 0));
    EXPECT('c', byte);
    EXPECT(0, tcps_close(opened));
    EXPECT(0, tcps_recv(accepted, &byte, 1, 0));
    EXPECT(0, tcps_close(accepted));
    EXPECT(0, tcps_close(listener));
}

/* Forks while a thread waits for the connection, which then goes on. */
static void forks(void)
{
    pthread_t waiter;
    char byte = 0;
    int status = -1, at;
    pid_t child;
    EXPECT(0, pthread_create(&waiter, NULL, waits, &byte));
    for (at = 0; at < 3; at++) {
        child = fork();
        if (child == 0) {
            be_the_child(connection);
            _exit(0);
        }
        EXPECT(child, waitpid(child, &status, 0));
        EXPECT(0, status);
    }
    EXPECT(1, tcps_send(connection, "p", 1, 0));
    EXPECT(0, pthread_join(waiter, NULL));
    EXPECT('p', byte);
}

/* Its peer reads nothing. */
static int victim;

static void *closes_victim(void *result)
{
    /* It waits by now, or finds it closed, which is the same. */
    (void)result;
    poll(NULL, 0, 20);
    EXPECT(0, tcps_close(victim));
    return NULL;
}

static void make_pair(int *opened, int *accepted);

/* What the program closes ends while a child lives that was forked before. */
static void outlived(void)
{
    int opened, accepted, status = -1, lives[2];
    char byte;
    pid_t child;
    make_pair(&opened, &accepted);
    EXPECT(0, pipe(lives));
    child = fork();
    if (child == 0) {
        close(lives[1]);
        EXPECT(0, read(lives[0], &byte, 1));
        _exit(0);
    }
    EXPECT(0, close(lives[0]));
    EXPECT(0, tcps_close(opened));
    alarm(60);
    EXPECT(0, tcps_recv(accepted, &byte, 1, 0));
    alarm(300);
    EXPECT(0, tcps_close(accepted));
    EXPECT(0, close(lives[1]));
    EXPECT(child, waitpid(child, &status, 0));
    EXPECT(0, status);
}

/* Both ends of a connection of the program's own. */
static void make_pair(int *opened, int *accepted)
{
    struct sockaddr_in here;
    int listener;
    memset(&here, 0, sizeof here);
    here.sin_family = AF_INET;
    here.sin_port = htons(4569);
    EXPECT(1, (listener = tcps_socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    EXPECT(0, tcps_bind(listener, (struct sockaddr *)&here, sizeof here));
    EXPECT(0, tcps_listen(listener, 8));
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT(1, (*opened = tcps_socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    EXPECT(0, tcps_connect(*opened, (struct sockaddr *)&here, sizeof here));
    EXPECT(1, (*accepted = tcps_accept(listener, NULL, NULL)) >= 0);
    EXPECT(0, tcps_close(listener));
}

/* Who asks by waiting for no time at all is told, too. */
static void asked_without_waiting(void)
{
    NS_MEM_HANDLE memory;
    NS_IO_RESULT result;
    int opened, accepted, tries;
    make_pair(&opened, &accepted);
    EXPECT(0, tcps_register_memory(NULL, 100, &memory));
    EXPECT(100, tcps_send_async_registered(opened, tcps_registered(memory), 100, 0, memory, &result));
    for (tries = 0; tries < 10000 && tcps_io_wait(&result, 0); tries++) {
        EXPECT(ETIMEDOUT, errno);
        poll(NULL, 0, 5);
    }
    EXPECT(0, tcps_io_wait(&result, 0));
    EXPECT(100, result.bytes);
    EXPECT(0, tcps_deregister_memory(NULL, memory));
    EXPECT(0, tcps_close(opened));
    EXPECT(0, tcps_close(accepted));
}

/* A socket that could not be connected can be later. */
static void connected_at_last(void)
{
    struct sockaddr_in here;
    int listener, opened, tries;
    memset(&here, 0, sizeof here);
    here.sin_family = AF_INET;
    here.sin_port = htons(4571);
    EXPECT(1, (opened = tcps_socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (tries = 0; tries < 2; tries++) {
        EXPECT(-1, tcps_connect(opened, (struct sockaddr *)&here, sizeof here));
        EXPECT(ECONNREFUSED, errno);
    }
    here.sin_addr.s_addr = htonl(INADDR_ANY);
    EXPECT(1, (listener = tcps_socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    EXPECT(0, tcps_bind(listener, (struct sockaddr *)&here, sizeof here));
    EXPECT(0, tcps_listen(listener, 8));
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT(0, tcps_connect(opened, (struct sockaddr *)&here, sizeof here));
    EXPECT(1, tcps_send(opened, "x", 1, 0));
    EXPECT(0, tcps_close(opened));
    EXPECT(0, tcps_close(listener));
}

/* Who waits for a send whose socket another thread closes does not wait for ever. */
static void closed_meanwhile(void)
{
    static NS_IO_RESULT results[64];
    NS_MEM_HANDLE memory;
    pthread_t closer;
    int peer, at, way, sent, number;
    EXPECT(0, tcps_register_memory(NULL, 1 << 20, &memory));
    for (way = 0; way < 3; way++) {
        make_pair(&victim, &peer);
        number = victim;
        if (way == 2) {
            EXPECT(0, pthread_create(&closer, NULL, closes_victim, NULL));
            for (at = 0; (sent = tcps_send_registered(number, tcps_registered(memory), 1 << 20, 0, memory)) > 0; at++)
                ;
            EXPECT(-1, sent);
            EXPECT(1, errno == ECONNABORTED || errno == EBADF);
        } else {
            /* The peer has room for these, and not for what follows. */
            for (at = 0; at < 4; at++)
                EXPECT(1 << 16, tcps_send_async_registered(number, tcps_registered(memory), 1 << 16, 0,
                                                           memory, &results[at]));
            EXPECT(0, pthread_create(&closer, NULL, closes_victim, NULL));
            while (tcps_io_wait(&results[at - 1], way ? TCPS_FOREVER : 60000) == 0)
                if (tcps_send_async_registered(number, tcps_registered(memory), 1 << 20, 0, memory,
                                               &results[at - 1]) < 0) {
                    /* It was closed in between. */
                    EXPECT(EBADF, errno);
                    errno = ECONNABORTED;
                    break;
                }
            EXPECT(ECONNABORTED, errno);
        }
        EXPECT(0, pthread_join(closer, NULL));
        for (at = 0; at < 4 && way < 2; at++)
            EXPECT(1, tcps_io_done(&results[at]));
        EXPECT(0, tcps_close(peer));
    }
    /* The kernel has copied all of it. */
    EXPECT(0, tcps_deregister_memory(NULL, memory));
}

int main(int count, char **words)
{
    static char own[1 << 20], *twin;
    struct sockaddr_in address, other;
    int len = sizeof other, at, listener = -1;
    NS_MEM_HANDLE memory, made;
    NS_IO_RESULT results[4];
    pthread_t reader;
    char byte;
    if (count != 4)
        return 2;
    /* What waits for ever is a failure, too. */
    alarm(300);
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((unsigned short)atoi(words[3]));
    inet_pton(AF_INET, words[2], &address.sin_addr);
    EXPECT(-1, tcps_socket(AF_INET, SOCK_DGRAM, 0));
    EXPECT(1, (connection = tcps_socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    if (!strcmp(words[1], "listen")) {
        listener = connection;
        EXPECT(-1, tcps_listen(listener, 8));
        EXPECT(0, tcps_bind(listener, (struct sockaddr *)&address, sizeof address));
        EXPECT(0, tcps_listen(listener, 8));
        connection = tcps_accept(listener, &other, &len);
        EXPECT(1, connection >= 0);
        EXPECT(sizeof other, len);
        EXPECT(AF_INET, other.sin_family);
    } else {
        /* From an address and port of its own. */
        struct sockaddr_in own_end;
        memset(&own_end, 0, sizeof own_end);
        own_end.sin_family = AF_INET;
        /* Another where the kernel may still remember the first. */
        own_end.sin_port = htons(ob_is_attached(tcps_.context) ? 45679 : 45678);
        EXPECT(0, tcps_bind(connection, (struct sockaddr *)&own_end, sizeof own_end));
        EXPECT(0, tcps_connect(connection, (struct sockaddr *)&address, sizeof address));
        EXPECT(-1, tcps_connect(connection, (struct sockaddr *)&address, sizeof address));
        EXPECT(EISCONN, errno);
    }
    for (at = 0; at < (int)sizeof own; at++)
        own[at] = (char)(at * 7 + at / 251);
    EXPECT(-1, tcps_recv(connection, &byte, 1, MSG_DONTWAIT));
    EXPECT(EAGAIN, errno);
    EXPECT(1000, tcps_send(connection, own, 1000, 0));
    receive(own, 1000);

    forks();
    outlived();
    closed_meanwhile();
    asked_without_waiting();
    connected_at_last();

    EXPECT(0, tcps_register_memory(own, sizeof own, &memory));
    EXPECT(100, tcps_send_registered(connection, own + 50, 100, 0, memory));
    receive(own + 50, 100);
    EXPECT(-1, tcps_send_registered(connection, own + sizeof own - 10, 11, 0, memory));
    EXPECT(EINVAL, errno);
    EXPECT(-1, tcps_send_registered(connection, words, 1, 0, memory));
    /* What comes back goes into the program's memory or into its twin, and nowhere else. */
    for (at = 0; at < 2; at++) {
        char *to = (at ? (char *)tcps_registered(memory) : own) + 2000;
        EXPECT(10, tcps_send(connection, "0123456789", 10, 0));
        for (len = 0; len < 10;) {
            int more = tcps_recv_registered(connection, to + len, 100, 0, memory);
            EXPECT(1, more > 0);
            len += more;
        }
        EXPECT(0, memcmp(to, "0123456789", 10));
    }
    EXPECT(-1, tcps_recv_registered(connection, own + sizeof own - 10, 11, MSG_DONTWAIT, memory));
    EXPECT(EINVAL, errno);
    EXPECT(-1, tcps_recv_registered(connection, own + sizeof own - 10, 10, MSG_DONTWAIT, memory));
    EXPECT(EAGAIN, errno);
    EXPECT(-1, tcps_recv_registered(connection, &byte, 1, MSG_DONTWAIT, memory));
    EXPECT(EINVAL, errno);
    EXPECT(-1, tcps_recv_registered(connection, own, 1, MSG_DONTWAIT, NULL));
    EXPECT(EINVAL, errno);
    /* A thread reads while another sends more than any buffer holds. */
    EXPECT(0, pthread_create(&reader, NULL, receives, own));
    for (at = 0; at < 4; at++)
        EXPECT(1 << 18, tcps_send_async_registered(connection, own + (at << 18), 1 << 18, 0, memory,
                                                   &results[at]));
    for (at = 0; at < 4; at++) {
        EXPECT(0, tcps_io_wait(&results[at], TCPS_FOREVER));
        EXPECT(1, tcps_io_done(&results[at]));
        EXPECT(1 << 18, results[at].bytes);
    }
    EXPECT(0, pthread_join(reader, NULL));
    EXPECT(-1, tcps_deregister_memory(NULL, memory));
    EXPECT(0, tcps_deregister_memory(own, memory));

    EXPECT(0, tcps_register_memory(NULL, 5000, &made));
    twin = (char *)tcps_registered(made);
    memcpy(twin, own, 5000);
    EXPECT(5000, tcps_send_async_registered(connection, twin, 5000, 0, made, &results[0]));
    EXPECT(0, tcps_io_wait(&results[0], 60000));
    receive(own, 5000);
    EXPECT(0, tcps_deregister_memory(NULL, made));
    /* Nothing that could be done. */
    results[0].pending = 1;
    EXPECT(0, tcps_io_done(&results[0]));
    EXPECT(-1, tcps_io_wait(&results[0], 1));
    EXPECT(ETIMEDOUT, errno);

    EXPECT(0, tcps_close(connection));
    EXPECT(-1, tcps_close(connection));
    EXPECT(EBADF, errno);
    EXPECT(-1, tcps_send(connection, own, 1, 0));
    EXPECT(EBADF, errno);
    if (listener >= 0)
        EXPECT(0, tcps_close(listener));
    puts("all as tcps.h says");
    return 0;
}
