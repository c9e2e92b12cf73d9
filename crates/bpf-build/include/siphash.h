/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * SipHash-1-3 (Aumasson and Bernstein, 2012) as statements, for words that are at hand: SIP_BEGIN with
 * the key declares the state, SIP_WORD takes a word, SIP_END ends it. The hash is v0 ^ v1 ^ v2 ^ v3.
 */
#ifndef SIPHASH_H
#define SIPHASH_H

#define ROTATE(WORD, BITS) ((WORD) << (BITS) | (WORD) >> (64 - (BITS)))
#define SIP_ROUND                                                                                  \
	do {                                                                                       \
		v0 += v1;                                                                          \
		v1 = ROTATE(v1, 13) ^ v0;                                                          \
		v0 = ROTATE(v0, 32);                                                               \
		v2 += v3;                                                                          \
		v3 = ROTATE(v3, 16) ^ v2;                                                          \
		v0 += v3;                                                                          \
		v3 = ROTATE(v3, 21) ^ v0;                                                          \
		v2 += v1;                                                                          \
		v1 = ROTATE(v1, 17) ^ v2;                                                          \
		v2 = ROTATE(v2, 32);                                                               \
	} while (0)
#define SIP_WORD(WORD)                                                                             \
	do {                                                                                       \
		__u64 word = (WORD);                                                               \
		v3 ^= word;                                                                        \
		SIP_ROUND;                                                                         \
		v0 ^= word;                                                                        \
	} while (0)

#define SIP_BEGIN(KEY)                                                                             \
	__u64 v0 = (KEY)[0] ^ 0x736f6d6570736575ULL;                                               \
	__u64 v1 = (KEY)[1] ^ 0x646f72616e646f6dULL;                                               \
	__u64 v2 = (KEY)[0] ^ 0x6c7967656e657261ULL;                                               \
	__u64 v3 = (KEY)[1] ^ 0x7465646279746573ULL
#define SIP_END                                                                                    \
	do {                                                                                       \
		v2 ^= 0xff;                                                                        \
		SIP_ROUND;                                                                         \
		SIP_ROUND;                                                                         \
		SIP_ROUND;                                                                         \
	} while (0)

#endif
