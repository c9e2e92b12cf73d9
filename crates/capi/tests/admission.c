/*
 * A listener that has one connection at a time: who comes besides is refused.
 *
 *   admission any|kernel ADDRESS PORT BY_ENGINE
 *
 * BY_ENGINE is 1 if the engine is to keep to it. Says "ready" when it listens, "full" when it has one
 * connection, and ends with 0 when it has refused somebody and, having closed the first, has another.
 */
#define _GNU_SOURCE
#include "expect.h"
#include "outboard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ob_queue *queue;

/* Waits for an event of a kind at all, for `milliseconds`; 0 if there is none. */
static int happens(uint32_t kind, int milliseconds)
{
    ob_event event;
    while (ob_wait(queue, &event, 1, milliseconds) == 1)
        if (event.kind == kind)
            return 1;
    return 0;
}

int main(int count, char **words)
{
    struct sockaddr_in address;
    ob_setting settings[2] = { { OB_NODELAY, 1 }, { OB_KEEPIDLE, 0 } };
    ob_setting too_long = { OB_USER_TIMEOUT, (uint32_t)1 << 31 };
    ob_admission policy;
    ob_admitted counts;
    ob_context *context;
    ob_handle listener, first, second;
    ob_span data;
    int result;
    if (count != 5)
        return 2;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(words[3]));
    EXPECT(1, inet_pton(AF_INET, words[2], &address.sin_addr));
    EXPECT(0, ob_attach(&context, NULL, "admission", strcmp(words[1], "any") ? OB_KERNEL : OB_ANY));
    EXPECT(0, ob_queue_new(context, &queue));
    EXPECT(0, ob_listen(queue, (struct sockaddr *)&address, sizeof address, 16, 1, &listener));
    EXPECT(0, ob_set(queue, listener, OB_EAGER_ACCEPT, 4));
    EXPECT(-EINVAL, ob_set(queue, listener, OB_EAGER_ACCEPT, 0));
    memset(&policy, 0, sizeof policy);
    policy.all.in_flight = 1;
    policy.reset = 1;
    policy.unused[3] = 1;
    EXPECT(-EINVAL, ob_set_admission(queue, listener, &policy));
    policy.unused[3] = 0;
    EXPECT(-EBADF, ob_set_admission(queue, 0, &policy));
    EXPECT(0, ob_set_admission(queue, listener, &policy));
    EXPECT(-EINVAL, ob_get_admitted(queue, listener, NULL));
    EXPECT(0, ob_get_admitted(queue, listener, &counts));
    EXPECT(words[4][0] == '1', counts.by_engine);
    EXPECT(0, counts.accepts);
    puts("ready");
    fflush(stdout);

    EXPECT(-EINVAL, ob_accept_with(queue, listener, settings, 1, 2, NULL, 0, NULL));
    EXPECT(-EINVAL, ob_accept_with(queue, listener, settings, 1, 2, &first, 0, &data));
    EXPECT(-EINVAL, ob_accept_with(queue, listener, NULL, 1, 2, &first, 100, &data));
    while ((result = ob_accept_with(queue, listener, settings, 1, 2, &first, 100, &data)) == -EAGAIN)
        EXPECT(1, happens(OB_ACCEPT, 60000));
    EXPECT(0, result);
    while (!data.len) {
        EXPECT(1, happens(OB_RECEIVE, 60000));
        result = ob_view(queue, first, 100, &data);
        if (result != -EAGAIN)
            EXPECT(1, result);
    }
    EXPECT(5, data.len);
    EXPECT(0, memcmp(data.data, "first", 5));
    EXPECT(0, ob_release(queue, data.id));
    puts("full");
    fflush(stdout);

    do {
        EXPECT(-EAGAIN, ob_accept(queue, listener, 3, &second));
        happens(OB_WAKE, 20);
        EXPECT(0, ob_get_admitted(queue, listener, &counts));
    } while (!counts.refused_by_count);
    EXPECT(1, counts.accepts);
    EXPECT(1, counts.in_flight);
    EXPECT(0, counts.refused_by_rate + counts.refused_by_prefix);
    EXPECT(0, ob_close(queue, first));
    puts("free");
    fflush(stdout);

    /* One that was taken out of the queue would be lost: what cannot be set is refused before. */
    EXPECT(-EINVAL, ob_accept_with(queue, listener, settings, 2, 3, &second, 0, NULL));
    EXPECT(-EINVAL, ob_accept_with(queue, listener, &too_long, 1, 3, &second, 0, NULL));
    while ((result = ob_accept_with(queue, listener, settings, 1, 3, &second, 0, NULL)) == -EAGAIN)
        happens(OB_ACCEPT, 1000);
    EXPECT(0, result);
    EXPECT(0, ob_get_admitted(queue, listener, &counts));
    EXPECT(2, counts.accepts);
    EXPECT(1, counts.in_flight);
    EXPECT(0, ob_set_admission(queue, listener, NULL));
    EXPECT(0, ob_close(queue, second));
    ob_queue_free(queue);
    ob_detach(context);
    puts("as outboard.h says");
    return 0;
}
