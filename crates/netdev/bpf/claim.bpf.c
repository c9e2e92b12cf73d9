// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * A claim: the segments that a server sends to a range of our addresses and ports.
 *
 * They go to the AF_XDP socket of their queue, and the kernel never sees them: it has no socket
 * there, and would reset the connections. Everything else is the kernel's, fragments and segments
 * that are cut off included.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Layouts and numbers below are repeated in src/claim.rs. */

#define MAX_QUEUES 256
#define MAX_RANGES 16

/* An address as two numbers. IPv4 addresses come after ::ffff (RFC 4291, 2.5.5.2). */
struct address {
	__u64 high;
	__u64 low;
};

struct range {
	struct address first;
	struct address last;
};

struct claim {
	struct address server;
	__u16 server_port;
	__u16 first_port;
	__u16 last_port;
	__u16 ranges_used;
	struct range ranges[MAX_RANGES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct claim);
} claims SEC(".maps");

/* One AF_XDP socket a receive queue. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

static __always_inline void from_ipv4(struct address *address, __be32 value)
{
	address->high = 0;
	address->low = 0xffff00000000ULL | bpf_ntohl(value);
}

static __always_inline void from_ipv6(struct address *address, const struct in6_addr *value)
{
	address->high = (__u64)bpf_ntohl(value->in6_u.u6_addr32[0]) << 32 |
			bpf_ntohl(value->in6_u.u6_addr32[1]);
	address->low = (__u64)bpf_ntohl(value->in6_u.u6_addr32[2]) << 32 |
		       bpf_ntohl(value->in6_u.u6_addr32[3]);
}

static __always_inline int not_after(const struct address *one, const struct address *other)
{
	return one->high < other->high || (one->high == other->high && one->low <= other->low);
}

SEC("xdp.frags")
int claim_replies(struct xdp_md *context)
{
	void *data = (void *)(long)context->data;
	void *end = (void *)(long)context->data_end;
	struct ethhdr *ethernet = data;
	struct address from, to;
	struct tcphdr *tcp;
	struct claim *claim;
	__u32 zero = 0;
	__u16 port;

	if (data + sizeof(*ethernet) > end)
		return XDP_PASS;
	if (ethernet->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = data + sizeof(*ethernet);

		if ((void *)(ip + 1) > end)
			return XDP_PASS;
		/* Options are not expected of a server, and left to the kernel. */
		if (ip->version != 4 || ip->ihl != 5 || ip->protocol != IPPROTO_TCP)
			return XDP_PASS;
		if (ip->frag_off & bpf_htons(0x3fff))
			return XDP_PASS;
		from_ipv4(&from, ip->saddr);
		from_ipv4(&to, ip->daddr);
		tcp = (void *)(ip + 1);
	} else if (ethernet->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = data + sizeof(*ethernet);

		if ((void *)(ip + 1) > end)
			return XDP_PASS;
		if (ip->version != 6 || ip->nexthdr != IPPROTO_TCP)
			return XDP_PASS;
		from_ipv6(&from, &ip->saddr);
		from_ipv6(&to, &ip->daddr);
		tcp = (void *)(ip + 1);
	} else {
		return XDP_PASS;
	}
	if ((void *)(tcp + 1) > end)
		return XDP_PASS;

	claim = bpf_map_lookup_elem(&claims, &zero);
	if (!claim)
		return XDP_PASS;
	port = bpf_ntohs(tcp->dest);
	if (port < claim->first_port || port > claim->last_port ||
	    bpf_ntohs(tcp->source) != claim->server_port || from.high != claim->server.high ||
	    from.low != claim->server.low)
		return XDP_PASS;
	for (int i = 0; i < MAX_RANGES; i++) {
		if (i >= claim->ranges_used)
			break;
		if (not_after(&claim->ranges[i].first, &to) && not_after(&to, &claim->ranges[i].last))
			return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS);
	}
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
