/*
 * What outboard.h says of several queues, and of several threads in one. Both ends of each connection are the
 * program's own, at the kernel.
 *
 *   queues
 */
#define _GNU_SOURCE
#include "expect.h"
#include "outboard.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>

#define HANG_MS 60000

struct ends {
    ob_queue *queue;
    ob_handle opened, accepted;
};

static void make(ob_context *context, struct ends *ends)
{
    struct sockaddr_in here;
    socklen_t len = sizeof here;
    ob_handle listener;
    ob_event event;
    int open = 0, accepted = 0;
    memset(&here, 0, sizeof here);
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT(0, ob_queue_new(context, &ends->queue));
    EXPECT(0, ob_listen(ends->queue, (struct sockaddr *)&here, len, 4, 0, &listener));
    EXPECT(0, ob_local(ends->queue, listener, (struct sockaddr *)&here, &len));
    EXPECT(0, ob_connect(ends->queue, (struct sockaddr *)&here, len, NULL, 0, 0, &ends->opened));
    while (!open || !accepted) {
        EXPECT(1, ob_wait(ends->queue, &event, 1, HANG_MS));
        open |= event.kind == OB_OPEN && event.error == 0;
        accepted |= event.kind == OB_ACCEPT
                    && ob_accept(ends->queue, listener, 0, &ends->accepted) == 0;
    }
}

static ob_span shown(struct ends *ends)
{
    ob_event event;
    ob_span view;
    int result;
    EXPECT(4, ob_send(ends->queue, ends->opened, "data", 4, 0, 0));
    while ((result = ob_view(ends->queue, ends->accepted, 2, &view)) == -EAGAIN)
        EXPECT(1, ob_wait(ends->queue, &event, 1, HANG_MS));
    EXPECT(1, result);
    return view;
}

/* A handle is nothing in another queue. What is lent has a number of its own. */
static void lent(struct ends *one, struct ends *other)
{
    ob_span mine = shown(one), theirs = shown(other), room, their_room, second;
    char bytes[8];
    EXPECT(1, one->accepted != other->accepted && mine.id != theirs.id);
    EXPECT(-EBADF, ob_send(other->queue, one->accepted, "x", 1, 0, 0));
    EXPECT(-EBADF, ob_set(one->queue, other->opened, OB_NODELAY, 1));
    EXPECT(-EBADF, ob_close(other->queue, one->accepted));
    EXPECT(-EINVAL, ob_release(other->queue, mine.id));
    EXPECT(-EBUSY, ob_recv(other->queue, other->accepted, bytes, 8, 0));
    EXPECT(0, ob_release(other->queue, theirs.id));
    EXPECT(-EINVAL, ob_release(other->queue, theirs.id));
    EXPECT(2, ob_recv(other->queue, other->accepted, bytes, 8, 0));
    EXPECT(-EBUSY, ob_recv(one->queue, one->accepted, bytes, 8, 0));
    EXPECT(0, ob_room(one->queue, one->opened, 8, &room));
    EXPECT(0, ob_room(other->queue, other->opened, 8, &their_room));
    EXPECT(-EINVAL, ob_commit(other->queue, room.id, 1, 0, 0));
    EXPECT(-EINVAL, ob_abandon(other->queue, room.id));
    EXPECT(-EINVAL, ob_abandon(one->queue, mine.id));
    EXPECT(-EINVAL, ob_release(one->queue, room.id));
    EXPECT(0, ob_abandon(other->queue, their_room.id));
    EXPECT(0, ob_commit(one->queue, room.id, 1, 0, 0));
    /* In any order, and what is left is void when the connection is closed. */
    EXPECT(1, ob_view(one->queue, one->accepted, 1, &second));
    EXPECT(0, ob_release(one->queue, mine.id));
    EXPECT(1, ob_view(one->queue, one->accepted, 1, &mine));
    EXPECT(0, ob_close(one->queue, one->accepted));
    EXPECT(-EINVAL, ob_release(one->queue, second.id));
    EXPECT(-EINVAL, ob_release(one->queue, mine.id));
}

static ob_queue *shared;

static void *waits(void *event)
{
    int taken;
    while ((taken = ob_wait(shared, (ob_event *)event, 1, HANG_MS)) == -EBUSY)
        ;
    EXPECT(1, taken);
    return NULL;
}

/* Of two calls at once in one queue the second is refused, and nothing happens. */
static void two_threads(ob_context *context)
{
    ob_event event, other;
    ob_info info;
    pthread_t waiter;
    EXPECT(0, ob_queue_new(context, &shared));
    EXPECT(0, pthread_create(&waiter, NULL, waits, &event));
    /* Until the other is inside. */
    while (ob_poll(shared, &other, 1) != -EBUSY)
        ;
    EXPECT(-EBUSY, ob_send(shared, 0, "x", 1, 0, 0));
    EXPECT(-EBUSY, ob_get_info(shared, 0, &info));
    EXPECT(-EBUSY, ob_arm(shared));
    EXPECT(-EBUSY, ob_close(shared, 0));
    EXPECT(1, ob_queue_fd(shared) >= 0);
    EXPECT(0, ob_wake(shared));
    EXPECT(0, pthread_join(waiter, NULL));
    EXPECT(OB_WAKE, event.kind);
    EXPECT(0, ob_poll(shared, &other, 1));
    ob_queue_free(shared);
}

int main(void)
{
    struct ends one, other;
    ob_context *context;
    EXPECT(0, ob_attach(&context, NULL, "queues", OB_KERNEL));
    make(context, &one);
    make(context, &other);
    lent(&one, &other);
    two_threads(context);
    ob_queue_free(one.queue);
    ob_queue_free(other.queue);
    ob_detach(context);
    puts("all as outboard.h says");
    return 0;
}
