// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * The stateless responder at the driver's edge: a frame in, at most one frame out, in its place.
 *
 * This is the function `Responder::respond` of this crate, with the same bytes for the
 * same frame; a test compares the two. The argument is there and in docs/stateless.md; here are
 * the steps. The frame is copied to a buffer of this CPU, the answer is written to another, and
 * the frame is made as long as the answer and overwritten. Where a driver left no room for that,
 * the frame, still as it was, takes the detour by an AF_XDP socket to the same function there.
 */
#include "responder.h"
#include "responder_packet.h"
#include "responder_request.h"
#include "responder_response.h"
#include "responder_state.h"
#include "responder_quick.h"

#define MAX_PIPELINED 8

static __always_inline void add(struct counts *counts, __u32 counter, __u64 n)
{
	counts->counts[counter & (COUNTER_SLOTS - 1)] += n;
}

static __always_inline int drop(struct counts *counts, __u32 counter)
{
	add(counts, counter, 1);
	return XDP_DROP;
}

/* An outcome is what a frame is counted as; with this, if the answer in `work->reply` was sent. */
#define SEND 0x100

/* Whether nobody can have sent it. */
static __always_inline int is_martian(const struct work *work, const struct config *config)
{
	const struct segment *segment = &work->segment;
	__u32 at = segment->ip;

	if (!segment->source || !segment->destination)
		return 1;
	if (!segment->ipv6)
		return is_martian_ipv4(config, IN(__u32, at + 12));
	return !config->loopback && !IN(__u64, at + 8) &&
	       IN(__u64, at + 16) == bpf_cpu_to_be64(1);
}

static __always_inline int is_loop(const struct work *work, const struct config *config)
{
	const struct segment *segment = &work->segment;

	if (segment->source == segment->destination) {
		__u32 at = segment->ip;

		if (!segment->ipv6 && IN(__u32, at + 12) == IN(__u32, at + 16))
			return 1;
		if (segment->ipv6 && IN(__u64, at + 8) == IN(__u64, at + 24) &&
		    IN(__u64, at + 16) == IN(__u64, at + 32))
			return 1;
	}
	return is_own_port(config, bpf_ntohs(segment->source));
}

static __always_inline int on_syn(struct work *work, const struct config *config, __u32 secret)
{
	const struct segment *segment = &work->segment;
	__u32 mss = segment->mss == NO_MSS ? DEFAULT_MSS : segment->mss;
	struct reply *reply = &work->reply;
	int class;

	if (segment->flags & ACK)
		return SYN_ACK;
	if (segment->flags & FIN)
		return BAD_FLAGS;
	class = class_of(config, segment->ipv6, mss);
	if (class < 0)
		return SMALL_MSS;
	reply->flags = SYN | ACK;
	reply->seq = segment->seq + secret + START + class * PHASES;
	reply->ack = segment->seq + 1;
	reply->mss = config->announced[segment->ipv6 & 1];
	return SEND | SYNS;
}

/* Goes on with the request that follows the one whose plan is `number`, if it is there and there
 * is room for both. Returns whether it did. */
__noinline int compose_next(struct work *work, __u32 number, __u32 room, __u32 near_the_end)
{
	__u32 end, length;

	if (!work)
		return 0;
	end = work->segment.payload + work->composed.consumed;
	if (end >= work->segment.end || work->plans[number & 1].close)
		return 0;
	if (!read_request(work, end, work->segment.end))
		return 0;
	end = work->request.end;
	make_plan(work, number ^ 1,
		  near_the_end || (work->segment.flags & FIN && end == work->segment.end));
	length = work->reply.payload_length + plan_length(work, number);
	if (length + plan_length(work, number ^ 1) > room)
		return 0;
	length = write_plan(work, PAYLOAD_AT + work->reply.payload_length, number, 0);
	work->reply.payload_length = length - PAYLOAD_AT;
	work->composed.consumed = end - work->segment.payload;
	work->composed.responses++;
	return 1;
}

/* Whether the memo is of the request in `in`, which has zeros behind it. */
static __always_inline int is_known(struct work *work, __u32 bytes)
{
	struct memo *memo = &work->memo;

	if (memo->length != bytes)
		return 0;
	for (__u32 i = 0; i < MEMO_SIZE / 8; i++) {
		if (i * 8 >= bytes)
			break;
		if (IN(__u64, work->segment.payload + i * 8) != memo->words[i])
			return 0;
	}
	return 1;
}

static __always_inline void remember(struct work *work, __u32 bytes, __u32 room)
{
	struct memo *memo = &work->memo;

	for (__u32 i = 0; i < MEMO_SIZE / 8; i++) {
		if (i * 8 >= bytes)
			break;
		memo->words[i] = IN(__u64, work->segment.payload + i * 8);
	}
	memo->length = bytes;
	memo->request_sum = sum_bytes(work->in, work->segment.payload, bytes, 0);
	memo->room = room;
	memo->payload_length = work->reply.payload_length;
	memo->payload_sum = work->reply.payload_sum;
	memo->flags = work->reply.flags;
}

/* Writes the responses to all complete requests that there is room for. */
static __always_inline int compose(struct work *work, __u32 near_the_end, __u32 room)
{
	struct segment *segment = &work->segment;
	struct composed *composed = &work->composed;
	struct reply *reply = &work->reply;
	__u32 fin = segment->flags & FIN, number = 0, length, padding, close, end;
	struct memo *memo = &work->memo;
	__u32 bytes = segment->end - segment->payload, needed;
	int fitted;

	if (!near_the_end && !fin && room >= memo->room && is_known(work, bytes)) {
		composed->clipped = 0;
		composed->responses = 1;
		composed->consumed = bytes;
		composed->worn_out = 0;
		reply->payload_length = memo->payload_length;
		reply->payload_sum = memo->payload_sum;
		reply->flags = memo->flags;
		reply->ack = segment->seq + bytes;
		return SEND | REQUESTS;
	}
	/* From here on `out` is another's. */
	memo->length = 0;
	if (!read_request(work, segment->payload, segment->end))
		return INCOMPLETE;
	end = work->request.end;
	make_plan(work, 0, near_the_end || (fin && end == segment->end));
	fitted = fit(work, room);
	if (fitted == NO_FIT)
		return SMALL_WINDOW;
	composed->clipped = fitted == CLIPPED_TO_FIT;
	composed->responses = 1;
	composed->consumed = end - segment->payload;
	composed->worn_out = near_the_end;
	reply->payload_length = 0;
	for (int i = 1; i < MAX_PIPELINED; i++) {
		if (!compose_next(work, number, room, near_the_end))
			break;
		number ^= 1;
	}
	close = work->plans[number & 1].close;
	length = reply->payload_length + plan_length(work, number);
	padding = (composed->consumed - length + (close ? CLOSE_SHIFT : 0)) % STEP;
	if (padding && padding < PAD_FIELD)
		padding += STEP;
	needed = length;
	length = write_plan(work, PAYLOAD_AT + reply->payload_length, number, padding);
	OUT(__u32, length) = 0;
	reply->payload_length = length - PAYLOAD_AT;
	reply->payload_sum = sum_bytes(work->out, PAYLOAD_AT, reply->payload_length, 0);
	reply->flags = PSH | ACK | (close ? FIN : 0);
	/* The client's FIN is acknowledged if all before it is. */
	end = segment->payload + composed->consumed;
	reply->ack = segment->seq + composed->consumed + (fin && end == segment->end);
	if (!near_the_end && !fin && composed->responses == 1 && !composed->clipped &&
	    composed->consumed == bytes && bytes <= MEMO_SIZE)
		remember(work, bytes, needed);
	return SEND | REQUESTS;
}

static __always_inline int on_request(struct work *work, __u32 place)
{
	__u32 room = class_size(place % STEP / PHASES);

	if (work->segment.has_timestamps)
		room -= 12;
	if (room > work->segment.window)
		room = work->segment.window;
	if (room < PAD_ROOM)
		return SMALL_WINDOW;
	return compose(work, place >= LAST || place < FIRST, room - PAD_ROOM);
}

static __always_inline int on_segment(struct work *work, const struct config *config, __u32 secret)
{
	const struct segment *segment = &work->segment;
	__u32 place = segment->ack - segment->seq - secret;
	__u32 bytes = segment->end - segment->payload, phase = place % PHASES;
	__u32 fin = segment->flags & FIN, counter = FINS;
	struct reply *reply = &work->reply;

	if (config->strict && place >= WINDOW)
		return FORGED;
	if (phase == READY && bytes)
		return on_request(work, place);
	if (phase != READY && phase != PROBE && phase != CLOSING && phase != CLOSED)
		return MISPLACED;
	/* Data behind the end, or the rest of a request that was split; but a probe may have a zero. */
	if (bytes && !(phase == PROBE && bytes == 1 && !IN(__u8, segment->payload)))
		return MISPLACED;
	if (phase == PROBE) {
		if (fin)
			return MISPLACED;
		counter = PROBES;
	} else if (phase == CLOSED && config->reset) {
		/* With exactly the number that the client expects. */
		reply->flags = RST;
		reply->ack = reply->window = reply->timestamps = 0;
		return SEND | RESETS_SENT;
	} else if (!fin) {
		return ACKS;
	}
	reply->flags = ACK | (counter == FINS && phase != CLOSED ? FIN : 0);
	reply->ack = segment->seq + 1;
	return SEND | counter;
}

/* What becomes of the frame of `length` bytes in `in`; its answer is in `out`, from
 * `work->reply.start` on. */
static __always_inline int decide(struct work *work, const struct config *config, __u32 length)
{
	struct segment *segment;
	struct reply *reply;
	__u64 hash;
	int outcome;

	segment = &work->segment;
	reply = &work->reply;
	outcome = read_segment(work, config, length);
	if (outcome)
		return outcome;
	if (is_martian(work, config))
		return MARTIAN;
	if (is_loop(work, config))
		return LOOP;
	if (segment->flags & RST)
		return RESETS_RECEIVED;
	hash = hash_flow(work, config, segment);
	reply->seq = segment->ack;
	reply->window = OUR_WINDOW;
	reply->mss = 0;
	reply->clock = hash >> 32;
	reply->timestamps = segment->has_timestamps;
	reply->payload_length = 0;
	reply->payload_sum = 0;
	if (segment->flags & SYN)
		outcome = on_syn(work, config, hash);
	else if (segment->flags & ACK)
		outcome = on_segment(work, config, hash);
	else
		outcome = BAD_FLAGS;
	if (outcome & SEND)
		reply->start = write_headers(work);
	return outcome;
}

/* Puts the answer in the place of the frame, which it makes longer where a driver leaves room: at its
 * end, or at its front. Returns 0, or what happened instead. */
static __always_inline int overwrite(struct xdp_md *context, struct work *work, __u32 frame_length)
{
	__u32 start = work->reply.start;
	__u32 length = PAYLOAD_AT + work->reply.payload_length - start;
	int growth = length - frame_length;

	if (growth && bpf_xdp_adjust_tail(context, growth) &&
	    (growth < 0 || bpf_xdp_adjust_head(context, -growth)))
		return DETOURS;
	/* For the verifier: never empty, and never longer than the buffer. */
	length = (length - 1) & (BUFFER / 2 - 1);
	if (bpf_xdp_store_bytes(context, 0, work->out + (start & (BUFFER - 1)), length + 1))
		return NO_ROOM;
	return 0;
}

SEC("xdp.frags")
int respond(struct xdp_md *context)
{
	const struct config *config = the_config();
	struct counts *counts;
	struct work *work;
	__u32 zero = 0;
	int outcome, failed;
	__u64 length;

	work = bpf_map_lookup_elem(&work_map, &zero);
	counts = bpf_map_lookup_elem(&counts_map, &zero);
	if (!work || !counts)
		return XDP_DROP;
	outcome = answer_quickly(context, work, counts, config);
	if (outcome != NOT_QUICK)
		return outcome;
	length = bpf_xdp_get_buff_len(context);
	if (length > MAX_FRAME)
		return drop(counts, TOO_LONG);
	if (length < ETHERNET || bpf_xdp_load_bytes(context, 0, work->in, length))
		return drop(counts, MALFORMED);
	outcome = decide(work, config, length);
	if (!(outcome & SEND))
		return drop(counts, outcome);
	failed = overwrite(context, work, length);
	if (failed) {
		if (failed == DETOURS &&
		    bpf_redirect_map(&detours, context->rx_queue_index, XDP_DROP) == XDP_REDIRECT) {
			add(counts, DETOURS, 1);
			return XDP_REDIRECT;
		}
		return drop(counts, NO_ROOM);
	}
	add(counts, outcome, 1);
	add(counts, FRAMES_OUT, 1);
	if (outcome == (SEND | REQUESTS)) {
		add(counts, RESPONSES, work->composed.responses);
		add(counts, BYTES_IN, work->composed.consumed);
		add(counts, BYTES_OUT, work->reply.payload_length);
		add(counts, CLIPPED, work->composed.clipped);
		if (work->reply.flags & FIN) {
			add(counts, CLOSES, 1);
			add(counts, WORN_OUT, work->composed.worn_out);
		}
	}
	return XDP_TX;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
