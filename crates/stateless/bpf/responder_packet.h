/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Packets: what a frame says, the keyed hash of its flow, and the frame of an answer.
 */
#ifndef RESPONDER_PACKET_H
#define RESPONDER_PACKET_H

#include "responder.h"
#include "siphash.h"

#define ETHERNET 14
#define TAG 4
#define IPV4 20
#define IPV6 40
#define TCP 20

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define PSH 0x08
#define ACK 0x10

#define OPTION_END 0
#define OPTION_NOP 1
#define OPTION_MSS 2
#define OPTION_SCALE 3
#define OPTION_SACK 4
#define OPTION_TIMESTAMPS 8
#define MAX_OPTIONS 40
#define NO_MSS 0x10000

static __always_inline __u32 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static __always_inline __u64 sum_words(const __u8 *buffer, __u32 at, int words)
{
	__u64 sum = 0;

#pragma unroll
	for (int i = 0; i < words; i++)
		sum += *(__u32 *)(buffer + ((at + i * 4) & (BUFFER - 1)));
	return sum;
}

/* Before Linux 6.13 bpf_csum_diff() takes no more at once, and returns an error for it. */
#define SUMMED_AT_ONCE 512

/* The sum of `length` bytes, which are followed by zeros up to the next word. */
static __always_inline __u32 sum_bytes(__u8 *buffer, __u32 at, __u32 length, __u64 seed)
{
	__u32 left = (length + 3) & (BUFFER - 4);
	__u32 sum = fold(seed);

	for (int i = 0; i < BUFFER / SUMMED_AT_ONCE; i++) {
		__u32 size = left < SUMMED_AT_ONCE ? left : SUMMED_AT_ONCE;

		sum = fold(bpf_csum_diff(0, 0, (__be32 *)(buffer + (at & (BUFFER - 1))), size,
					 sum));
		if (left <= SUMMED_AT_ONCE)
			break;
		left -= SUMMED_AT_ONCE;
		at += SUMMED_AT_ONCE;
	}
	return sum;
}

static __always_inline int is_group_or_none(__u32 address)
{
	return (address & 0xf0) == 0xe0 || address == 0xffffffff || !address;
}

/* Whether no client has this address, beyond what is_group_or_none() says. */
static __always_inline int is_martian_ipv4(const struct config *config, __u32 address)
{
	__u32 first = address & 0xff;

	if (!first || first >= 240 || (first == 127 && !config->loopback))
		return 1;
	for (int i = 0; i < MAX_BROADCASTS; i++)
		if (config->broadcasts[i] == address)
			return 1;
	return 0;
}

/* Reads the options of a header as far as they concern us; the last of a kind counts. */
__noinline int read_options(struct work *work, __u32 at, __u32 end)
{
	struct segment *segment;

	if (!work)
		return 0;
	segment = &work->segment;
	for (int i = 0; i < MAX_OPTIONS; i++) {
		__u32 kind, length;

		if (at >= end)
			break;
		kind = IN(__u8, at);
		if (kind == OPTION_END)
			break;
		if (kind == OPTION_NOP) {
			at++;
			continue;
		}
		if (at + 1 >= end)
			break;
		length = IN(__u8, at + 1);
		if (length < 2 || at + length > end)
			break;
		if (kind == OPTION_MSS && length == 4)
			segment->mss = bpf_ntohs(IN(__u16, at + 2));
		if (kind == OPTION_TIMESTAMPS && length == 10) {
			segment->has_timestamps = 1;
			segment->their_clock = bpf_ntohl(IN(__u32, at + 2));
		}
		at += length;
	}
	return 0;
}

/* The pseudo-header's sum for a segment of `length` bytes between the addresses in `in`. */
static __always_inline __u64 pseudo_header(struct work *work, const struct segment *segment,
					   __u32 length)
{
	__u64 sum = (__u64)bpf_htons(length) + bpf_htons(IPPROTO_TCP);

	if (segment->ipv6)
		return sum + sum_words(work->in, segment->ip + 8, 8);
	return sum + sum_words(work->in, segment->ip + 12, 2);
}

static __always_inline int read_ipv4(struct work *work, struct segment *segment, __u32 length)
{
	__u32 at = segment->ip, header, total;
	__u64 sum;

	if (at + IPV4 > length || IN(__u8, at) >> 4 != 4)
		return MALFORMED;
	header = (IN(__u8, at) & 15) * 4;
	total = bpf_ntohs(IN(__u16, at + 2));
	if (header < IPV4 || total < header || at + total > length)
		return MALFORMED;
	if (header == IPV4)
		sum = fold(sum_words(work->in, at, 5));
	else
		sum = sum_bytes(work->in, at, header, 0);
	if (sum != 0xffff || IN(__u16, at + 6) & bpf_htons(0x3fff) ||
	    IN(__u8, at + 9) != IPPROTO_TCP)
		return MALFORMED;
	if (is_group_or_none(IN(__u32, at + 12)) || is_group_or_none(IN(__u32, at + 16)))
		return MALFORMED;
	segment->ipv6 = 0;
	segment->tcp = at + header;
	segment->end = at + total;
	return 0;
}

static __always_inline int read_ipv6(struct work *work, struct segment *segment, __u32 length)
{
	__u32 at = segment->ip, total;

	if (at + IPV6 > length || IN(__u8, at) >> 4 != 6 || IN(__u8, at + 6) != IPPROTO_TCP)
		return MALFORMED;
	total = IPV6 + bpf_ntohs(IN(__u16, at + 4));
	if (at + total > length)
		return MALFORMED;
	if (IN(__u8, at + 8) == 0xff || IN(__u8, at + 24) == 0xff)
		return MALFORMED;
	if (!(IN(__u64, at + 8) | IN(__u64, at + 16)) || !(IN(__u64, at + 24) | IN(__u64, at + 32)))
		return MALFORMED;
	segment->ipv6 = 1;
	segment->tcp = at + IPV6;
	segment->end = at + total;
	return 0;
}

/* Reads a frame of `length` bytes. Returns 0, or what it is counted as. */
static __always_inline int read_segment(struct work *work, const struct config *config,
					__u32 length)
{
	struct segment *segment = &work->segment;
	__u32 at = ETHERNET, header;
	__u16 type;
	__u64 pseudo;
	int failed;

	if (length < ETHERNET)
		return MALFORMED;
	type = bpf_ntohs(IN(__u16, 12));
#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (type != ETH_P_8021Q && type != ETH_P_8021AD)
			break;
		if (at + TAG > length)
			return MALFORMED;
		type = bpf_ntohs(IN(__u16, at + 2));
		at += TAG;
	}
	segment->ip = at;
	if (type == ETH_P_IP)
		failed = read_ipv4(work, segment, length);
	else if (type == ETH_P_IPV6)
		failed = read_ipv6(work, segment, length);
	else
		failed = MALFORMED;
	if (failed)
		return failed;

	at = segment->tcp;
	if (at + TCP > segment->end)
		return MALFORMED;
	header = IN(__u8, at + 12) >> 4 << 2;
	if (header < TCP || at + header > segment->end)
		return MALFORMED;
	segment->payload = at + header;
	/* What Ethernet padded may be anything. Behind the segment there is room for this. */
#pragma unroll
	for (int i = 0; i < 4; i++)
		IN(__u64, segment->end + i * 8) = 0;
	pseudo = pseudo_header(work, segment, segment->end - at);
	if (!(config->partial && fold(pseudo) == IN(__u16, at + 16)) &&
	    sum_bytes(work->in, at, segment->end - at, pseudo) != 0xffff)
		return CHECKSUM;

	segment->source = IN(__u16, at);
	segment->destination = IN(__u16, at + 2);
	segment->seq = bpf_ntohl(IN(__u32, at + 4));
	segment->ack = bpf_ntohl(IN(__u32, at + 8));
	segment->flags = IN(__u8, at + 13);
	segment->window = bpf_ntohs(IN(__u16, at + 14));
	segment->mss = NO_MSS;
	segment->has_timestamps = 0;
	segment->their_clock = 0;
	if (header == TCP + 12 &&
	    IN(__u32, at + TCP) == WORD4(OPTION_NOP, OPTION_NOP, OPTION_TIMESTAMPS, 10)) {
		segment->has_timestamps = 1;
		segment->their_clock = bpf_ntohl(IN(__u32, at + TCP + 4));
	} else if (header > TCP) {
		read_options(work, at + TCP, at + header);
	}
	return 0;
}

/* SipHash-1-3 of our port, the client's (`ports`, in this order in memory), our address, the
 * client's: as wire::flow::FlowHasher. */
static __always_inline __u64 hash_ipv4(const struct config *config, __u32 ports,
				       __u32 destination, __u32 source)
{
	SIP_BEGIN(config->key);

	SIP_WORD(ports | (__u64)destination << 32);
	SIP_WORD(source | 12ULL << 56);
	SIP_END;
	return v0 ^ v1 ^ v2 ^ v3;
}

/* The same of IPv6 addresses in `in`. */
static __always_inline __u64 hash_ipv6(struct work *work, const struct config *config, __u32 ports,
				       __u32 destination, __u32 source)
{
	SIP_BEGIN(config->key);

	SIP_WORD(ports | (__u64)IN(__u32, destination) << 32);
	SIP_WORD(IN(__u64, destination + 4));
	SIP_WORD(IN(__u32, destination + 12) | (__u64)IN(__u32, source) << 32);
	SIP_WORD(IN(__u64, source + 4));
	SIP_WORD(IN(__u32, source + 12) | 36ULL << 56);
	SIP_END;
	return v0 ^ v1 ^ v2 ^ v3;
}

static __always_inline __u64 hash_flow(struct work *work, const struct config *config,
				       const struct segment *segment)
{
	__u32 ports = segment->destination | (__u32)segment->source << 16;
	__u32 ip = segment->ip;

	if (segment->ipv6)
		return hash_ipv6(work, config, ports, ip + 24, ip + 8);
	return hash_ipv4(config, ports, IN(__u32, ip + 16), IN(__u32, ip + 12));
}

/* Writes the headers of an answer in front of its payload. Returns where the frame begins in
 * `out`. */
__noinline __u32 write_headers(struct work *work)
{
	const struct segment *segment;
	const struct reply *reply;
	__u32 options, tcp, length, ip, start, at;
	__u64 pseudo;

	if (!work)
		return 0;
	segment = &work->segment;
	reply = &work->reply;
	options = (reply->mss ? 4 : 0) + (reply->timestamps ? 12 : 0);
	tcp = PAYLOAD_AT - TCP - options;
	length = TCP + options + reply->payload_length;
	ip = tcp - (segment->ipv6 ? IPV6 : IPV4);
	start = ip - segment->ip;
	at = tcp + TCP;

	OUT(__u32, start) = IN(__u32, 6);
	OUT(__u16, start + 4) = IN(__u16, 10);
	OUT(__u32, start + 6) = IN(__u32, 0);
	OUT(__u16, start + 10) = IN(__u16, 4);
	/* Type, and tags if there are. */
	OUT(__u16, start + 12) = IN(__u16, 12);
	if (segment->ip > ETHERNET)
		OUT(__u32, start + 14) = IN(__u32, 14);
	if (segment->ip > ETHERNET + TAG)
		OUT(__u32, start + 18) = IN(__u32, 18);

	if (segment->ipv6) {
		OUT(__u32, ip) = bpf_htonl(0x60000000);
		OUT(__u32, ip + 4) = bpf_htonl(length << 16 | IPPROTO_TCP << 8 | 64);
		OUT(__u64, ip + 8) = IN(__u64, segment->ip + 24);
		OUT(__u64, ip + 16) = IN(__u64, segment->ip + 32);
		OUT(__u64, ip + 24) = IN(__u64, segment->ip + 8);
		OUT(__u64, ip + 32) = IN(__u64, segment->ip + 16);
	} else {
		OUT(__u32, ip) = bpf_htonl(0x45000000 | (length + IPV4));
		OUT(__u32, ip + 4) = bpf_htonl(0x4000);
		OUT(__u32, ip + 8) = bpf_htonl(64 << 24 | IPPROTO_TCP << 16);
		OUT(__u32, ip + 12) = IN(__u32, segment->ip + 16);
		OUT(__u32, ip + 16) = IN(__u32, segment->ip + 12);
		OUT(__u16, ip + 10) = ~fold(sum_words(work->out, ip, 5));
	}

	OUT(__u16, tcp) = segment->destination;
	OUT(__u16, tcp + 2) = segment->source;
	OUT(__u32, tcp + 4) = bpf_htonl(reply->seq);
	OUT(__u32, tcp + 8) = bpf_htonl(reply->ack);
	OUT(__u32, tcp + 12) =
		bpf_htonl((TCP + options) << 26 | reply->flags << 16 | reply->window);
	OUT(__u32, tcp + 16) = 0;
	if (reply->mss) {
		OUT(__u32, at) = bpf_htonl(OPTION_MSS << 24 | 4 << 16 | reply->mss);
		at += 4;
	}
	if (reply->timestamps) {
		OUT(__u32, at) = WORD4(OPTION_NOP, OPTION_NOP, OPTION_TIMESTAMPS, 10);
		OUT(__u32, at + 4) = bpf_htonl(segment->their_clock + reply->clock);
		OUT(__u32, at + 8) = bpf_htonl(segment->their_clock);
	}
	/* The addresses are the same the other way round. */
	pseudo = pseudo_header(work, segment, length) + reply->payload_sum;
	OUT(__u16, tcp + 16) = ~sum_bytes(work->out, tcp, TCP + options, pseudo);
	return start;
}

#endif
