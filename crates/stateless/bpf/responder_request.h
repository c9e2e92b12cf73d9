/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Reading a request: the same steps as in src/responder/request.rs and
 * src/responder/language.rs. Bytes behind the payload are zero, so nothing matches there.
 */
#ifndef RESPONDER_REQUEST_H
#define RESPONDER_REQUEST_H

#include "responder.h"

#define MAX_LINES 128
/* Enough for MAX_FRAME in steps of eight bytes, and a step for each line. */
#define MAX_STEPS (MAX_FRAME / 8 + MAX_LINES + 2)
#define MAX_TARGET 255
#define MAX_METHOD 15
#define TOO_LARGE 0xffffffffULL

static __always_inline int is_upper(__u8 byte)
{
	return byte >= 'A' && byte <= 'Z';
}

/* A refusal takes all there is with it. */
static __always_inline int refuse(struct request *request, __u32 end, __u32 text)
{
	request->end = end;
	request->head = 0;
	request->is_11 = 1;
	request->connection = CLOSE;
	request->want = WANT_TEXT;
	request->path_length = text;
	return 1;
}

/* What the header field at `at` says of the connection; `before` if it is another. */
__noinline __u32 read_connection(struct work *work, __u32 at, __u32 before)
{
	__u64 word;

	if (!work)
		return before;
	if ((IN(__u64, at) | LOWER_CASE) != WORD8('c', 'o', 'n', 'n', 'e', 'c', 't', 'i'))
		return before;
	if (((IN(__u32, at + 8) | (__u32)LOWER_CASE) & 0xffffff) != WORD4('o', 'n', ':', 0))
		return before;
	at += 11;
	for (int i = 0; i < 4; i++)
		if (IN(__u8, at) == ' ')
			at++;
		else
			break;
	word = IN(__u64, at) | LOWER_CASE;
	if ((word & 0xffffffffffULL) == WORD8('c', 'l', 'o', 's', 'e', 0, 0, 0))
		return CLOSE;
	if (word == WORD8('k', 'e', 'e', 'p', '-', 'a', 'l', 'i') &&
	    (IN(__u16, at + 8) | 0x2020) == WORD2('v', 'e'))
		return KEEP_ALIVE;
	return before;
}

/* Finds the end of the request at `at`. Returns 0 if it is not there, and -1 if there are too many
 * lines. */
__noinline int read_lines(struct work *work, __u32 at, __u32 end)
{
	struct request *request;
	__u32 connection = UNSAID;

	if (!work)
		return 0;
	request = &work->request;
	/* In memory: the verifier would follow every value of it. */
	request->lines = 0;
	for (int i = 0; i < MAX_STEPS; i++) {
		__u64 word, newlines;

		if (at >= end)
			return 0;
		word = IN(__u64, at) ^ 10 * EACH_BYTE;
		newlines = (word - EACH_BYTE) & ~word & 0x80 * EACH_BYTE;
		if (!newlines) {
			at += 8;
			continue;
		}
		/* Behind the first of them: how many bytes are wholly below its bit. */
		newlines &= -newlines;
		at += ((newlines - 1) & EACH_BYTE) * EACH_BYTE >> 56;
		if (IN(__u8, at) == '\n' || IN(__u16, at) == WORD2('\r', '\n')) {
			request->end = at + (IN(__u8, at) == '\n' ? 1 : 2);
			request->connection = connection;
			return 1;
		}
		if (++request->lines > MAX_LINES)
			return -1;
		connection = read_connection(work, at, connection);
	}
	return 0;
}

static __always_inline __u32 argument_of(__u8 key)
{
	switch (key) {
	case 's':
		return ARG_SIZE;
	case 'r':
		return ARG_STATUS;
	case 'c':
		return ARG_CACHE;
	case 'C':
		return ARG_CLOSE;
	case 'K':
		return ARG_KEEP;
	case 'k':
		return ARG_CHUNKED;
	case 'b':
		return ARG_ANNOUNCED;
	case 'e':
		return ARG_ETAG;
	case 'R':
		return ARG_RANDOM;
	case 'p':
		return ARG_PIECE;
	case 't':
		return ARG_DELAY;
	}
	return ARG_NONE;
}

/* Where the word at `at` ends: at a byte `stop`, or at the end of the target. */
__noinline __u32 skip_word(struct work *work, __u32 at, __u32 stop)
{
	if (!work)
		return at;
	for (int i = 0; i <= MAX_TARGET; i++, at++)
		if (IN(__u8, at) <= ' ' || IN(__u8, at) == stop)
			break;
	return at;
}

/* Reads a number at `at` up to a byte `stop` or the end of the target, into `work->number`.
 * Returns where it ends. */
__noinline __u32 read_number(struct work *work, __u32 at, __u32 stop)
{
	__u64 value = 0;
	__u32 first = at;
	__u8 byte;

	if (!work)
		return at;
	for (int i = 0; i <= MAX_TARGET; i++, at++) {
		byte = IN(__u8, at) - '0';
		if (byte > 9)
			break;
		value = value * 10 + byte;
		if (value > TOO_LARGE)
			value = TOO_LARGE;
	}
	work->number.is_one = at != first;
	byte = IN(__u8, at);
	if (byte == 'k' || byte == 'm' || byte == 'g') {
		value <<= byte == 'k' ? 10 : byte == 'm' ? 20 : 30;
		if (value > TOO_LARGE)
			value = TOO_LARGE;
		byte = IN(__u8, ++at);
	}
	work->number.value = value;
	if (byte <= ' ' || byte == stop)
		return at;
	work->number.is_one = 0;
	return skip_word(work, at, stop);
}

/* Reads one argument at `at`. Returns where it ends. */
__noinline __u32 read_argument(struct work *work, __u32 at)
{
	struct request *request;
	__u32 key;

	if (!work)
		return at;
	request = &work->request;
	if (IN(__u8, at) == '&')
		return at;
	key = argument_of(IN(__u8, at));
	at++;
	if (key == ARG_NONE || IN(__u8, at) != '=')
		return skip_word(work, at, '&');
	at = read_number(work, at + 1, '&');
	request->bad |= !work->number.is_one;
	request->argument[key & 15] = work->number.value;
	request->given |= 1 << (key & 15);
	return at;
}

/* Reads arguments from `at` on, where there is one. Returns where they end. */
static __always_inline __u32 read_query(struct work *work, __u32 at)
{
	for (int i = 0; i <= MAX_TARGET; i++) {
		at = read_argument(work, at);
		if (IN(__u8, at) != '&')
			break;
		at++;
		if (IN(__u8, at) <= ' ')
			break;
	}
	return at;
}

/* Where the path begins in the target at `at`: behind scheme and authority, if it has them. Where
 * there is none, the byte is no slash. */
__noinline __u32 find_path(struct work *work, __u32 at)
{
	if (!work)
		return at;
	if (IN(__u8, at) == '/')
		return at;
	if ((IN(__u64, at) & 0xffffffffffffffULL) != WORD8('h', 't', 't', 'p', ':', '/', '/', 0))
		return at;
	at += 7;
	for (int i = 0; i <= MAX_TARGET; i++, at++)
		if (IN(__u8, at) == '/' || IN(__u8, at) <= ' ')
			break;
	return at;
}

/* Reads the path at `at`. Returns where it ends. */
__noinline __u32 read_path(struct work *work, __u32 at)
{
	struct request *request;
	__u32 stop = at + 1;

	if (!work)
		return at;
	request = &work->request;
	request->path_at = at;
	request->given = 0;
	request->bad = 0;
	request->want = WANT_MADE;
	if (IN(__u8, stop) > ' ' && IN(__u8, stop) != '?') {
		stop = read_number(work, stop, '?');
		if (!work->number.is_one)
			request->want = WANT_OBJECT;
		request->argument[ARG_SIZE] = work->number.value;
		request->given = 1 << ARG_SIZE;
	}
	request->path_length = stop - at;
	if (IN(__u8, stop) != '?')
		return stop;
	stop++;
	if (IN(__u8, stop) <= ' ') {
		if (request->want == WANT_MADE) {
			request->want = WANT_TEXT;
			request->path_length = TEXT_HELP;
		}
		return stop;
	}
	stop = read_query(work, stop);
	if (request->bad && request->want == WANT_MADE) {
		request->want = WANT_TEXT;
		request->path_length = TEXT_BAD_ARGUMENT;
	}
	return stop;
}

/* Reads the request at `at` of a payload that ends at `end`, into `work->request`. Returns whether
 * it is complete. */
__noinline int read_request(struct work *work, __u32 at, __u32 end)
{
	struct request *request;
	__u32 target, path, stop;
	int found;

	if (!work)
		return 0;
	request = &work->request;
	if (!is_upper(IN(__u8, at)))
		return refuse(request, end, TEXT_BAD_REQUEST);
	found = read_lines(work, at, end);
	if (found < 0)
		return refuse(request, end, TEXT_BAD_REQUEST);
	if (!found)
		return 0;

	request->head = 0;
	if (IN(__u32, at) == WORD4('G', 'E', 'T', ' ')) {
		target = at + 4;
	} else if (IN(__u32, at) == WORD4('H', 'E', 'A', 'D') && IN(__u8, at + 4) == ' ') {
		request->head = 1;
		target = at + 5;
	} else {
		int letters;

		for (letters = 0; letters <= MAX_METHOD; letters++)
			if (!is_upper(IN(__u8, at + letters)))
				break;
		if (IN(__u8, at + letters) != ' ')
			return refuse(request, end, TEXT_BAD_REQUEST);
		return refuse(request, end, TEXT_METHOD);
	}

	path = find_path(work, target);
	/* A path that is none is read all the same, for the end of the target. */
	stop = read_path(work, path);
	if (stop - target > MAX_TARGET)
		return refuse(request, end, TEXT_TARGET_TOO_LONG);
	if (IN(__u64, stop) != WORD8(' ', 'H', 'T', 'T', 'P', '/', '1', '.'))
		return refuse(request, end, TEXT_BAD_REQUEST);
	if (IN(__u8, stop + 8) != '0' && IN(__u8, stop + 8) != '1')
		return refuse(request, end, TEXT_BAD_REQUEST);
	request->is_11 = IN(__u8, stop + 8) == '1';
	if (IN(__u8, stop + 9) != '\n' && IN(__u16, stop + 9) != WORD2('\r', '\n'))
		return refuse(request, end, TEXT_BAD_REQUEST);
	if (IN(__u8, path) != '/')
		return refuse(request, end, TEXT_BAD_REQUEST);
	return 1;
}

#endif
