/*
 * Has everything that a program can have of an engine's memory, and waits to be killed.
 *
 *   dies ADDRESS PORT
 *
 * Accepts two connections: of the first it sends more than the peer takes, from registered memory, which is a
 * memory file of its own or the engine's; of the second it looks at what came, has filled a room, and wants to
 * receive into registered memory. Says "has it all" then.
 */
#define _GNU_SOURCE
#include "expect.h"
#include "outboard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static ob_queue *queue;

static ob_handle next_connection(ob_handle listener)
{
    ob_handle accepted;
    ob_event event;
    int result;
    while ((result = ob_accept(queue, listener, 2, &accepted)) == -EAGAIN)
        EXPECT(1, ob_wait(queue, &event, 1, 60000));
    EXPECT(0, result);
    return accepted;
}

int main(int count, char **words)
{
    /* More than a peer that does not read takes. */
    size_t len = 32 << 20;
    struct sockaddr_in address;
    ob_handle listener, first, second;
    ob_context *context;
    ob_memory *memory, *other, *own;
    ob_span span, room;
    ob_event event;
    ssize_t sent, all = 0;
    int result, fd = memfd_create("dies", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (count != 3)
        return 2;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(words[2]));
    EXPECT(1, inet_pton(AF_INET, words[1], &address.sin_addr));
    EXPECT(0, ob_attach(&context, NULL, "dies", OB_ENGINE));
    EXPECT(0, ob_queue_new(context, &queue));
    EXPECT(0, ob_register(context, len, &memory));
    EXPECT(0, ob_register(context, 100000, &other));
    memset(ob_memory_data(memory), 'x', len);
    EXPECT(0, ftruncate(fd, 8 << 20));
    EXPECT(0, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
    EXPECT(0, ob_register_memfd(context, fd, 0, 8 << 20, &own));
    close(fd);
    EXPECT(0, ob_listen(queue, (struct sockaddr *)&address, sizeof address, 16, 1, &listener));
    first = next_connection(listener);
    second = next_connection(listener);
    EXPECT(0, ob_set(queue, first, OB_SEND_BUFFER, 16 << 20));
    EXPECT(8 << 20, ob_send_registered(queue, first, own, 0, 8 << 20, OB_ASYNC, 9));
    while ((sent = ob_send_registered(queue, first, memory, (size_t)all, len - (size_t)all, OB_ASYNC,
                                      9)) > 0)
        all += sent;
    EXPECT(-EAGAIN, sent);
    while ((result = ob_view(queue, second, 3, &span)) == -EAGAIN)
        EXPECT(1, ob_wait(queue, &event, 1, 60000));
    EXPECT(1, result);
    EXPECT(0, ob_release(queue, span.id));
    /* One view stays lent. */
    while ((result = ob_view(queue, first, 3, &span)) == -EAGAIN)
        EXPECT(1, ob_wait(queue, &event, 1, 60000));
    EXPECT(1, result);
    EXPECT(0, ob_post(queue, second, other, 0, 1000, 3));
    EXPECT(0, ob_post(queue, second, other, 1000, 50000, 4));
    EXPECT(0, ob_room(queue, second, 5000, &room));
    memset(room.data, 'y', room.len);
    EXPECT(-EBUSY, ob_unregister(memory));
    EXPECT(-EBUSY, ob_unregister(other));
    EXPECT(-EBUSY, ob_unregister(own));
    puts("has it all");
    fflush(stdout);
    for (;;)
        pause();
}
