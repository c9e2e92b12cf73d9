/*
 * A listener with limits, which answers each connection that it has by a byte, and says who was refused.
 *
 *   limits any|kernel ADDRESS PORT rate|prefix
 *
 * rate: three at once, and one a second. prefix: one at a time of each 28 bits of an address. What it says is
 * whether the engine keeps to it, how many were accepted, are there, and were refused by rate, by count and of
 * their prefix: a line when that has changed. It runs until it is killed.
 */
#define _GNU_SOURCE
#include "expect.h"
#include "outboard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#define LISTENER 1
#define CONNECTION 2

static ob_queue *queue;

static void say(ob_handle listener)
{
    static ob_admitted last;
    ob_admitted now;
    EXPECT(0, ob_get_admitted(queue, listener, &now));
    if (!memcmp(&last, &now, sizeof now))
        return;
    last = now;
    printf("%u %u %u %u %u %u\n", (unsigned)now.by_engine, (unsigned)now.accepts, (unsigned)now.in_flight,
           (unsigned)now.refused_by_rate, (unsigned)now.refused_by_count, (unsigned)now.refused_by_prefix);
    fflush(stdout);
}

int main(int count, char **words)
{
    struct sockaddr_in address;
    ob_admission policy;
    ob_context *context;
    ob_handle listener, made;
    ob_event event;
    char byte;
    if (count != 5)
        return 2;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(words[3]));
    EXPECT(1, inet_pton(AF_INET, words[2], &address.sin_addr));
    EXPECT(0, ob_attach(&context, NULL, "limits", strcmp(words[1], "any") ? OB_KERNEL : OB_ANY));
    EXPECT(0, ob_queue_new(context, &queue));
    EXPECT(0, ob_listen(queue, (struct sockaddr *)&address, sizeof address, 16, LISTENER, &listener));
    memset(&policy, 0, sizeof policy);
    policy.reset = 1;
    policy.bits_v4 = 28;
    if (!strcmp(words[4], "rate")) {
        policy.all.per_second = 1;
        policy.all.burst = 3;
    } else {
        policy.each.in_flight = 1;
    }
    EXPECT(0, ob_set_admission(queue, listener, &policy));
    puts("ready");
    fflush(stdout);
    for (;;) {
        int taken = ob_wait(queue, &event, 1, 20);
        if (taken == 1 && event.kind == OB_ACCEPT) {
            while (ob_accept(queue, listener, CONNECTION, &made) == 0)
                EXPECT(1, ob_send(queue, made, "w", 1, 0, 0));
        } else if (taken == 1 && event.cookie == CONNECTION) {
            ssize_t got = ob_recv(queue, event.handle, &byte, 1, 0);
            if (got != -EAGAIN && got != 1)
                ob_close(queue, event.handle);
        }
        say(listener);
    }
}
