/*
 * What outboard.h says of the child of a fork that goes on without exec. Its parent's connection to an echo is the
 * engine's, or the kernel's; another one comes to it from within this machine, which the kernel has in any case.
 *
 *   forks connect any|kernel ADDRESS PORT 0|1
 */
#define _GNU_SOURCE
#include "expect.h"
#include "outboard.h"
#include "place.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANG_MS 60000

static ob_queue *queue;

static void until(uint32_t kind)
{
    ob_event event;
    do {
        EXPECT(1, ob_wait(queue, &event, 1, HANG_MS));
        EXPECT(0, event.error);
    } while (event.kind != kind);
}

/* What comes. */
static void receive(ob_handle connection, const char *word)
{
    ssize_t got;
    char byte;
    for (; *word; word++) {
        while ((got = ob_recv(queue, connection, &byte, 1, 0)) == -EAGAIN)
            until(OB_RECEIVE);
        EXPECT(1, got);
        EXPECT(*word, byte);
    }
}

static void echoes(ob_handle connection, const char *word)
{
    EXPECT(strlen(word), ob_send(queue, connection, word, strlen(word), 0, 0));
    receive(connection, word);
}

/* Whether one can listen at an address. */
static int listens(const place *at)
{
    int fd = socket(at->any.sa_family, SOCK_STREAM, 0), on = 1, result;
    EXPECT(1, fd >= 0);
    EXPECT(0, setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    result = bind(fd, &at->any, len_of(at)) || listen(fd, 1) ? -errno : 0;
    EXPECT(0, close(fd));
    return result;
}

int main(int count, char **words)
{
    place far, here;
    socklen_t len;
    ob_handle connection, listener, accepted;
    int offloaded, client, status, to_child[2], of_child[2];
    struct pollfd ends;
    ob_context *context;
    ob_memory *memory;
    ob_span view, room;
    ob_info info;
    char byte;
    pid_t child;
    if (count != 6)
        return 2;
    offloaded = atoi(words[5]);
    EXPECT(0, ob_attach(&context, NULL, "forks", strcmp(words[2], "any") ? OB_KERNEL : OB_ANY));
    EXPECT(0, ob_queue_new(context, &queue));
    read_place(&far, words[3], words[4]);
    EXPECT(0, ob_connect(queue, &far.any, len_of(&far), NULL, 0, 0, &connection));
    until(OB_OPEN);
    EXPECT(0, ob_get_info(queue, connection, &info));
    EXPECT(offloaded, info.offloaded);

    memset(&here, 0, sizeof here);
    here.any.sa_family = far.any.sa_family;
    len = len_of(&here);
    EXPECT(0, ob_listen(queue, &here.any, len, 4, 0, &listener));
    EXPECT(0, ob_local(queue, listener, &here.any, &len));
    EXPECT(1, inet_pton(here.any.sa_family, here.any.sa_family == AF_INET ? "127.0.0.1" : "::1", host_of(&here)));
    client = socket(here.any.sa_family, SOCK_STREAM, 0);
    EXPECT(0, connect(client, &here.any, len));
    until(OB_ACCEPT);
    EXPECT(0, ob_accept(queue, listener, 0, &accepted));

    /* Something is lent of each kind, and something registered. */
    EXPECT(0, ob_register(context, 100000, &memory));
    EXPECT(4, ob_send(queue, connection, "view", 4, 0, 0));
    until(OB_RECEIVE);
    EXPECT(1, ob_view(queue, connection, 1, &view));
    EXPECT(0, ob_room(queue, connection, 100, &room));

    EXPECT(0, pipe(to_child));
    EXPECT(0, pipe(of_child));
    child = fork();
    if (child == 0) {
        ob_queue_free(queue);
        ob_detach(context);
        EXPECT(0, close(to_child[1]));
        EXPECT(1, write(of_child[1], "f", 1));
        /* And lives. */
        EXPECT(0, read(to_child[0], &byte, 1));
        _exit(0);
    }
    EXPECT(1, read(of_child[0], &byte, 1));
    EXPECT(-EADDRINUSE, listens(&here));
    EXPECT(0, ob_close(queue, accepted));
    ends.fd = client;
    ends.events = POLLIN;
    EXPECT(1, poll(&ends, 1, HANG_MS));
    EXPECT(0, read(client, &byte, 1));
    EXPECT(0, close(client));
    EXPECT(0, ob_close(queue, listener));
    EXPECT(0, listens(&here));

    EXPECT('v', *(char *)view.data);
    EXPECT(0, ob_release(queue, view.id));
    memcpy(room.data, "room", 4);
    EXPECT(0, ob_commit(queue, room.id, 4, 0, 0));
    receive(connection, "iewroom");
    echoes(connection, "as before");
    EXPECT(0, ob_unregister(memory));
    EXPECT(0, close(to_child[1]));
    EXPECT(child, waitpid(child, &status, 0));
    EXPECT(0, status);
    echoes(connection, "and behind it");
    EXPECT(0, ob_close(queue, connection));
    ob_queue_free(queue);
    ob_detach(context);
    puts("all as outboard.h says");
    return 0;
}
