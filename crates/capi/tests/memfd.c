/*
 * Registered memory that is part of a memory file of the program's own, on one connection to a peer that echoes.
 *
 *   memfd connect any|engine|kernel ADDRESS PORT OFFLOADED
 *
 * Ends with 0, and "all as outboard.h says", if it is.
 */
#define _GNU_SOURCE
#include "expect.h"
#include "outboard.h"
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE ((size_t)4 << 20) /* bytes of the file */
#define FROM ((size_t)4099)    /* where the part begins: not at a page's edge */
#define LEN ((size_t)3 << 20)

static ob_queue *queue;
static unsigned sent_count, placed;

/* Takes what has happened; counts sends that came back, and bytes of the posted buffer that did. */
static int look(int milliseconds)
{
    ob_event events[64];
    int at, taken = ob_wait(queue, events, 64, milliseconds);
    for (at = 0; at < taken; at++) {
        if (events[at].kind == OB_SENT) {
            EXPECT(0, events[at].error);
            EXPECT(7, events[at].cookie);
            sent_count++;
        }
        if (events[at].kind == OB_FILLED) {
            EXPECT(0, events[at].error);
            placed += (unsigned)events[at].bytes;
        }
    }
    return taken;
}

static void until_sent(unsigned count)
{
    int turns;
    for (turns = 0; sent_count < count; turns++) {
        EXPECT(1, turns < 60);
        look(1000);
    }
    EXPECT(count, sent_count);
}

static void receive(ob_handle connection, const void *expected, size_t len)
{
    static char out[1 << 16];
    size_t done = 0;
    while (done < len) {
        size_t want = len - done < sizeof out ? len - done : sizeof out;
        ssize_t read = ob_recv(queue, connection, out, want, 0);
        if (read == -EAGAIN) {
            look(60000);
            continue;
        }
        EXPECT(1, read > 0);
        EXPECT(0, memcmp(out, (const char *)expected + done, (size_t)read));
        done += (size_t)read;
    }
}

static int memory_file(int seals)
{
    int fd = memfd_create("registered", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT(1, fd >= 0);
    EXPECT(0, ftruncate(fd, (off_t)SIZE));
    EXPECT(0, fcntl(fd, F_ADD_SEALS, seals));
    return fd;
}

static void what_cannot_be(ob_context *context, int fd)
{
    ob_memory *none = NULL;
    char path[64];
    int pipes[2], other;
    EXPECT(-EINVAL, ob_register_memfd(NULL, fd, 0, SIZE, &none));
    EXPECT(-EINVAL, ob_register_memfd(context, fd, 0, SIZE, NULL));
    EXPECT(-EBADF, ob_register_memfd(context, -1, 0, SIZE, &none));
    EXPECT(-EBADF, ob_register_memfd(context, 9999, 0, SIZE, &none));
    EXPECT(-EINVAL, ob_register_memfd(context, fd, 0, 0, &none));
    EXPECT(-EINVAL, ob_register_memfd(context, fd, 0, SIZE + 1, &none));
    EXPECT(-EINVAL, ob_register_memfd(context, fd, SIZE, 1, &none));
    EXPECT(-EINVAL, ob_register_memfd(context, fd, UINT64_MAX, 2, &none));
    EXPECT(0, pipe(pipes));
    EXPECT(-EINVAL, ob_register_memfd(context, pipes[0], 0, 1, &none));
    close(pipes[0]);
    close(pipes[1]);
    other = open("/proc/self/exe", O_RDONLY);
    EXPECT(-EINVAL, ob_register_memfd(context, other, 0, 1, &none));
    close(other);
    sprintf(path, "/proc/self/fd/%d", fd);
    other = open(path, O_RDONLY);
    EXPECT(-EACCES, ob_register_memfd(context, other, 0, SIZE, &none));
    close(other);
    other = memory_file(F_SEAL_GROW);
    EXPECT(-EPERM, ob_register_memfd(context, other, 0, SIZE, &none));
    close(other);
    other = memory_file(F_SEAL_SHRINK | F_SEAL_WRITE);
    EXPECT(-EPERM, ob_register_memfd(context, other, 0, SIZE, &none));
    close(other);
    EXPECT(1, none == NULL);
}

/* More than a peer takes that is not read from: nothing of it is in the send area, and it is in use. */
static void in_use(ob_context *context, ob_handle connection, ob_memory *memory, int offloaded)
{
    ob_engine before, after;
    size_t at = 0, total = 0, begun = sent_count;
    unsigned sends = 0;
    ssize_t more = 0;
    EXPECT(0, ob_ctl(context, &before));
    /* It is full when nothing happens any more: then some have not come back. */
    for (;;) {
        more = ob_send_registered(queue, connection, memory, at, LEN - at, OB_ASYNC, 7);
        if (more == -EAGAIN) {
            if (look(500) == 0)
                break;
            continue;
        }
        EXPECT(1, more > 0);
        sends++;
        total += (size_t)more;
        at = (at + (size_t)more) % LEN;
    }
    EXPECT(1, sent_count < begun + sends);
    EXPECT(-EBUSY, ob_unregister(memory));
    EXPECT(0, ob_ctl(context, &after));
    if (offloaded)
        EXPECT(before.send_free, after.send_free);
    for (at = 0; total > 0; total -= (size_t)more) {
        more = (ssize_t)(total < LEN ? total : LEN);
        receive(connection, ob_memory_data(memory), (size_t)more);
    }
    until_sent((unsigned)begun + sends);
}

int main(int count, char **words)
{
    place address;
    ob_context *context;
    ob_handle connection;
    ob_memory *memory, *beside, *ordinary;
    ob_info info;
    ob_piece pieces[3];
    char *whole, *bytes, *other, expected[3000];
    unsigned turn;
    size_t at;
    int fd, mode, offloaded;
    if (count != 6)
        return 2;
    mode = mode_of(words[2]);
    offloaded = words[5][0] == '1';
    read_place(&address, words[3], words[4]);
    EXPECT(0, ob_attach(&context, NULL, "memfd", mode));
    EXPECT(0, ob_queue_new(context, &queue));
    EXPECT(0, ob_connect(queue, &address.any, len_of(&address), NULL, 0, 2, &connection));
    while (ob_send(queue, connection, "x", 1, 0, 0) == -ENOTCONN)
        look(60000);
    receive(connection, "x", 1);
    EXPECT(0, ob_get_info(queue, connection, &info));
    EXPECT(offloaded, info.offloaded);

    fd = memory_file(F_SEAL_SHRINK);
    what_cannot_be(context, fd);
    whole = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (at = 0; at < SIZE; at++)
        whole[at] = (char)(at * 7 + at / 251);
    EXPECT(0, ob_register_memfd(context, fd, FROM, LEN, &memory));
    EXPECT(0, ob_register_memfd(context, fd, SIZE - 5000, 5000, &beside));
    close(fd);
    EXPECT(LEN, ob_memory_len(memory));
    bytes = ob_memory_data(memory);
    other = ob_memory_data(beside);
    EXPECT(0, memcmp(bytes, whole + FROM, LEN));
    EXPECT(0, memcmp(other, whole + SIZE - 5000, 5000));

    /* Beyond its end, and from its last byte. */
    EXPECT(-EINVAL, ob_send_registered(queue, connection, memory, LEN, 1, OB_ASYNC, 7));
    EXPECT(-EINVAL, ob_send_registered(queue, connection, memory, 1, LEN, 0, 0));
    EXPECT(-EINVAL, ob_send_registered(queue, connection, memory, (size_t)-1, 2, OB_ASYNC, 7));
    EXPECT(1, ob_send_registered(queue, connection, memory, LEN - 1, 1, OB_ASYNC, 7));
    receive(connection, whole + FROM + LEN - 1, 1);
    until_sent(1);
    in_use(context, connection, memory, offloaded);

    /* Without OB_ASYNC it is copied, and may change at once. */
    memcpy(expected, bytes + 10, 3000);
    EXPECT(3000, ob_send_registered(queue, connection, memory, 10, 3000, 0, 0));
    memset(bytes + 10, 'n', 3000);
    receive(connection, expected, 3000);

    /* One send of memory of either kind. */
    EXPECT(0, ob_register(context, 1000, &ordinary));
    memset(ob_memory_data(ordinary), 'o', 1000);
    for (at = 0; at < 3; at++) {
        pieces[at].memory = at == 0 ? memory : at == 1 ? ordinary : beside;
        pieces[at].offset = 100 * at;
        pieces[at].len = 600;
        memcpy(expected + 600 * at, (char *)ob_memory_data(pieces[at].memory) + 100 * at, 600);
    }
    sent_count = 0;
    EXPECT(1800, ob_sendv_registered(queue, connection, pieces, 3, OB_ASYNC, 7));
    receive(connection, expected, 1800);
    until_sent(1);
    EXPECT(1800, ob_sendv_registered(queue, connection, pieces, 3, 0, 0));
    receive(connection, expected, 1800);

    /* What comes can be placed there. */
    EXPECT(0, ob_post(queue, connection, memory, 500, 2000, 9));
    EXPECT(-EBUSY, ob_unregister(memory));
    EXPECT(2000, ob_send_registered(queue, connection, beside, 0, 2000, OB_ASYNC, 7));
    for (at = 0; placed < 2000; at++) {
        EXPECT(1, at < 60);
        look(1000);
    }
    EXPECT(0, memcmp(whole + FROM + 500, other, 2000));
    until_sent(2);

    /* What the engine fills and what the library fills, in turns. */
    for (turn = 0; turn < 50; turn++) {
        char *filled = ob_memory_data(ordinary);
        memset(filled, 0, 1000);
        memset(bytes, 0, 300);
        placed = 0;
        EXPECT(0, ob_post(queue, connection, ordinary, 0, 500, 9));
        EXPECT(0, ob_post(queue, connection, memory, 0, 300, 9));
        EXPECT(0, ob_post(queue, connection, ordinary, 500, 200, 9));
        EXPECT(1000, ob_send_registered(queue, connection, beside, 1000, 1000, OB_ASYNC, 7));
        for (at = 0; placed < 1000; at++) {
            EXPECT(1, at < 60);
            look(1000);
        }
        until_sent(3 + turn);
        EXPECT(0, memcmp(filled, other + 1000, 500));
        EXPECT(0, memcmp(bytes, other + 1500, 300));
        EXPECT(0, memcmp(filled + 500, other + 1800, 200));
    }

    EXPECT(0, ob_unregister(ordinary));
    EXPECT(0, ob_unregister(beside));
    EXPECT(0, ob_unregister(memory));
    EXPECT(0, ob_close(queue, connection));
    ob_queue_free(queue);
    ob_detach(context);
    puts("all as outboard.h says");
    return 0;
}
