/*
 * Descriptors that are waited for: by a queue, or by a set of epoll(7).
 */
#ifndef WATCHED_H
#define WATCHED_H

#include "expect.h"
#include "outboard.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

/* One of both. */
struct set {
    ob_queue *queue; /* NULL: by epoll */
    int epoll;
};

/* An empty one: a queue of a context, or (NULL) by epoll. */
static inline struct set new_set(const ob_context *context)
{
    struct set set = { NULL, -1 };
    if (context)
        EXPECT(0, ob_queue_new(context, &set.queue));
    else
        set.epoll = epoll_create1(EPOLL_CLOEXEC);
    return set;
}

static inline void free_set(const struct set *set)
{
    ob_queue_free(set->queue);
    if (!set->queue)
        close(set->epoll);
}

static inline long watches(const struct set *set, int fd, uint32_t bits, uint64_t *out)
{
    struct epoll_event wanted = { .events = bits };
    if (set->queue)
        return ob_watch(set->queue, fd, bits, 11, out);
    *out = (uint64_t)fd;
    return epoll_ctl(set->epoll, EPOLL_CTL_ADD, fd, &wanted) < 0 ? -errno : 0;
}

static inline long watches_no_more(const struct set *set, uint64_t of)
{
    if (set->queue)
        return ob_close(set->queue, of);
    return epoll_ctl(set->epoll, EPOLL_CTL_DEL, (int)of, NULL) < 0 ? -errno : 0;
}

/* The bits that are told now, or 0. */
static inline long is_told(const struct set *set)
{
    struct epoll_event told;
    ob_event event;
    int taken;
    if (!set->queue) {
        taken = epoll_wait(set->epoll, &told, 1, 0);
        return taken == 1 ? (long)told.events : taken;
    }
    taken = ob_poll(set->queue, &event, 1);
    if (taken == 1)
        EXPECT(1, event.kind == OB_READY && event.cookie == 11);
    return taken == 1 ? (long)event.bytes : taken;
}

/* The same by a loop that waits for the set itself, which may be told where there is nothing. */
static inline long is_told_in_a_loop(const struct set *set)
{
    struct pollfd waits = { .fd = set->epoll, .events = POLLIN };
    long told = 0;
    int limit, is_ready;
    if (!set->queue)
        return poll(&waits, 1, 0) == 1 ? is_told(set) : 0;
    waits.fd = ob_queue_fd(set->queue);
    do {
        limit = ob_arm(set->queue);
        EXPECT(1, limit >= -1);
        is_ready = limit == 0 || poll(&waits, 1, 0) == 1;
        EXPECT(0, ob_disarm(set->queue));
    } while (is_ready && (told = is_told(set)) == 0);
    return told;
}

#endif
