/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The state that is in the numbers of a segment: the same as in
 * src/responder/state.rs.
 */
#ifndef RESPONDER_STATE_H
#define RESPONDER_STATE_H

#include "responder.h"

#define STEP 64
#define PHASES 16
#define START (1 << 18)
#define WINDOW (1 << 22)
#define LAST (WINDOW - (1 << 17))
#define FIRST (1 << 13)
#define DEFAULT_MSS 536
#define OUR_WINDOW 0xffff
#define CLOSE_SHIFT 4
#define CLASSES 4
/* Kept free for padding, in bytes. */
#define PAD_ROOM 72

enum phase { READY = 0, PROBE = 1, CLOSING = 4, CLOSED = 5 };

/* The classes of segment sizes. */
static __always_inline __u32 class_size(__u32 class)
{
	return class == 0 ? 256 : class == 1 ? 536 : class == 2 ? 1360 : 1440;
}

/* The class of a client that takes segments of `mss` bytes; -1 if that is too small for us. */
static __always_inline int class_of(const struct config *config, __u32 ipv6, __u32 mss)
{
	__u32 largest = config->segment[ipv6 & 1];
	int class = 0;

	if (mss > largest)
		mss = largest;
	if (mss < class_size(0))
		return -1;
#pragma unroll
	for (int i = 1; i < CLASSES; i++)
		class += mss >= class_size(i);
	return class;
}

#endif
