// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * A mirror: TCP over IPv4 without options goes back where it came from, addresses and ports
 * exchanged. The sums stay right, because they do not depend on the order. It is the least that a
 * program which answers frames can do, and so the measure of how fast any could be.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int reflect(struct xdp_md *context)
{
	void *data = (void *)(long)context->data;
	void *end = (void *)(long)context->data_end;
	struct ethhdr *ethernet = data;
	struct iphdr *ip = (void *)(ethernet + 1);
	struct tcphdr *tcp = (void *)(ip + 1);
	__u8 station[ETH_ALEN];
	__be32 address;
	__be16 port;

	if ((void *)(tcp + 1) > end || ethernet->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5 ||
	    ip->protocol != IPPROTO_TCP)
		return XDP_PASS;
	__builtin_memcpy(station, ethernet->h_dest, ETH_ALEN);
	__builtin_memcpy(ethernet->h_dest, ethernet->h_source, ETH_ALEN);
	__builtin_memcpy(ethernet->h_source, station, ETH_ALEN);
	address = ip->daddr;
	ip->daddr = ip->saddr;
	ip->saddr = address;
	port = tcp->dest;
	tcp->dest = tcp->source;
	tcp->source = port;
	return XDP_TX;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
