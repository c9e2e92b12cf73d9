/*
 * How much comes before a program receives: no more than OB_RECEIVE_BUFFER says (and an eighth, on the engine), and more
 * if that says more. The peer echoes.
 *
 *   ahead connect any|engine|kernel ADDRESS PORT OFFLOADED
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

#define LITTLE ((uint32_t)64 << 10)
#define MUCH ((uint32_t)1 << 20)
/* More than all buffers on the way have room for, so that it is the receiver that stops them. */
#define MOST ((size_t)64 << 20)

static ob_queue *queue;
static char bytes[1 << 16];

/* Sends until nothing moves any more, and receives nothing. The most that has waited meanwhile. */
static uint64_t send_all_that_goes(ob_handle connection, size_t *sent)
{
    uint64_t most = 0;
    int quiet = 0;
    while (quiet < 5 && *sent < MOST) {
        ob_event event;
        ob_info info;
        ssize_t more = ob_send(queue, connection, bytes, sizeof bytes, 0, 0);
        EXPECT(1, more > 0 || more == -EAGAIN);
        if (more > 0)
            *sent += (size_t)more;
        else
            quiet = ob_wait(queue, &event, 1, 100) == 1 ? 0 : quiet + 1;
        EXPECT(0, ob_get_info(queue, connection, &info));
        if (info.unread > most)
            most = info.unread;
    }
    return most;
}

static void receive_all(ob_handle connection, size_t len)
{
    while (len > 0) {
        ob_event event;
        ssize_t read = ob_recv(queue, connection, bytes, len < sizeof bytes ? len : sizeof bytes, 0);
        EXPECT(1, read > 0 || read == -EAGAIN);
        if (read > 0)
            len -= (size_t)read;
        else
            EXPECT(1, ob_wait(queue, &event, 1, 60000));
    }
}

int main(int count, char **words)
{
    ob_setting little = { OB_RECEIVE_BUFFER, LITTLE };
    ob_handle connection;
    ob_context *context;
    ob_info info;
    place address;
    uint64_t ahead;
    size_t sent = 0;
    int mode;
    EXPECT(6, count);
    mode = mode_of(words[2]);
    read_place(&address, words[3], words[4]);
    EXPECT(0, ob_attach(&context, NULL, "ahead", mode));
    EXPECT(0, ob_queue_new(context, &queue));
    EXPECT(0, ob_connect(queue, &address.any, len_of(&address), &little, 1, 4, &connection));
    while (ob_send(queue, connection, "", 0, 0, 0) == -ENOTCONN) {
        ob_event event;
        EXPECT(1, ob_wait(queue, &event, 1, 60000));
        EXPECT(0, event.error);
    }
    EXPECT(0, ob_get_info(queue, connection, &info));
    EXPECT(words[5][0] == '1', info.offloaded);
    ahead = send_all_that_goes(connection, &sent);
    EXPECT(1, sent < MOST);
    if (ahead == 0 || ahead > LITTLE + LITTLE / 8)
        EXPECT(LITTLE, ahead);
    receive_all(connection, sent);
    if (info.offloaded) {
        /* It was the option, and no other bound. */
        sent = 0;
        EXPECT(0, ob_set(queue, connection, OB_RECEIVE_BUFFER, MUCH));
        ahead = send_all_that_goes(connection, &sent);
        EXPECT(1, sent < MOST);
        if (ahead <= LITTLE + LITTLE / 8 || ahead > MUCH + MUCH / 8)
            EXPECT(MUCH, ahead);
        receive_all(connection, sent);
    }
    EXPECT(0, ob_close(queue, connection));
    ob_queue_free(queue);
    ob_detach(context);
    puts("all as outboard.h says");
    return 0;
}
