// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * A witness: keeps the first bytes of the last SYNs that arrived for the responder, as they
 * arrived, and hands every frame on to it. It stands between the steering program and the
 * responder's, and only where somebody asked for it: what is not asked for costs nothing.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Layouts and numbers below are repeated in src/responder/witness.rs. */

#define SAMPLES 64
#define SAMPLE_SIZE 128
#define ETH_P_TAGGED 0x8100

struct sample {
	/* Its number, from 1, and bytes of the frame; both 0 before there is one. */
	__u64 number;
	__u64 length;
	__u8 bytes[SAMPLE_SIZE];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SAMPLES);
	__type(key, __u32);
	__type(value, struct sample);
} samples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} numbers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} responders SEC(".maps");

/* Whether the frame begins a connection. The steering program has looked at everything else. */
static __always_inline int is_syn(struct xdp_md *context)
{
	void *data = (void *)(long)context->data;
	void *end = (void *)(long)context->data_end;
	struct ethhdr *ethernet = data;
	__be16 type;
	struct tcphdr *tcp;
	void *at = ethernet + 1;

	if (at > end)
		return 0;
	type = ethernet->h_proto;
	if (type == bpf_htons(ETH_P_TAGGED)) {
		if (at + 4 > end)
			return 0;
		type = *(__be16 *)(at + 2);
		at += 4;
	}
	if (type == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = at;

		if (at + sizeof(*ip) > end)
			return 0;
		at += (ip->ihl & 0xf) * 4;
	} else {
		at += sizeof(struct ipv6hdr);
	}
	tcp = at;
	if ((void *)(tcp + 1) > end)
		return 0;
	return tcp->syn && !tcp->ack;
}

SEC("xdp.frags")
int witness(struct xdp_md *context)
{
	struct sample *sample;
	__u64 *numbered, number;
	__u32 key = 0, length;

	if (!is_syn(context))
		goto on;
	numbered = bpf_map_lookup_elem(&numbers, &key);
	if (!numbered)
		goto on;
	number = __sync_fetch_and_add(numbered, 1);
	key = number & (SAMPLES - 1);
	sample = bpf_map_lookup_elem(&samples, &key);
	if (!sample)
		goto on;
	length = context->data_end - context->data;
	if (length > SAMPLE_SIZE)
		length = SAMPLE_SIZE;
	sample->length = 0;
	if (length >= sizeof(struct ethhdr) && length <= SAMPLE_SIZE &&
	    bpf_xdp_load_bytes(context, 0, sample->bytes, length) == 0) {
		sample->number = number + 1;
		sample->length = length;
	}
on:
	bpf_tail_call(context, &responders, 0);
	/* Nobody is there any more: the kernel answers. */
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
