/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Reading a frame for the steering program: link, IP, what stands between, the front of a segment, or
 * the segment that an ICMP error quotes. Nothing here decides anything.
 *
 * Included by steering.bpf.c after its reasons and its endpoint.
 */
/* How far a frame has been read. */
struct cursor {
	void *at;
	void *end;
};

/* The next `size` bytes, or none if the frame ends before. */
static __always_inline void *take(struct cursor *cursor, __u64 size)
{
	void *at = cursor->at;

	if (at + size > cursor->end)
		return 0;
	cursor->at = at + size;
	return at;
}

struct vlan_tag {
	__be16 control;
	__be16 type;
};

/* Reads the Ethernet header and its tags. Returns the EtherType behind them, or a negative reason. */
static __always_inline int read_link(struct cursor *cursor, struct endpoint *endpoint)
{
	struct ethhdr *ethernet = take(cursor, sizeof(*ethernet));
	__u16 type;
	__u32 depth = 0;

	if (!ethernet)
		return -REASON_TRUNCATED;
	/* RFC 1122, 4.2.3.10: TCP has no business with broadcast or multicast. */
	if (ethernet->h_dest[0] & 1)
		return -REASON_NOT_UNICAST;
	type = bpf_ntohs(ethernet->h_proto);
#pragma unroll
	for (int i = 0; i < MAX_VLAN_TAGS; i++) {
		struct vlan_tag *tag;
		__u16 id;

		if (type != ETH_P_8021Q && type != ETH_P_8021AD)
			return type;
		tag = take(cursor, sizeof(*tag));
		if (!tag)
			return -REASON_TRUNCATED;
		id = bpf_ntohs(tag->control) & 0x0fff;
		type = bpf_ntohs(tag->type);
		if (id != 0) {
			if (depth == 0)
				endpoint->vlan[0] = id;
			else
				endpoint->vlan[1] = id;
			depth++;
		}
	}
	if (type == ETH_P_8021Q || type == ETH_P_8021AD)
		return -REASON_VLAN_DEPTH;
	return type;
}

/* What follows the IP header. */
struct upper {
	/* Bytes, as the IP header has it. */
	__u32 length;
	__u8 protocol;
	/* The first fragment of several. */
	__u8 fragment;
};

/* These read an IP header and what stands between it and the upper layer. They fill in the
 * addresses, and return 0 or a negative reason. */
static __always_inline int read_ipv4(struct cursor *cursor, struct endpoint *endpoint,
				     struct bpf_sock_tuple *tuple, struct upper *upper)
{
	void *start = cursor->at;
	struct iphdr *ip = take(cursor, sizeof(*ip));
	__u32 header, total;

	if (!ip)
		return -REASON_TRUNCATED;
	header = ip->ihl * 4;
	total = bpf_ntohs(ip->tot_len);
	if (ip->version != 4 || header < sizeof(*ip) || total < header)
		return -REASON_TRUNCATED;
	/* An offset: the ports are in another fragment. */
	if (ip->frag_off & bpf_htons(0x1fff))
		return -REASON_FRAGMENT;
	upper->fragment = (ip->frag_off & bpf_htons(0x2000)) != 0;
	upper->protocol = ip->protocol;
	upper->length = total - header;
	tuple->ipv4.saddr = ip->saddr;
	tuple->ipv4.daddr = ip->daddr;
	endpoint->address[10] = 0xff;
	endpoint->address[11] = 0xff;
	__builtin_memcpy(&endpoint->address[12], &ip->daddr, 4);
	cursor->at = start + header;
	return 0;
}

/* The part that all extension headers but one have in common (RFC 8200, 4). */
struct extension {
	__u8 next;
	/* In units of 8 bytes, the first not counted; of a fragment header: reserved. */
	__u8 length;
	/* Fragment header: offset and flags. Routing header: type and segments left. */
	__u8 type;
	__u8 left;
	__u8 rest[4];
};

static __always_inline int read_ipv6(struct cursor *cursor, struct endpoint *endpoint,
				     struct bpf_sock_tuple *tuple, struct upper *upper)
{
	struct ipv6hdr *ip = take(cursor, sizeof(*ip));
	__u32 length;
	__u8 next;

	if (!ip)
		return -REASON_TRUNCATED;
	if (ip->version != 6)
		return -REASON_TRUNCATED;
	__builtin_memcpy(tuple->ipv6.saddr, &ip->saddr, 16);
	__builtin_memcpy(tuple->ipv6.daddr, &ip->daddr, 16);
	__builtin_memcpy(endpoint->address, &ip->daddr, 16);
	next = ip->nexthdr;
	length = bpf_ntohs(ip->payload_len);
#pragma unroll
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		void *start = cursor->at;
		struct extension *extension;
		__u32 size;

		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS &&
		    next != IPPROTO_FRAGMENT)
			break;
		extension = take(cursor, sizeof(*extension));
		if (!extension)
			return -REASON_TRUNCATED;
		size = 8;
		if (next == IPPROTO_FRAGMENT) {
			if (extension->type || extension->left & 0xf8)
				return -REASON_FRAGMENT;
			/* Without more to come it is whole, and yet none (RFC 6946). */
			upper->fragment = 1;
		} else {
			/* Not for this host to end. */
			if (next == IPPROTO_ROUTING && extension->left)
				return -REASON_EXTENSION_HEADER;
			size += extension->length * 8;
		}
		if (length < size)
			return -REASON_TRUNCATED;
		length -= size;
		next = extension->next;
		cursor->at = start + size;
	}
	if (next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_DSTOPTS ||
	    next == IPPROTO_FRAGMENT)
		return -REASON_EXTENSION_HEADER;
	upper->protocol = next;
	upper->length = length;
	return 0;
}

/* The ports of a segment, as its receiver sees them, and what else there is to know of it. */
struct segment {
	__be16 source;
	__be16 dest;
	/* SYN without ACK. */
	__u8 opens;
	/* FIN or RST. */
	__u8 ends;
	/* It carries bytes. */
	__u8 data;
	/* An ICMP error quotes it. */
	__u8 quoted;
	/* ACK without SYN or RST, and its numbers. */
	__u8 answers;
	__be32 seq;
	__be32 ack;
};

/* Reads the front of a TCP header. Returns 0 or a negative reason. */
static __always_inline int read_tcp(struct cursor *cursor, struct upper *upper,
				    struct segment *segment)
{
	struct tcphdr *tcp;
	__be16 *ports;

	if (upper->fragment) {
		ports = take(cursor, 2 * sizeof(*ports));
		if (!ports)
			return -REASON_TRUNCATED;
		segment->source = ports[0];
		segment->dest = ports[1];
		return 0;
	}
	if (upper->length < sizeof(*tcp))
		return -REASON_TRUNCATED;
	tcp = take(cursor, sizeof(*tcp));
	if (!tcp)
		return -REASON_TRUNCATED;
	segment->source = tcp->source;
	segment->dest = tcp->dest;
	segment->opens = tcp->syn && !tcp->ack;
	segment->ends = tcp->fin || tcp->rst;
	segment->data = upper->length > tcp->doff * 4;
	segment->answers = tcp->ack && !tcp->syn && !tcp->rst;
	segment->seq = tcp->seq;
	segment->ack = tcp->ack_seq;
	return 0;
}

/* What an ICMP error has in common in both versions, and the eight bytes of TCP that it quotes at
 * least (RFC 792). */
struct icmp_error {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be32 argument;
};

struct quoted_tcp {
	__be16 source;
	__be16 dest;
	__be32 seq;
};

static __always_inline int read_quoted_tcp(struct cursor *cursor, struct segment *segment)
{
	struct quoted_tcp *tcp = take(cursor, sizeof(*tcp));

	if (!tcp)
		return -REASON_TRUNCATED;
	/* It was sent from here: what is source there is destination to us. */
	segment->source = tcp->dest;
	segment->dest = tcp->source;
	segment->quoted = 1;
	return 0;
}

/* These read the segment that an ICMP error is about. The remote address becomes that of the
 * segment's receiver. */
static __always_inline int read_icmp(struct cursor *cursor, struct bpf_sock_tuple *tuple,
				     struct segment *segment)
{
	struct icmp_error *icmp = take(cursor, sizeof(*icmp));
	void *start = cursor->at;
	struct iphdr *ip;

	if (!icmp)
		return -REASON_TRUNCATED;
	/* Destination unreachable, time exceeded, parameter problem. */
	if (icmp->type != 3 && icmp->type != 11 && icmp->type != 12)
		return -REASON_NOT_TCP;
	ip = take(cursor, sizeof(*ip));
	if (!ip)
		return -REASON_TRUNCATED;
	if (ip->version != 4 || ip->ihl < 5 || ip->protocol != IPPROTO_TCP ||
	    ip->frag_off & bpf_htons(0x1fff) || ip->saddr != tuple->ipv4.daddr)
		return -REASON_NOT_TCP;
	tuple->ipv4.saddr = ip->daddr;
	cursor->at = start + ip->ihl * 4;
	return read_quoted_tcp(cursor, segment);
}

static __always_inline int read_icmp6(struct cursor *cursor, struct bpf_sock_tuple *tuple,
				      struct segment *segment)
{
	struct icmp_error *icmp = take(cursor, sizeof(*icmp));
	struct ipv6hdr *ip;

	if (!icmp)
		return -REASON_TRUNCATED;
	/* Errors are 1 to 4 (RFC 4443, 2.1). */
	if (icmp->type < 1 || icmp->type > 4)
		return -REASON_NOT_TCP;
	ip = take(cursor, sizeof(*ip));
	if (!ip)
		return -REASON_TRUNCATED;
	if (ip->version != 6 || ip->nexthdr != IPPROTO_TCP)
		return -REASON_NOT_TCP;
	for (int i = 0; i < 4; i++)
		if (ip->saddr.in6_u.u6_addr32[i] != tuple->ipv6.daddr[i])
			return -REASON_NOT_TCP;
	__builtin_memcpy(tuple->ipv6.saddr, &ip->daddr, 16);
	return read_quoted_tcp(cursor, segment);
}
