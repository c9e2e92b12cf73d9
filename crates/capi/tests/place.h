/* Addresses of either family, and how to attach. */
#ifndef PLACE_H
#define PLACE_H

#include "expect.h"
#include "outboard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

/* An address and port. */
typedef union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} place;

static inline socklen_t len_of(const place *at)
{
    return at->any.sa_family == AF_INET ? sizeof at->v4 : sizeof at->v6;
}

static inline in_port_t *port_of(place *at)
{
    return at->any.sa_family == AF_INET ? &at->v4.sin_port : &at->v6.sin6_port;
}

static inline void *host_of(place *at)
{
    return at->any.sa_family == AF_INET ? (void *)&at->v4.sin_addr : (void *)&at->v6.sin6_addr;
}

static inline int is_same_host(const place *one, const place *other)
{
    if (one->any.sa_family != other->any.sa_family)
        return 0;
    return one->any.sa_family == AF_INET
               ? one->v4.sin_addr.s_addr == other->v4.sin_addr.s_addr
               : !memcmp(&one->v6.sin6_addr, &other->v6.sin6_addr, sizeof one->v6.sin6_addr);
}

/* How a test is told to attach. */
static inline int mode_of(const char *word)
{
    return !strcmp(word, "engine") ? OB_ENGINE : !strcmp(word, "kernel") ? OB_KERNEL : OB_ANY;
}

static inline void read_place(place *at, const char *text, const char *port)
{
    memset(at, 0, sizeof *at);
    at->any.sa_family = strchr(text, ':') ? AF_INET6 : AF_INET;
    *port_of(at) = htons((in_port_t)atoi(port));
    EXPECT(1, inet_pton(at->any.sa_family, text, host_of(at)));
}

#endif
