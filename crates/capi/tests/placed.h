/*
 * Receiving by posted buffers as if by recv(2): each connection has one, of which the program takes what has come.
 * `place_in` says where they are.
 */
#ifndef PLACED_H
#define PLACED_H

#include "expect.h"
#include "outboard.h"

#include <errno.h>
#include <string.h>

#define BUFFERS 64
#define BUFFER ((size_t)4096)
/* The cookie of the first. */
#define PLACED 1000
#define KEPT 1024

static struct buffer {
    ob_handle of;
    size_t come, taken;
    int is_posted, error;
} buffers[BUFFERS];

static ob_queue *place_queue;
static ob_memory *place_memory;
static size_t place_from;

/* Events that were taken and not asked for yet. */
static ob_event kept[KEPT];
static int kept_count;

static inline void place_in(ob_queue *queue, ob_memory *memory, size_t from)
{
    place_queue = queue;
    place_memory = memory;
    place_from = from;
}

/* Takes note of what an event tells of a buffer. */
static inline void note_placed(const ob_event *event)
{
    struct buffer *buffer;
    if (event->kind != OB_PLACED && event->kind != OB_FILLED)
        return;
    EXPECT(1, event->cookie - PLACED < BUFFERS);
    buffer = &buffers[event->cookie - PLACED];
    EXPECT(1, buffer->of == event->handle);
    EXPECT(1, buffer->is_posted && event->bytes >= buffer->come && event->bytes <= BUFFER);
    buffer->come = event->bytes;
    buffer->error = event->error;
    if (event->kind == OB_FILLED)
        buffer->is_posted = 0;
}

/* What has happened by now is taken, and kept. */
static inline void look_placed(void)
{
    int at, taken;
    while ((taken = ob_poll(place_queue, kept + kept_count, KEPT - kept_count)) > 0) {
        for (at = kept_count; at < kept_count + taken; at++)
            note_placed(kept + at);
        kept_count += taken;
    }
    EXPECT(0, taken);
}

/* The first that was kept, if there is one. */
static inline int was_kept(ob_event *out)
{
    if (kept_count == 0)
        return 0;
    *out = kept[0];
    memmove(kept, kept + 1, (size_t)--kept_count * sizeof *out);
    return 1;
}

/* As recv(2), with MSG_PEEK if it `peeks`. */
static inline long takes_placed(ob_handle from, void *bytes, size_t len, int peeks)
{
    struct buffer *buffer = buffers;
    size_t at, there;
    while (buffer->of != from && buffer->of != 0)
        EXPECT(1, ++buffer < buffers + BUFFERS);
    buffer->of = from;
    at = place_from + (size_t)(buffer - buffers) * BUFFER;
    if (!buffer->is_posted && buffer->taken == buffer->come) {
        long result = ob_post(place_queue, from, place_memory, at, BUFFER, PLACED + (uint64_t)(buffer - buffers));
        if (result < 0)
            return result;
        buffer->is_posted = 1;
        buffer->come = buffer->taken = 0;
    }
    look_placed();
    there = buffer->come - buffer->taken;
    if (there == 0)
        return buffer->is_posted ? -EAGAIN : -buffer->error;
    if (len > there)
        len = there;
    memcpy(bytes, (char *)ob_memory_data(place_memory) + at + buffer->taken, len);
    buffer->taken += peeks ? 0 : len;
    return (long)len;
}

#endif
