// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Answers DNS over UDP and IPv4 in place: questions for the address of one name, its own or given by -D.
 *
 *   clang --target=bpf -mcpu=v3 -O2 -g -DNAME='"\3www\7example"' -DADDRESS=0xc0000201 -c dns.bpf.c -o dns.o
 *   outboard divert load -i eth1 dns.o
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "outboard_divert.h"

/* In lower case, each label behind its length (RFC 1035, 3.1); the string's last zero is the root. */
#ifndef NAME
#define NAME "\6answer\7example"
#define ADDRESS 0xc0000201 /* 192.0.2.1 */
#endif

struct query {
	struct ethhdr ethernet;
	struct iphdr ip;
	struct udphdr udp;
	__be16 id, flags, questions, answers, authorities, further;
	__u8 name[sizeof(NAME)];
	__be16 type, class;
} __attribute__((packed));

struct reply {
	struct query query;
	__be16 name, type, class, seconds[2], length;
	__be32 address;
} __attribute__((packed));

static __always_inline int is_ours(struct query *query)
{
	/* One question for an address, to a station; recursion may be wished for. */
	if (query->ethernet.h_proto != bpf_htons(ETH_P_IP) || query->ethernet.h_dest[0] & 1 ||
	    query->ip.version != 4 || query->ip.ihl != 5 || query->ip.protocol != IPPROTO_UDP ||
	    query->ip.frag_off & bpf_htons(0x3fff) || query->udp.dest != bpf_htons(53) ||
	    query->flags & bpf_htons(~0x0130) || query->questions != bpf_htons(1) ||
	    query->answers || query->type != bpf_htons(1) || query->class != bpf_htons(1))
		return 0;
	for (unsigned int at = 0; at < sizeof(NAME); at++) {
		__u8 capital = query->name[at] >= 'A' && query->name[at] <= 'Z' ? 'a' - 'A' : 0;

		if (query->name[at] + capital != ((const __u8 *)NAME)[at])
			return 0;
	}
	return 1;
}

SEC("xdp.frags")
int answer_dns(struct xdp_md *context)
{
	struct query *query = (void *)(long)context->data;
	struct reply *reply;
	struct query from;
	__u32 sum = 0;

	/* What this is not about is the kernel's, as before. What follows the question (EDNS) is left out. */
	if ((void *)(query + 1) > (void *)(long)context->data_end || !is_ours(query) ||
	    bpf_xdp_adjust_tail(context, (int)sizeof(*reply) - (int)bpf_xdp_get_buff_len(context)))
		return verdict(XDP_PASS);
	reply = (void *)(long)context->data;
	if ((void *)(reply + 1) > (void *)(long)context->data_end)
		return verdict(XDP_ABORTED);
	query = &reply->query;
	from = *query;
	__builtin_memcpy(query->ethernet.h_source, from.ethernet.h_dest, ETH_ALEN);
	__builtin_memcpy(query->ethernet.h_dest, from.ethernet.h_source, ETH_ALEN);
	query->ip.daddr = from.ip.saddr;
	query->ip.saddr = from.ip.daddr;
	query->ip.tot_len = bpf_htons(sizeof(*reply) - ETH_HLEN);
	query->ip.check = 0;
	for (int at = 0; at < 10; at++)
		sum += ((__u16 *)(void *)reply)[ETH_HLEN / 2 + at];
	sum = (sum & 0xffff) + (sum >> 16);
	query->ip.check = ~(sum + (sum >> 16));
	query->udp.dest = from.udp.source;
	query->udp.source = from.udp.dest;
	query->udp.len = bpf_htons(sizeof(*reply) - ETH_HLEN - sizeof(struct iphdr));
	query->udp.check = 0; /* none, as IPv4 allows */
	query->flags = bpf_htons(0x8400) | (from.flags & bpf_htons(0x0100)); /* with authority */
	query->authorities = query->further = reply->seconds[0] = 0;
	query->answers = reply->type = reply->class = bpf_htons(1);
	reply->name = bpf_htons(0xc00c); /* that of the question */
	reply->seconds[1] = bpf_htons(60);
	reply->length = bpf_htons(sizeof(reply->address));
	reply->address = bpf_htonl(ADDRESS);
	return verdict(XDP_TX);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
