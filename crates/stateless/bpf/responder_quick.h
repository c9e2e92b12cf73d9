/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The usual frames, without a buffer and without a call: IPv4 without tags or options, TCP with
 * timestamps and nothing else (a SYN as Linux sends it), and, if it is a request, the one that the
 * memo has. Whatever is not exactly so is left, untouched, to the general way, which says the same
 * of these frames; only it drops what is wrong.
 *
 * A call is what costs most here: where returns are guarded against speculation, each is as dear as
 * twenty loads. The frame is read and written in place, in words.
 */
#ifndef RESPONDER_QUICK_H
#define RESPONDER_QUICK_H

#include "responder.h"
#include "responder_packet.h"
#include "responder_state.h"

/* Offsets in a frame, and lengths of its parts. */
#define AT_IP ETHERNET
#define AT_TCP (AT_IP + IPV4)
#define AT_OPTIONS (AT_TCP + TCP)
#define CLOCKS 12
#define AT_DATA (AT_OPTIONS + CLOCKS)
#define SYN_OPTIONS 20
/* Copied at once. */
#define BLOCK 32
/* Room in front of a frame that drivers leave; where they do not, its end is tried. */
#define FRONT_ROOM 160

#define NOT_QUICK (-1)

#define FRAME(TYPE, AT) (*(TYPE *)(frame + (AT)))

/* A frame of which all else is usual. In network byte order, but for what is computed with. */
struct usual {
	__u64 ours, theirs; /* link addresses, in the lower 48 bits */
	__u32 source, destination;
	__u32 ports;
	__u32 seq, ack;
	__u32 clock;
	__u32 window;
	__u32 bytes; /* of payload */
};

/* The sum of a pseudo-header: address pair and length. */
static __always_inline __u64 pseudo_sum(const struct usual *usual, __u32 length)
{
	return (__u64)usual->source + usual->destination + bpf_htons(length) +
	       bpf_htons(IPPROTO_TCP);
}

/* Writes the headers of an answer over those of a frame that is long enough for them. */
static __always_inline void write_usual(void *frame, const struct usual *usual,
					const struct reply *reply)
{
	__u32 options = CLOCKS + (reply->mss ? 4 : 0);
	__u32 length = TCP + options + reply->payload_length;
	__u32 first = bpf_htonl(0x45000000 | (length + IPV4));
	__u32 third = bpf_htonl(64 << 24 | IPPROTO_TCP << 16);
	__u32 ports = usual->ports << 16 | usual->ports >> 16;
	__u32 seq = bpf_htonl(reply->seq), ack = bpf_htonl(reply->ack);
	__u32 clock = bpf_htonl(bpf_ntohl(usual->clock) + reply->clock);
	__u32 kind = WORD4(OPTION_NOP, OPTION_NOP, OPTION_TIMESTAMPS, 10);
	__u32 flags = bpf_htonl((TCP + options) << 26 | reply->flags << 16 | reply->window);
	__u32 mss = bpf_htonl(OPTION_MSS << 24 | 4 << 16 | reply->mss);
	__u64 sum = (__u64)usual->source + usual->destination;

	FRAME(__u64, 0) = usual->theirs | usual->ours << 48;
	FRAME(__u32, 8) = usual->ours >> 16;
	FRAME(__u16, 12) = bpf_htons(ETH_P_IP);
	FRAME(__u32, AT_IP) = first;
	FRAME(__u32, AT_IP + 4) = bpf_htonl(0x4000);
	third |= (__u32)(__u16)~fold(sum + first + bpf_htonl(0x4000) + third) << 16;
	FRAME(__u32, AT_IP + 8) = third;
	FRAME(__u32, AT_IP + 12) = usual->destination;
	FRAME(__u32, AT_IP + 16) = usual->source;

	sum = pseudo_sum(usual, length) + reply->payload_sum;
	sum += (__u64)ports + seq + ack + flags + kind + clock + usual->clock;
	if (reply->mss)
		sum += mss;
	FRAME(__u32, AT_TCP) = ports;
	FRAME(__u32, AT_TCP + 4) = seq;
	FRAME(__u32, AT_TCP + 8) = ack;
	FRAME(__u32, AT_TCP + 12) = flags;
	FRAME(__u32, AT_TCP + 16) = (__u16)~fold(sum);
	if (reply->mss) {
		FRAME(__u32, AT_OPTIONS) = mss;
		frame += 4;
	}
	FRAME(__u32, AT_OPTIONS) = kind;
	FRAME(__u32, AT_OPTIONS + 4) = clock;
	FRAME(__u32, AT_OPTIONS + 8) = usual->clock;
}

/* Whether the payload in `frame` is the request of the memo; it has `bytes`, at least eight. */
static __always_inline int is_asked_again(const struct memo *memo, void *frame, void *end,
					  __u32 bytes)
{
	void *at = frame + AT_DATA;

	for (__u32 i = 0; i < MEMO_SIZE; i += 8, at += 8) {
		if (i + 8 > bytes || at + 8 > end)
			break;
		if (*(__u64 *)at != memo->words[i / 8])
			return 0;
	}
	/* What is left is less than a word: the last one, again. */
	bytes = (bytes - 8) & (MEMO_SIZE - 1);
	at = frame + AT_DATA + bytes;
	if (at + 8 > end)
		return 0;
	return *(__u64 *)at == *(__u64 *)((void *)memo->words + bytes);
}

/* Copies the payload of the memo's answer behind the headers; it has a block at least. */
static __always_inline int write_payload(struct work *work, void *frame, void *end, __u32 length)
{
	const __u8 *from = work->out + PAYLOAD_AT;
	void *to = frame + AT_DATA;

	for (__u32 i = 0; i < BUFFER / 2; i += BLOCK) {
		if (i + BLOCK > length || to + BLOCK > end)
			break;
#pragma unroll
		for (int j = 0; j < BLOCK; j += 8)
			*(__u64 *)(to + j) = *(__u64 *)(from + i + j);
		to += BLOCK;
	}
	length = (length - BLOCK) & (BUFFER / 2 - 1);
	to = frame + AT_DATA + length;
	if (to + BLOCK > end)
		return 0;
#pragma unroll
	for (int j = 0; j < BLOCK; j += 8)
		*(__u64 *)(to + j) = *(__u64 *)(from + length + j);
	return 1;
}

static __always_inline int is_own_port(const struct config *config, __u16 port)
{
	for (__u32 i = 0; i < MAX_RANGES; i++) {
		if (i >= config->range_count)
			break;
		if (port >= config->ranges[i][0] && port <= config->ranges[i][1])
			return 1;
	}
	return 0;
}

/* The request of the memo, again. */
static __always_inline int ask_again(struct xdp_md *context, struct work *work,
				     struct counts *counts, const struct usual *usual,
				     struct reply *reply, __u32 place)
{
	const struct memo *memo = &work->memo;
	__u32 room = class_size(place % STEP / PHASES) - CLOCKS;
	int growth = memo->payload_length - usual->bytes;
	void *frame, *end;

	if (place % PHASES != READY || place >= LAST || place < FIRST)
		return NOT_QUICK;
	if (room > usual->window)
		room = usual->window;
	if (room < PAD_ROOM || room - PAD_ROOM < memo->room || memo->payload_length < BLOCK)
		return NOT_QUICK;
	if (growth > FRONT_ROOM ? bpf_xdp_adjust_tail(context, growth) != 0 :
				  growth && bpf_xdp_adjust_head(context, -growth))
		return NOT_QUICK;
	frame = (void *)(long)context->data;
	end = (void *)(long)context->data_end;
	if (frame + AT_DATA > end)
		return XDP_DROP;
	reply->flags = memo->flags;
	reply->payload_length = memo->payload_length;
	reply->payload_sum = memo->payload_sum;
	reply->ack = usual->seq + usual->bytes;
	write_usual(frame, usual, reply);
	if (!write_payload(work, frame, end, memo->payload_length))
		return XDP_DROP;
	counts->counts[REQUESTS]++;
	counts->counts[RESPONSES]++;
	counts->counts[FRAMES_OUT]++;
	counts->counts[BYTES_IN] += usual->bytes;
	counts->counts[BYTES_OUT] += memo->payload_length;
	if (memo->flags & FIN)
		counts->counts[CLOSES]++;
	return XDP_TX;
}

/* A segment without payload: an acknowledgement, or the client's FIN. */
static __always_inline int on_bare(void *frame, struct counts *counts, const struct config *config,
				   const struct usual *usual, struct reply *reply, __u32 place,
				   __u32 fin)
{
	__u32 phase = place % PHASES;

	if (phase != READY && phase != CLOSING && (phase != CLOSED || config->reset))
		return NOT_QUICK;
	if (!fin) {
		counts->counts[ACKS]++;
		return XDP_DROP;
	}
	reply->flags = ACK | (phase != CLOSED ? FIN : 0);
	reply->ack = usual->seq + 1;
	write_usual(frame, usual, reply);
	counts->counts[FINS]++;
	counts->counts[FRAMES_OUT]++;
	return XDP_TX;
}

/* A SYN with Linux's options: MSS, SACK permitted, timestamps, window scale. */
static __always_inline int on_usual_syn(struct xdp_md *context, struct counts *counts,
					const struct config *config, struct usual *usual,
					struct reply *reply, __u32 secret, __u32 length)
{
	void *frame = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	__u64 sum;
	int class;

	if (length != IPV4 + TCP + SYN_OPTIONS || frame + AT_OPTIONS + SYN_OPTIONS > end)
		return NOT_QUICK;
	if (FRAME(__u16, AT_OPTIONS) != WORD2(OPTION_MSS, 4) ||
	    FRAME(__u32, AT_OPTIONS + 4) != WORD4(OPTION_SACK, 2, OPTION_TIMESTAMPS, 10) ||
	    (FRAME(__u32, AT_OPTIONS + 16) & 0xffffff) != WORD4(OPTION_NOP, OPTION_SCALE, 3, 0))
		return NOT_QUICK;
	sum = pseudo_sum(usual, TCP + SYN_OPTIONS);
	if (!(config->partial && fold(sum) == FRAME(__u16, AT_TCP + 16))) {
#pragma unroll
		for (int i = 0; i < TCP + SYN_OPTIONS; i += 4)
			sum += FRAME(__u32, AT_TCP + i);
		if (fold(sum) != 0xffff)
			return NOT_QUICK;
	}
	usual->clock = FRAME(__u32, AT_OPTIONS + 8);
	class = class_of(config, 0, bpf_ntohs(FRAME(__u16, AT_OPTIONS + 2)));
	if (class < 0)
		return NOT_QUICK;
	if (bpf_xdp_adjust_head(context, SYN_OPTIONS - CLOCKS - 4))
		return NOT_QUICK;
	frame = (void *)(long)context->data;
	end = (void *)(long)context->data_end;
	if (frame + AT_DATA + 4 > end)
		return XDP_DROP;
	reply->flags = SYN | ACK;
	reply->seq = usual->seq + secret + START + class * PHASES;
	reply->ack = usual->seq + 1;
	reply->mss = config->announced[0];
	write_usual(frame, usual, reply);
	counts->counts[SYNS]++;
	counts->counts[FRAMES_OUT]++;
	return XDP_TX;
}

/* Answers a usual frame, or leaves it as it was: NOT_QUICK. */
static __always_inline int answer_quickly(struct xdp_md *context, struct work *work,
					  struct counts *counts, const struct config *config)
{
	void *frame = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	struct reply reply = { .window = OUR_WINDOW };
	struct usual usual;
	__u32 flags, length, place;
	__u64 sum, hash;

	if (frame + AT_DATA > end)
		return NOT_QUICK;
	length = bpf_ntohs(FRAME(__u16, AT_IP + 2));
	if (FRAME(__u16, 12) != bpf_htons(ETH_P_IP) || FRAME(__u8, AT_IP) != 0x45 ||
	    FRAME(__u16, AT_IP + 6) & bpf_htons(0x3fff) || FRAME(__u8, AT_IP + 9) != IPPROTO_TCP)
		return NOT_QUICK;
	/* Nothing is missing, and nothing is behind. */
	if (length < IPV4 + TCP + CLOCKS || length > IPV4 + TCP + CLOCKS + MEMO_SIZE ||
	    frame + ETHERNET + length != end)
		return NOT_QUICK;
	usual.theirs = FRAME(__u64, 6) & 0xffffffffffffULL;
	usual.ours = FRAME(__u64, 0) & 0xffffffffffffULL;
	usual.source = FRAME(__u32, AT_IP + 12);
	usual.destination = FRAME(__u32, AT_IP + 16);
	if (is_group_or_none(usual.source) || is_group_or_none(usual.destination) ||
	    is_martian_ipv4(config, usual.source))
		return NOT_QUICK;
	sum = (__u64)usual.source + usual.destination;
	if (fold(sum + FRAME(__u32, AT_IP) + FRAME(__u32, AT_IP + 4) + FRAME(__u32, AT_IP + 8)) !=
	    0xffff)
		return NOT_QUICK;
	usual.ports = FRAME(__u32, AT_TCP);
	if (!(__u16)usual.ports || !(usual.ports >> 16) ||
	    (__u16)usual.ports == usual.ports >> 16 ||
	    is_own_port(config, bpf_ntohs((__u16)usual.ports)))
		return NOT_QUICK;
	usual.seq = bpf_ntohl(FRAME(__u32, AT_TCP + 4));
	usual.ack = bpf_ntohl(FRAME(__u32, AT_TCP + 8));
	usual.window = bpf_ntohs(FRAME(__u16, AT_TCP + 14));
	/* Our port first, then the client's. */
	hash = hash_ipv4(config, usual.ports >> 16 | usual.ports << 16, usual.destination, usual.source);
	reply.clock = hash >> 32;
	flags = FRAME(__u16, AT_TCP + 12);
	if (flags == WORD2((TCP + SYN_OPTIONS) << 2, SYN))
		return on_usual_syn(context, counts, config, &usual, &reply, hash, length);
	if ((flags & 0xff) != (TCP + CLOCKS) << 2 ||
	    FRAME(__u32, AT_OPTIONS) != WORD4(OPTION_NOP, OPTION_NOP, OPTION_TIMESTAMPS, 10))
		return NOT_QUICK;
	flags >>= 8;
	usual.clock = FRAME(__u32, AT_OPTIONS + 4);
	usual.bytes = length - (IPV4 + TCP + CLOCKS);
	reply.seq = usual.ack;
	place = usual.ack - usual.seq - (__u32)hash;
	if (config->strict && place >= WINDOW)
		return NOT_QUICK;
	if (usual.bytes) {
		if ((flags & ~PSH) != ACK || usual.bytes != work->memo.length || usual.bytes < 8 ||
		    !is_asked_again(&work->memo, frame, end, usual.bytes))
			return NOT_QUICK;
	} else if ((flags & ~FIN) != ACK) {
		return NOT_QUICK;
	}
	sum = pseudo_sum(&usual, length - IPV4);
	if (!(config->partial && fold(sum) == FRAME(__u16, AT_TCP + 16))) {
		if (usual.bytes)
			sum += work->memo.request_sum;
#pragma unroll
		for (int i = 0; i < TCP + CLOCKS; i += 4)
			sum += FRAME(__u32, AT_TCP + i);
		if (fold(sum) != 0xffff)
			return NOT_QUICK;
	}
	if (usual.bytes)
		return ask_again(context, work, counts, &usual, &reply, place);
	return on_bare(frame, counts, config, &usual, &reply, place, flags & FIN);
}

#endif
