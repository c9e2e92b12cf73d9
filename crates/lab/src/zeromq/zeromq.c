/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What ZeroMQ's own local_lat, remote_lat, local_thr and remote_thr measure, for a time instead of a number of
 * messages: answer and ask, take and push. And bring, a client of answer's that shows what it gets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#define WARM_UP 100

static void *context;

static int good(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, zmq_strerror(zmq_errno()));
		exit(1);
	}
	return result;
}

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec / 1e9;
}

static void *opened(int type, const char *listen, const char *connect)
{
	void *socket = zmq_socket(context, type);

	good(socket ? 0 : -1, "socket");
	if (listen)
		good(zmq_bind(socket, listen), listen);
	else
		good(zmq_connect(socket, connect), connect);
	return socket;
}

/* local_lat: sends back what comes, until it is ended. */
static void answer(const char *at)
{
	void *socket = opened(ZMQ_REP, at, NULL);
	zmq_msg_t message;

	good(zmq_msg_init(&message), "message");
	for (;;) {
		good(zmq_msg_recv(&message, socket, 0), "receive");
		good(zmq_msg_send(&message, socket, 0), "send");
	}
}

static int shorter(const void *one, const void *other)
{
	double first = *(const double *)one, second = *(const double *)other;

	return (first > second) - (first < second);
}

/* remote_lat: half of the mean round trip; and of whole round trips the median and the 99th percentile. */
static void ask(const char *at, size_t size, double seconds)
{
	void *socket = opened(ZMQ_REQ, NULL, at);
	double began = 0, passed = 0, last = 0, *took = NULL;
	long trips = -WARM_UP, room = 0;
	zmq_msg_t message;

	good(zmq_msg_init_size(&message, size), "message");
	memset(zmq_msg_data(&message), 7, size);
	while (trips < 0 || passed < seconds) {
		if (!trips)
			began = last = now();
		good(zmq_msg_send(&message, socket, 0), "send");
		if ((size_t)good(zmq_msg_recv(&message, socket, 0), "receive") != size)
			exit(2);
		if (++trips <= 0)
			continue;
		if (trips > room) {
			took = realloc(took, (room = 2 * trips + 1024) * sizeof(*took));
			good(took ? 0 : -1, "memory");
		}
		took[trips - 1] = now() - last;
		last += took[trips - 1];
		passed = last - began;
	}
	qsort(took, trips, sizeof(*took), shorter);
	printf("{\"one_way_us\": %f, \"trips\": %ld, \"median_us\": %f, \"high_us\": %f}\n",
	       1e6 * passed / trips / 2, trips, 1e6 * took[trips / 2], 1e6 * took[trips * 99 / 100]);
	zmq_close(socket);
	free(took);
}

/* Sends what standard input has, and prints what comes back. */
static void bring(const char *at)
{
	void *socket = opened(ZMQ_REQ, NULL, at);
	size_t room = 1 << 20, length = 0, read;
	char *bytes = malloc(room);
	zmq_msg_t message;

	while (bytes && (read = fread(bytes + length, 1, room - length, stdin)) > 0) {
		length += read;
		if (length == room)
			bytes = realloc(bytes, room *= 2);
	}
	good(bytes ? 0 : -1, "memory");
	good(zmq_send(socket, bytes, length, 0), "send");
	good(zmq_msg_init(&message), "message");
	good(zmq_msg_recv(&message, socket, 0), "receive");
	fwrite(zmq_msg_data(&message), 1, zmq_msg_size(&message), stdout);
	zmq_msg_close(&message);
	zmq_close(socket);
	free(bytes);
}

/* local_thr: what comes between the first message and an empty one. */
static void take(const char *at, size_t size)
{
	void *socket = opened(ZMQ_PULL, at, NULL);
	double began = 0;
	long messages = -1;
	zmq_msg_t message;

	good(zmq_msg_init(&message), "message");
	for (;;) {
		size_t length = good(zmq_msg_recv(&message, socket, 0), "receive");

		if (messages++ < 0)
			began = now();
		if (!length)
			break;
		if (length != size)
			exit(2);
	}
	/* The clock began with the first, which is not counted, nor is the empty one. */
	printf("{\"messages\": %ld, \"seconds\": %f}\n", messages - 1, now() - began);
	zmq_close(socket);
}

/* remote_thr: as many messages as there is time for, whatever is in them, and an empty one. */
static void push(const char *at, size_t size, double seconds)
{
	void *socket = opened(ZMQ_PUSH, NULL, at);
	double until = now() + seconds;
	zmq_msg_t message;

	do {
		for (int run = 0; run < 16; run++) {
			good(zmq_msg_init_size(&message, size), "message");
			good(zmq_msg_send(&message, socket, 0), "send");
		}
	} while (now() < until);
	good(zmq_msg_init(&message), "message");
	good(zmq_msg_send(&message, socket, 0), "send");
	zmq_close(socket);
}

int main(int count, char **words)
{
	size_t size = count > 3 ? strtoul(words[3], NULL, 10) : 0;
	double seconds = count > 4 ? strtod(words[4], NULL) : 0;
	const char *what = count > 2 ? words[1] : "";

	context = zmq_ctx_new();
	good(context ? 0 : -1, "context");
	if (!strcmp(what, "answer"))
		answer(words[2]);
	else if (!strcmp(what, "ask"))
		ask(words[2], size, seconds);
	else if (!strcmp(what, "bring"))
		bring(words[2]);
	else if (!strcmp(what, "take"))
		take(words[2], size);
	else if (!strcmp(what, "push"))
		push(words[2], size, seconds);
	else
		return 2;
	/* Waits until all is on its way. */
	zmq_ctx_term(context);
	return 0;
}
