/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * From what is asked to the bytes of a response: the same as in
 * src/responder/response.rs.
 */
#ifndef RESPONDER_RESPONSE_H
#define RESPONDER_RESPONSE_H

#include "responder.h"
#include "responder_state.h"

#define MAX_CHUNKS 8
#define PAD_FIELD 9

#define CLOSE_LENGTH 19
#define KEEP_ALIVE_LENGTH 24
#define NO_STORE_LENGTH 25
#define CHUNKED_LENGTH 28

static __always_inline __u32 text_status(__u32 text)
{
	switch (text) {
	case TEXT_BAD_REQUEST:
	case TEXT_BAD_ARGUMENT:
		return 400;
	case TEXT_NOT_FOUND:
		return 404;
	case TEXT_TARGET_TOO_LONG:
		return 414;
	case TEXT_HELP:
		return 200;
	}
	return 501;
}

static __always_inline __u32 body_length(__u32 number)
{
	struct body *body = bpf_map_lookup_elem(&bodies, &number);

	return body ? body->length : 0;
}

static __always_inline __u32 line_length(__u32 status)
{
	struct line *line = bpf_map_lookup_elem(&lines, &status);

	return line ? line->length : 0;
}

static __always_inline __u32 decimal_digits(__u32 value)
{
	__u32 digits = 1;
	__u64 limit = 10;

	for (int i = 0; i < 9 && value >= limit; i++) {
		limit *= 10;
		digits++;
	}
	return digits;
}

static __always_inline __u32 hexadecimal_digits(__u32 value)
{
	return value < 0x10 ? 1 : value < 0x100 ? 2 : value < 0x1000 ? 3 : 4;
}

static __always_inline void set_connection(struct plan *plan, const struct request *request,
					   __u32 close)
{
	plan->close = close;
	plan->connection = close ? CLOSE : request->is_11 ? UNSAID : KEEP_ALIVE;
}

static __always_inline void set_text(struct plan *plan, __u32 text)
{
	plan->status = text_status(text);
	plan->body = FIRST_TEXT + text;
	plan->size = plan->framing_size = body_length(plan->body);
	plan->framing = FRAMING_LENGTH;
	plan->uncacheable = plan->has_etag = 0;
	plan->object = plan->fields_length = 0;
	plan->clippable = 1;
}

static __always_inline int set_object(struct work *work, struct plan *plan)
{
	struct request *request = &work->request;
	struct path path = {};
	struct object *object;
	__u32 *number;
	__u32 length = request->path_length;

	if (length >= MAX_PATH)
		return 0;
#pragma unroll
	for (__u32 i = 0; i < MAX_PATH / 8; i++) {
		__u64 word = IN(__u64, request->path_at + i * 8);

		if (length < i * 8 + 8)
			word = length <= i * 8 ? 0 : word & ((1ULL << (length - i * 8) * 8) - 1);
		path.words[i] = word;
	}
	number = bpf_map_lookup_elem(&paths, &path);
	if (!number)
		return 0;
	object = bpf_map_lookup_elem(&objects, number);
	if (!object)
		return 0;
	plan->status = object->status;
	plan->body = object->body;
	plan->size = plan->framing_size = body_length(object->body);
	plan->framing = FRAMING_LENGTH;
	plan->uncacheable = plan->has_etag = 0;
	plan->object = *number + 1;
	plan->fields_length = object->fields_length;
	plan->clippable = 0;
	return 1;
}

/* The value of an argument; `otherwise` if it was not given. */
static __always_inline __u32 argument(const struct request *request, __u32 which, __u32 otherwise)
{
	return request->given & 1 << which ? request->argument[which & 15] : otherwise;
}

/* A body that is made up. Returns a text if it cannot be, TEXTS otherwise. */
static __always_inline __u32 set_made(const struct request *request, struct plan *plan,
				      const struct config *config, __u32 *close)
{
	__u32 size = argument(request, ARG_SIZE, config->default_size);
	__u32 status = argument(request, ARG_STATUS, 200);
	__u32 piece = argument(request, ARG_PIECE, 0);

	if (argument(request, ARG_DELAY, 0))
		return TEXT_DELAY;
	if (status < 200 || status >= MAX_STATUS)
		return TEXT_BAD_ARGUMENT;
	if (size > config->max_body)
		return TEXT_TOO_LARGE;
	plan->framing = FRAMING_LENGTH;
	plan->framing_size = size;
	if (status == 204 || status == 304) {
		size = 0;
		plan->framing = FRAMING_NONE;
	} else if (argument(request, ARG_CHUNKED, 0) && request->is_11) {
		if (!piece || piece > size)
			piece = size;
		if (piece * MAX_CHUNKS < size)
			return TEXT_PIECES;
		plan->framing = FRAMING_CHUNKS;
		plan->framing_size = piece;
	} else {
		plan->framing_size = argument(request, ARG_ANNOUNCED, size);
		*close |= plan->framing_size != size;
	}
	plan->status = status;
	plan->size = plan->etag = size;
	plan->uncacheable = !argument(request, ARG_CACHE, 1);
	plan->has_etag = !!argument(request, ARG_ETAG, 0);
	plan->body = argument(request, ARG_RANDOM, 0) ? BODY_RANDOM : BODY_PATTERN;
	plan->object = plan->fields_length = 0;
	plan->clippable = plan->framing == FRAMING_LENGTH && plan->framing_size == size;
	return TEXTS;
}

/* The response to `work->request`, into a plan. `last` if the connection must end. */
__noinline int make_plan(struct work *work, __u32 number, __u32 last)
{
	struct request *request;
	const struct config *config;
	struct plan *plan;
	__u32 text = TEXTS, by_itself, close;

	if (!work)
		return 0;
	config = the_config();
	request = &work->request;
	plan = &work->plans[number & 1];
	by_itself = request->connection == CLOSE ||
		    (request->connection == UNSAID && !request->is_11);
	close = last | by_itself;
	plan->head = request->head;
	if (request->want == WANT_MADE) {
		__u32 wanted = last | !!argument(request, ARG_CLOSE, 0) |
			       (by_itself && !argument(request, ARG_KEEP, 0));

		text = set_made(request, plan, config, &wanted);
		if (text == TEXTS)
			close = wanted;
	} else if (request->want == WANT_TEXT) {
		text = request->path_length;
	} else if (!set_object(work, plan)) {
		text = TEXT_NOT_FOUND;
	}
	if (text < TEXTS)
		set_text(plan, text);
	set_connection(plan, request, close);
	return 0;
}

/* Its length without padding. */
__noinline __u32 plan_length(struct work *work, __u32 number)
{
	const struct plan *plan;
	__u32 length;

	if (!work)
		return 0;
	plan = &work->plans[number & 1];
	length = line_length(plan->status) + 2 + plan->fields_length;

	if (plan->connection == CLOSE)
		length += CLOSE_LENGTH;
	else if (plan->connection == KEEP_ALIVE)
		length += KEEP_ALIVE_LENGTH;
	if (plan->uncacheable)
		length += NO_STORE_LENGTH;
	if (plan->has_etag)
		length += 10 + decimal_digits(plan->etag);
	if (plan->framing == FRAMING_LENGTH)
		length += 18 + decimal_digits(plan->framing_size);
	else if (plan->framing == FRAMING_CHUNKS)
		length += CHUNKED_LENGTH;
	if (plan->head)
		return length;
	length += plan->size;
	if (plan->framing == FRAMING_CHUNKS) {
		__u32 left = plan->size;

		for (int i = 0; i < MAX_CHUNKS && left; i++) {
			__u32 bytes = left < plan->framing_size ? left : plan->framing_size;

			length += 4 + hexadecimal_digits(bytes);
			left -= bytes;
		}
		length += 5;
	}
	return length;
}

enum fit { FITS, CLIPPED_TO_FIT, NO_FIT };

/* Makes the first plan fit `room` bytes. */
__noinline int fit(struct work *work, __u32 room)
{
	struct plan *plan;
	__u32 head, length;

	if (!work)
		return NO_FIT;
	plan = &work->plans[0];
	length = plan_length(work, 0);
	if (length <= room)
		return FITS;
	if (!plan->clippable) {
		set_text(plan, TEXT_NO_FIT);
		length = plan_length(work, 0);
		if (length <= room)
			return CLIPPED_TO_FIT;
	}
	head = length - (plan->head ? 0 : plan->size);
	if (head > room)
		return NO_FIT;
	if (plan->size > room - head)
		plan->size = room - head;
	plan->framing_size = plan->size;
	return plan_length(work, 0) <= room ? CLIPPED_TO_FIT : NO_FIT;
}

static __always_inline void put_words(struct work *work, __u32 at, const __u64 *words, int count)
{
#pragma unroll
	for (int i = 0; i < count; i++)
		OUT(__u64, at + i * 8) = words[i];
}

/* Fixed texts. The last word of each may go beyond its end, and is overwritten by what follows. */
static __always_inline __u32 put_close(struct work *work, __u32 at)
{
	OUT(__u64, at) = WORD8('C', 'o', 'n', 'n', 'e', 'c', 't', 'i');
	OUT(__u64, at + 8) = WORD8('o', 'n', ':', ' ', 'c', 'l', 'o', 's');
	OUT(__u64, at + 16) = WORD8('e', '\r', '\n', 0, 0, 0, 0, 0);
	return at + CLOSE_LENGTH;
}

static __always_inline __u32 put_keep_alive(struct work *work, __u32 at)
{
	OUT(__u64, at) = WORD8('C', 'o', 'n', 'n', 'e', 'c', 't', 'i');
	OUT(__u64, at + 8) = WORD8('o', 'n', ':', ' ', 'k', 'e', 'e', 'p');
	OUT(__u64, at + 16) = WORD8('-', 'a', 'l', 'i', 'v', 'e', '\r', '\n');
	return at + KEEP_ALIVE_LENGTH;
}

static __always_inline __u32 put_no_store(struct work *work, __u32 at)
{
	OUT(__u64, at) = WORD8('C', 'a', 'c', 'h', 'e', '-', 'C', 'o');
	OUT(__u64, at + 8) = WORD8('n', 't', 'r', 'o', 'l', ':', ' ', 'n');
	OUT(__u64, at + 16) = WORD8('o', '-', 's', 't', 'o', 'r', 'e', '\r');
	OUT(__u64, at + 24) = WORD8('\n', 0, 0, 0, 0, 0, 0, 0);
	return at + NO_STORE_LENGTH;
}

static __always_inline __u32 put_length(struct work *work, __u32 at)
{
	OUT(__u64, at) = WORD8('C', 'o', 'n', 't', 'e', 'n', 't', '-');
	OUT(__u64, at + 8) = WORD8('L', 'e', 'n', 'g', 't', 'h', ':', ' ');
	return at + 16;
}

static __always_inline __u32 put_chunked(struct work *work, __u32 at)
{
	OUT(__u64, at) = WORD8('T', 'r', 'a', 'n', 's', 'f', 'e', 'r');
	OUT(__u64, at + 8) = WORD8('-', 'E', 'n', 'c', 'o', 'd', 'i', 'n');
	OUT(__u64, at + 16) = WORD8('g', ':', ' ', 'c', 'h', 'u', 'n', 'k');
	OUT(__u64, at + 24) = WORD8('e', 'd', '\r', '\n', 0, 0, 0, 0);
	return at + CHUNKED_LENGTH;
}

static __always_inline __u32 put_decimal(struct work *work, __u32 at, __u32 value)
{
	__u32 digits = decimal_digits(value);

	for (int i = 0; i < 10; i++) {
		OUT(__u8, at + digits - 1 - i) = '0' + value % 10;
		value /= 10;
		if (!value)
			break;
	}
	return at + digits;
}

static __always_inline __u32 put_hexadecimal(struct work *work, __u32 at, __u32 value)
{
	__u32 digits = hexadecimal_digits(value);

	for (int i = 0; i < 4; i++) {
		__u8 digit = value & 15;

		OUT(__u8, at + digits - 1 - i) = digit < 10 ? '0' + digit : 'a' + digit - 10;
		value >>= 4;
		if (!value)
			break;
	}
	return at + digits;
}

static __always_inline __u32 put_line_end(struct work *work, __u32 at)
{
	OUT(__u16, at) = WORD2('\r', '\n');
	return at + 2;
}

/* Eight bytes of a body from any offset on. */
static __always_inline __u64 body_word(const struct body *body, __u32 from)
{
	return *(__u64 *)((void *)body->words + (from & (BODY_SIZE - 1)));
}

/* Copies `length` bytes of a body from `from` on. Returns where they end. */
__noinline __u32 put_body(struct work *work, __u32 at, __u32 number, __u32 from, __u32 length)
{
	struct body *body;

	if (!work)
		return at;
	body = bpf_map_lookup_elem(&bodies, &number);
	if (!body)
		return at;
	for (__u32 i = 0; i < BODY_SIZE; i += 8) {
		if (i >= length)
			break;
		OUT(__u64, at + i) = body_word(body, from + i);
	}
	return at + length;
}

/* One chunk of a body, from `done` on. Returns where it ends. */
__noinline __u32 put_chunk(struct work *work, __u32 at, __u32 number, __u32 done)
{
	struct plan *plan;
	__u32 bytes;

	if (!work)
		return at;
	plan = &work->plans[number & 1];
	bytes = plan->size - done;
	if (bytes > plan->framing_size)
		bytes = plan->framing_size;
	at = put_line_end(work, put_hexadecimal(work, at, bytes));
	at = put_body(work, at, plan->body, done, bytes);
	return put_line_end(work, at);
}

/* Chunks, and the last. */
__noinline __u32 put_chunks(struct work *work, __u32 at, __u32 number)
{
	struct plan *plan;
	__u32 done = 0;

	if (!work)
		return at;
	plan = &work->plans[number & 1];
	for (int i = 0; i < MAX_CHUNKS; i++) {
		if (done >= plan->size)
			break;
		at = put_chunk(work, at, number, done);
		done += plan->framing_size;
	}
	OUT(__u8, at) = '0';
	at = put_line_end(work, at + 1);
	return put_line_end(work, at);
}

/* The header fields of an object. */
__noinline __u32 put_fields(struct work *work, __u32 at, __u32 number)
{
	struct object *object;
	struct plan *plan;
	__u32 index;

	if (!work)
		return at;
	plan = &work->plans[number & 1];
	index = plan->object - 1;
	object = bpf_map_lookup_elem(&objects, &index);
	if (!object)
		return at;
	for (int i = 0; i < FIELDS_SIZE / 8; i++)
		OUT(__u64, at + i * 8) = object->fields[i];
	return at + plan->fields_length;
}

/* Writes a plan with `padding` bytes of padding at `at` of `out`. Returns where it ends. */
__noinline __u32 write_plan(struct work *work, __u32 at, __u32 number, __u32 padding)
{
	struct plan *plan;
	struct line *line;
	__u32 status;

	if (!work)
		return at;
	plan = &work->plans[number & 1];
	/* Linux before 6.2 takes no key from memory that a function was handed. */
	status = plan->status;
	line = bpf_map_lookup_elem(&lines, &status);
	if (!line)
		return at;
	put_words(work, at, line->words, LINE_WORDS);
	at += line->length;
	if (plan->connection == CLOSE) {
		at = put_close(work, at);
	} else if (plan->connection == KEEP_ALIVE) {
		at = put_keep_alive(work, at);
	}
	if (plan->uncacheable) {
		at = put_no_store(work, at);
	}
	if (plan->has_etag) {
		OUT(__u64, at) = WORD8('E', 'T', 'a', 'g', ':', ' ', '"', 0);
		at = put_decimal(work, at + 7, plan->etag);
		OUT(__u8, at) = '"';
		at = put_line_end(work, at + 1);
	}
	if (plan->object)
		at = put_fields(work, at, number);
	if (plan->framing == FRAMING_LENGTH) {
		at = put_decimal(work, put_length(work, at), plan->framing_size);
		at = put_line_end(work, at);
	} else if (plan->framing == FRAMING_CHUNKS) {
		at = put_chunked(work, at);
	}
	if (padding) {
		OUT(__u64, at) = WORD8('X', '-', 'P', 'a', 'd', ':', ' ', 'x');
#pragma unroll
		for (int i = 0; i < 8; i++)
			OUT(__u64, at + 7 + i * 8) = 'x' * EACH_BYTE;
		at = put_line_end(work, at + padding - 2);
	}
	at = put_line_end(work, at);
	if (plan->head)
		return at;
	if (plan->framing == FRAMING_CHUNKS)
		return put_chunks(work, at, number);
	return put_body(work, at, plan->body, 0, plan->size);
}

#endif
