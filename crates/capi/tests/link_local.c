/*
 * The way to an address that holds on one link alone: that of its next hop says which.
 *
 *   link_local ADDRESS INTERFACE
 */
#define _GNU_SOURCE
#include "expect.h"
#include "outboard.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

int main(int count, char **words)
{
    struct sockaddr_in6 remote, next_hop, source;
    ob_context *context;
    ob_engine engine;
    ob_way way;
    unsigned interface;
    if (count != 3)
        return 2;
    interface = if_nametoindex(words[2]);
    EXPECT(1, interface != 0);
    memset(&remote, 0, sizeof remote);
    remote.sin6_family = AF_INET6;
    remote.sin6_scope_id = interface;
    EXPECT(1, inet_pton(AF_INET6, words[1], &remote.sin6_addr));
    EXPECT(0, ob_attach(&context, NULL, "link_local", OB_ENGINE));
    EXPECT(0, ob_ctl(context, &engine));
    EXPECT(interface, engine.interface);
    EXPECT(0, ob_neigh(context, (struct sockaddr *)&remote, sizeof remote, &way));
    memcpy(&next_hop, &way.next_hop, sizeof next_hop);
    memcpy(&source, &way.source, sizeof source);
    EXPECT(0, memcmp(&remote.sin6_addr, &next_hop.sin6_addr, sizeof remote.sin6_addr));
    EXPECT(interface, next_hop.sin6_scope_id);
    EXPECT(1, IN6_IS_ADDR_LINKLOCAL(&source.sin6_addr));
    EXPECT(interface, source.sin6_scope_id);
    ob_detach(context);
    puts("all as outboard.h says");
    return 0;
}
