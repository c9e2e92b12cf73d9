// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Answers ICMP echo (ping) over IPv4 in place, before the kernel sees it:
 *
 *   clang --target=bpf -mcpu=v3 -O2 -g -c icmp_echo.bpf.c -o icmp_echo.o
 *   outboard divert load -i eth1 icmp_echo.o
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "outboard_divert.h"

/* The beginning of RFC 792's messages; <linux/icmp.h> wants a C library. */
struct icmp {
	__u8 type;
	__u8 code;
	__be16 checksum;
};

#define ECHO 8
#define ECHO_REPLY 0

SEC("xdp.frags")
int answer_echo(struct xdp_md *context)
{
	void *end = (void *)(long)context->data_end;
	struct ethhdr *ethernet = (void *)(long)context->data;
	struct iphdr *ip = (void *)(ethernet + 1);
	struct icmp *icmp = (void *)(ip + 1);
	__u8 station[ETH_ALEN];
	__be32 address;
	__u32 sum;

	/* What this is not about is the kernel's, as before: other protocols, options, fragments, broadcasts. */
	if ((void *)(icmp + 1) > end || ethernet->h_proto != bpf_htons(ETH_P_IP) ||
	    ethernet->h_dest[0] & 1 || ip->version != 4 || ip->ihl != 5 ||
	    ip->protocol != IPPROTO_ICMP || ip->frag_off & bpf_htons(0x3fff) ||
	    icmp->type != ECHO || icmp->code)
		return verdict(XDP_PASS);

	/* Back to where it came from; the sum of the header does not depend on the order. */
	__builtin_memcpy(station, ethernet->h_dest, ETH_ALEN);
	__builtin_memcpy(ethernet->h_dest, ethernet->h_source, ETH_ALEN);
	__builtin_memcpy(ethernet->h_source, station, ETH_ALEN);
	address = ip->daddr;
	ip->daddr = ip->saddr;
	ip->saddr = address;

	/* The type goes from 8 to 0, and the sum with it (RFC 1624). */
	icmp->type = ECHO_REPLY;
	sum = bpf_ntohs(icmp->checksum) + (ECHO << 8);
	icmp->checksum = bpf_htons((sum & 0xffff) + (sum >> 16));
	return verdict(XDP_TX);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
