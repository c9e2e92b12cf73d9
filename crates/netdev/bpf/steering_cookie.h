/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * SYN cookies of the kernel's: a connection of which it knows nothing until its client has answered.
 *
 * While its queue of half open connections overflows, or always, as net.ipv4.tcp_syncookies says, the kernel puts what it
 * would have to remember into the number of its SYN-ACK, and knows it again by the ACK. Until then a lookup finds the
 * listening socket alone.
 *
 * Included by steering.bpf.c after what it asks of the kernel.
 */

/* Whether the kernel would take this segment for the answer to a cookie of its own. Where it has sent none for a
 * while that is said at once. One of 2^29 segments of other connections looks like such an answer, to the kernel
 * as well. */
static __always_inline int answers_cookie(struct xdp_md *context, struct bpf_sock_tuple *tuple,
					  __u32 size, int type, const struct segment *segment)
{
	/* Only the version and the addresses are asked for, and of the segment what it brings along. */
	union {
		struct iphdr v4;
		struct ipv6hdr v6;
	} ip = {};
	struct tcphdr tcp = {};
	struct bpf_sock *sock;
	long answer;

	if (!segment->answers)
		return 0;
	if (type == ETH_P_IP) {
		ip.v4.version = 4;
		ip.v4.saddr = tuple->ipv4.saddr;
		ip.v4.daddr = tuple->ipv4.daddr;
	} else {
		ip.v6.version = 6;
		__builtin_memcpy(&ip.v6.saddr, tuple->ipv6.saddr, 16);
		__builtin_memcpy(&ip.v6.daddr, tuple->ipv6.daddr, 16);
	}
	tcp.source = segment->source;
	tcp.dest = segment->dest;
	tcp.seq = segment->seq;
	tcp.ack_seq = segment->ack;
	tcp.doff = sizeof(tcp) / 4;
	tcp.ack = 1;
	sock = bpf_skc_lookup_tcp(context, tuple, size, BPF_F_CURRENT_NETNS, 0);
	if (!sock)
		return 0;
	answer = bpf_tcp_check_syncookie(sock, &ip, sizeof(ip), &tcp, sizeof(tcp));
	bpf_sk_release(sock);
	return !answer;
}

/* Whether a segment to a socket in this state belongs to a connection of the kernel's, or makes it one. */
static __always_inline int is_kernels(struct xdp_md *context, int state, struct bpf_sock_tuple *tuple,
				      __u32 size, int type, const struct segment *segment)
{
	return is_connection(state) || (state == BPF_TCP_LISTEN &&
					answers_cookie(context, tuple, size, type, segment));
}
