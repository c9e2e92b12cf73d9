/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * What the program of the responder and this crate both know: layouts, numbers, maps.
 * The other half is in src/responder/program/layout.rs; the numbers of counters and bodies are those
 * of src/responder/counters.rs and tables.rs.
 */
#ifndef RESPONDER_H
#define RESPONDER_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_FRAME 2048
#define MAX_RANGES 8
#define MAX_QUEUES 256
#define MAX_STATUS 600
#define MAX_OBJECTS 64
#define MAX_PATH 64
#define BODY_SIZE 2048
#define FIELDS_SIZE 208
#define LINE_WORDS 6
#define MAX_BROADCASTS 8

/* Bodies: made up, random, texts, objects. */
#define BODY_PATTERN 0
#define BODY_RANDOM 1
#define FIRST_TEXT 2
enum text {
	TEXT_BAD_REQUEST,
	TEXT_BAD_ARGUMENT,
	TEXT_NOT_FOUND,
	TEXT_TARGET_TOO_LONG,
	TEXT_METHOD,
	TEXT_DELAY,
	TEXT_TOO_LARGE,
	TEXT_PIECES,
	TEXT_NO_FIT,
	TEXT_HELP,
	TEXTS,
};
#define MAX_BODIES (FIRST_TEXT + TEXTS + MAX_OBJECTS)

enum counter {
	SYNS,
	REQUESTS,
	RESPONSES,
	FINS,
	PROBES,
	ACKS,
	RESETS_RECEIVED,
	RESETS_SENT,
	CLOSES,
	WORN_OUT,
	CLIPPED,
	BYTES_IN,
	BYTES_OUT,
	FRAMES_OUT,
	DETOURS,
	MALFORMED,
	CHECKSUM,
	TOO_LONG,
	LOOP,
	SYN_ACK,
	BAD_FLAGS,
	SMALL_MSS,
	FORGED,
	MISPLACED,
	INCOMPLETE,
	SMALL_WINDOW,
	NO_ROOM,
	MARTIAN,
	/* Of responses in several segments, which this program does not send. */
	REPAIRS,
	FORGOTTEN,
	COUNTERS,
};
/* A power of two, for the verifier. */
#define COUNTER_SLOTS 32
_Static_assert(COUNTERS <= COUNTER_SLOTS, "one slot a counter");

struct config {
	__u64 key[2];
	/* First and last port of each range. */
	__u16 ranges[MAX_RANGES][2];
	__u32 range_count;
	__u32 max_body;
	__u32 default_size;
	/* By family: 0 is IPv4, 1 is IPv6. */
	__u16 segment[2];
	__u16 announced[2];
	/* Of the interface, as in a packet; 0 where there are fewer. */
	__u32 broadcasts[MAX_BROADCASTS];
	__u8 strict;
	__u8 reset;
	__u8 partial;
	/* Whether it is the loopback, where 127/8 is at home. */
	__u8 loopback;
};

/* Filled in before the program is loaded: to the kernel these are constants, and what they rule out
 * is left out. */
const volatile struct config settings = {};

/* Where they are. The compiler must not know, or it would take the zeros above for the values. */
static __always_inline const struct config *the_config(void)
{
	const struct config *config = (const struct config *)&settings;

	asm volatile("" : "+r"(config));
	return config;
}

struct line {
	__u64 length;
	__u64 words[LINE_WORDS];
};

struct body {
	__u64 length;
	/* One more than are used: words are read from any offset. */
	__u64 words[BODY_SIZE / 8 + 1];
};

struct object {
	__u32 status;
	__u32 body;
	__u64 fields_length;
	__u64 fields[FIELDS_SIZE / 8];
};

struct path {
	__u64 words[MAX_PATH / 8];
};

#define ARRAY(NAME, TYPE, VALUE, ENTRIES)                                                          \
	struct {                                                                                   \
		__uint(type, TYPE);                                                                \
		__uint(max_entries, ENTRIES);                                                      \
		__type(key, __u32);                                                                \
		__type(value, VALUE);                                                              \
	} NAME SEC(".maps")

ARRAY(lines, BPF_MAP_TYPE_ARRAY, struct line, MAX_STATUS);
ARRAY(bodies, BPF_MAP_TYPE_ARRAY, struct body, MAX_BODIES);
ARRAY(objects, BPF_MAP_TYPE_ARRAY, struct object, MAX_OBJECTS);
/* Where a frame goes whose answer has no room in its buffer. */
ARRAY(detours, BPF_MAP_TYPE_XSKMAP, __u32, MAX_QUEUES);

/* The number of the object at a path. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_OBJECTS);
	__type(key, struct path);
	__type(value, __u32);
} paths SEC(".maps");

/* What a request says. */
struct request {
	/* Where it ends, in `in`. */
	__u32 end;
	__u8 head;
	__u8 is_11;
	__u8 connection;
	/* One of the `want`s. */
	__u8 want;
	__u32 path_at;
	__u32 path_length;
	/* Arguments, by letter below. */
	__u32 argument[16];
	/* Bit per argument that was given. */
	__u32 given;
	/* Whether one of them is no number. */
	__u32 bad;
	volatile __u32 lines;
};

struct number {
	__u32 value;
	__u32 is_one;
};

enum connection { UNSAID, CLOSE, KEEP_ALIVE };

enum want { WANT_MADE, WANT_OBJECT, WANT_TEXT };

enum argument {
	ARG_SIZE,
	ARG_STATUS,
	ARG_CACHE,
	ARG_CLOSE,
	ARG_KEEP,
	ARG_CHUNKED,
	ARG_ANNOUNCED,
	ARG_ETAG,
	ARG_RANDOM,
	ARG_PIECE,
	ARG_DELAY,
	ARG_NONE,
};

/* A response whose text is decided. */
struct plan {
	__u32 status;
	__u32 size;
	/* Of Content-Length, or of a chunk. */
	__u32 framing_size;
	__u32 etag;
	__u32 body;
	/* The object whose header fields it has, plus 1. */
	__u32 object;
	__u32 fields_length;
	__u8 connection;
	__u8 framing;
	__u8 uncacheable;
	__u8 has_etag;
	__u8 head;
	__u8 clippable;
	__u8 close;
	__u8 zero;
};

/* A segment that arrived. Offsets are those in `in`. */
struct segment {
	__u32 ip, tcp, payload, end;
	__u32 ipv6;
	__u32 seq, ack;
	/* In network byte order. */
	__u16 source, destination;
	__u32 flags;
	__u32 window;
	__u32 mss;
	__u32 has_timestamps;
	__u32 their_clock;
};

/* An answer: what differs from the segment turned round. */
struct reply {
	__u32 seq, ack;
	__u32 flags;
	__u32 window;
	/* 0 for none. */
	__u32 mss;
	__u32 clock;
	__u32 timestamps;
	__u32 payload_length;
	/* The folded sum of the payload. */
	__u32 payload_sum;
	/* Where its frame begins in `out`. */
	__u32 start;
};

enum framing { FRAMING_LENGTH, FRAMING_CHUNKS, FRAMING_NONE };

/* What was composed. */
struct composed {
	__u32 responses;
	__u32 clipped;
	__u32 consumed;
	__u32 worn_out;
};

/* The last request of this CPU that was answered alone and whole, and what was said: its answer still
 * stands in `out`. What a request is answered does not depend on the connection, but for the room
 * that there is, so the same request again needs no more than to be recognised. */
#define MEMO_SIZE 256
struct memo {
	/* Of the request; 0 if there is none. */
	__u32 length;
	/* What the answer needs, without padding. */
	__u32 room;
	__u32 payload_length;
	__u32 payload_sum;
	__u32 flags;
	/* The folded sum of the request. */
	__u32 request_sum;
	__u64 words[MEMO_SIZE / 8];
};

/* The payload of an answer stands here in `out`, its headers before it. */
#define PAYLOAD_AT 128
#define BUFFER 4096

struct counts {
	__u64 counts[COUNTER_SLOTS];
};

ARRAY(counts_map, BPF_MAP_TYPE_PERCPU_ARRAY, struct counts, 1);

/* One CPU's room to work: two buffers of which offsets below BUFFER are valid,
 * with as much behind them. */
struct work {
	struct request request;
	struct number number;
	struct plan plans[2];
	struct segment segment;
	struct reply reply;
	struct composed composed;
	struct memo memo;
	__u8 in[2 * BUFFER] __attribute__((aligned(8)));
	__u8 out[2 * BUFFER] __attribute__((aligned(8)));
};

ARRAY(work_map, BPF_MAP_TYPE_PERCPU_ARRAY, struct work, 1);

/* Reading and writing at any offset of a buffer. */
#define IN(TYPE, AT) (*(TYPE *)(work->in + ((AT) & (BUFFER - 1))))
#define OUT(TYPE, AT) (*(TYPE *)(work->out + ((AT) & (BUFFER - 1))))

/* Bytes that stand in memory in this order. */
#define WORD2(A, B) ((__u16)((B) << 8 | (A)))
#define WORD4(A, B, C, D) ((__u32)(D) << 24 | (C) << 16 | (B) << 8 | (A))
#define WORD8(A, B, C, D, E, F, G, H)                                                              \
	((__u64)WORD4(E, F, G, H) << 32 | (__u64)WORD4(A, B, C, D))
#define EACH_BYTE 0x0101010101010101ULL
#define LOWER_CASE 0x2020202020202020ULL

#endif
