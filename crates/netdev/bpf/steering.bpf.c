// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Steering: which frames of an interface are the engine's.
 *
 * The engine shares the interface and its addresses with the kernel. A frame is the engine's if it
 * is a TCP segment to an endpoint (VLAN, address, port) that the engine asked for, or an ICMP error
 * about one that was sent from there; everything else goes on to the kernel, and so does whatever this
 * program does not understand: a frame too many in the kernel is answered there, one too many in the
 * engine is lost to everybody else.
 *
 * An endpoint can be mixed: connections that the kernel already has there stay the kernel's. It can be
 * shared: new connections are divided, too (steering_shared.h). That of a listener takes new connections only
 * while the kernel would give them to a socket that was shown to the engine: one that is closed, or whose port is
 * another program's by now, gets nothing more, whoever has heard of that. When the engine leaves an endpoint it is
 * closing: new connections are the kernel's. So they are while the engine does not come back for what it was given.
 * An endpoint of which the kernel was left a new connection is mixed from then on.
 *
 * Every frame is counted once, by the reason for what became of it.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Layouts and numbers below are repeated in src/steering/layout.rs. */

#define MAX_ENDPOINTS 65536
#define MAX_QUEUES 256
#define MAX_VLAN_TAGS 2
/* Of IPv6, before TCP. */
#define MAX_EXTENSIONS 4
#define MAX_RESPONDERS 1
#define MAX_DIVERTERS 1

/* What became of a frame, and why. */
enum reason {
	/* to the engine's socket */
	REASON_ENGINE,
	/* to the engine's socket, too: an ICMP error about a segment that it sent */
	REASON_ENGINE_ERROR,
	/* to nobody: a fragment of a segment for the engine */
	REASON_FRAGMENT_REFUSED,
	/* to nobody: a segment for the engine, on a queue that it does not serve (yet) */
	REASON_UNSERVED_QUEUE,
	/* to the program of the stateless responder */
	REASON_RESPONDER,
	/* to a program of the user's, which decides */
	REASON_DIVERTER,
	/* to the kernel: */
	REASON_TRUNCATED, /* it ends inside a header, or a header contradicts itself */
	REASON_NOT_UNICAST,
	REASON_VLAN_DEPTH,
	REASON_NOT_IP,
	REASON_FRAGMENT,
	REASON_EXTENSION_HEADER,
	REASON_NOT_TCP,
	REASON_NOT_STEERED,
	REASON_KERNEL_CONNECTION,
	REASON_CLOSING,
	REASON_NO_RECEIVER,
	REASON_NO_RESPONDER,
	REASON_STALE,
	REASON_SHARE,
	REASON_FORGOTTEN,
	REASONS,
};

enum action {
	ACTION_ENGINE,
	ACTION_RESPONDER,
};

/* Connections that the kernel has stay the kernel's. */
#define FLAG_MIXED 1
/* New connections are the kernel's. */
#define FLAG_CLOSING 2
/* New connections are divided by the share. */
#define FLAG_SHARED 4
/* New connections are the kernel's where none of the sockets listens that were shown. */
#define FLAG_LISTENER 8

/* A local endpoint. IPv4 addresses are in the last four bytes, after ::ffff (RFC 4291, 2.5.5.2). */
struct endpoint {
	__u8 address[16];
	__be16 port;
	/* Identifiers of the outer and the inner tag; 0 is none, which a priority tag is too. */
	__u16 vlan[MAX_VLAN_TAGS];
	__u8 protocol;
	__u8 zero;
};

struct treatment {
	__u8 action;
	__u8 flags;
	/* Of a shared endpoint: where its load is counted. */
	__u16 slot;
	/* Of a shared endpoint: how many of SHARE_ALL hashes are the engine's. */
	__u32 share;
	/* Another one whenever it begins to be shared. */
	__u32 epoch;
	/* Where it is noted that the kernel was left one. */
	__u32 number;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_ENDPOINTS);
	__type(key, struct endpoint);
	__type(value, struct treatment);
} endpoints SEC(".maps");

/* One AF_XDP socket a receive queue. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, MAX_RESPONDERS);
	__type(key, __u32);
	__type(value, __u32);
} responders SEC(".maps");

/* The slot for a program of the user's: see docs/divert.md. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, MAX_DIVERTERS);
	__type(key, __u32);
	__type(value, __u32);
} diverters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASONS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

/* The responder's endpoint that was found last, so that it need not be looked up again. It is valid
 * for one generation of the endpoints; whoever changes them begins another. */
struct hint {
	__u64 generation;
	/* IPv4 address, port, and the low half of the generation in which it was found. */
	__u64 found;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct hint);
} hints SEC(".maps");

/* The engine's worker that serves a receive queue. */
#define MAX_WORKERS 64

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} workers SEC(".maps");

/* When the first frame was given to a worker that it has not come back for, in nanoseconds. The
 * worker writes 0 whenever it comes, and beforehand looks whether it came too late. Each has a cache
 * line of its own. */
#define WAITS_NONE 0
/* Nobody watches. */
#define WAITS_NOBODY 1
/* Behind the words of the workers: which of them, one bit each, have left waiting what others have handed to them. */
#define WAITS_LATE MAX_WORKERS
/* Repeated in src/steering/watch.rs. */
#define STALE_NS 500000000

struct wait {
	__u64 since;
	__u64 rest_of_line[7];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_WORKERS + 1);
	__type(key, __u32);
	__type(value, struct wait);
} waits SEC(".maps");

/* When the kernel was last left a new connection at an endpoint that is not shared, in nanoseconds; 0 if it has
 * none of those any more. It stands by itself, so that whoever says anew how an endpoint is treated does not say
 * that, too. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_ENDPOINTS);
	__type(key, __u32);
	__type(value, __u64);
} left SEC(".maps");

/* The cookies (SO_COOKIE) of the listening sockets that were shown to the engine. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_ENDPOINTS);
	__type(key, __u64);
	__type(value, __u8);
} shown SEC(".maps");

/* Whether cookies can be compared: 0 where the kernel does not say (by BTF) where it has them. Then every
 * socket that listens is one that was shown. */
const volatile __u8 compares_cookies = 1;

/* Of the kernel's, as far as it is read here; where that lies is found when this is loaded. */
struct sock_common {
	struct {
		__s64 counter;
	} skc_cookie;
} __attribute__((preserve_access_index));

#include "steering_read.h"

static __always_inline void add(__u32 reason, __u64 n)
{
	__u64 *counter = bpf_map_lookup_elem(&counts, &reason);

	if (counter)
		*counter += n;
}

static __always_inline void count(__u32 reason)
{
	add(reason, 1);
}

static __always_inline int to_kernel(__u32 reason)
{
	count(reason);
	return XDP_PASS;
}

/* Leaves a frame that the engine has nothing to do with: to the program of the user's, if there is one and it may
 * have such frames, or to the kernel. */
static __always_inline int leave(struct xdp_md *context, __u32 reason)
{
	if (reason == REASON_NOT_STEERED || reason == REASON_NOT_TCP || reason == REASON_NOT_IP ||
	    reason == REASON_NOT_UNICAST) {
		/* As in to_responder(). */
		count(REASON_DIVERTER);
		bpf_tail_call(context, &diverters, 0);
		add(REASON_DIVERTER, -1);
	}
	return to_kernel(reason);
}

/* The word that says since when frames of a receive queue wait for its worker. */
static __always_inline volatile __u64 *wait_of(__u32 queue)
{
	__u32 *worker = bpf_map_lookup_elem(&workers, &queue);
	struct wait *wait;
	__u32 number;

	if (!worker)
		return 0;
	number = *worker;
	wait = bpf_map_lookup_elem(&waits, &number);
	return wait ? &wait->since : 0;
}

/* Notes that the worker of a queue was given a frame. */
static __always_inline void given(__u32 queue)
{
	volatile __u64 *since = wait_of(queue);

	if (since && *since == WAITS_NONE)
		*since = bpf_ktime_get_ns();
}

/* Whether the worker of a queue has left a frame waiting for too long, or any to which that one may have to hand
 * what comes. */
static __always_inline int is_stale(__u32 queue)
{
	volatile __u64 *word = wait_of(queue);
	__u64 since = word ? *word : WAITS_NONE;
	__u32 late = WAITS_LATE;
	struct wait *others = bpf_map_lookup_elem(&waits, &late);

	if (others && *(volatile __u64 *)&others->since)
		return 1;
	return since > WAITS_NOBODY && (__s64)(bpf_ktime_get_ns() - since) > STALE_NS;
}

/* Of a socket that listens and was not shown to the engine. No state of the kernel's has this number. */
#define STATE_NOT_SHOWN 255

/* Whether a listening socket of the kernel's was shown to the engine. One that nobody has asked for its cookie has
 * none, 0. */
static __always_inline int is_shown(struct bpf_sock *sock)
{
	struct sock_common *common;
	__u64 cookie;

	if (!compares_cookies)
		return 1;
	common = (void *)bpf_skc_to_tcp_sock(sock);
	if (!common)
		return 0;
	cookie = common->skc_cookie.counter;
	return !!bpf_map_lookup_elem(&shown, &cookie);
}

/* The state of the socket to which the kernel would give a segment with this 4-tuple; 0 if there is none. For a
 * SYN, STATE_NOT_SHOWN is told from BPF_TCP_LISTEN. */
static __always_inline int kernel_state(struct xdp_md *context, struct bpf_sock_tuple *tuple,
					__u32 size, int opens)
{
	struct bpf_sock *sock;
	int state;

	sock = bpf_skc_lookup_tcp(context, tuple, size, BPF_F_CURRENT_NETNS, 0);
	if (!sock)
		return 0;
	state = sock->state;
	if (opens && state == BPF_TCP_LISTEN && !is_shown(sock))
		state = STATE_NOT_SHOWN;
	bpf_sk_release(sock);
	return state;
}

/* Whether this is the state of a connection: established, closing, half open or in TIME-WAIT. */
static __always_inline int is_connection(int state)
{
	return state && state != BPF_TCP_LISTEN && state != STATE_NOT_SHOWN;
}

/* Whether the kernel has a connection with this 4-tuple. */
static __always_inline int kernel_has(struct xdp_md *context, struct bpf_sock_tuple *tuple,
				      __u32 size)
{
	return is_connection(kernel_state(context, tuple, size, 0));
}

/* Whether the kernel may have connections at an endpoint that is not shared. */
static __always_inline int is_mixed(const struct treatment *treatment)
{
	__u32 number = treatment->number;
	volatile __u64 *when;

	if (treatment->flags & FLAG_MIXED)
		return 1;
	when = bpf_map_lookup_elem(&left, &number);
	return when && *when;
}

/* Leaves a new connection at an endpoint that is not shared to the kernel. What follows on it is the kernel's, too. At
 * others than listeners' nothing follows: a socket that holds a leased port does not listen. */
static __always_inline int leave_new(const struct treatment *treatment, __u32 reason)
{
	__u32 number = treatment->number;
	volatile __u64 *when;

	if (!(treatment->flags & (FLAG_LISTENER | FLAG_CLOSING)))
		return to_kernel(reason);
	when = bpf_map_lookup_elem(&left, &number);
	if (when)
		*when = bpf_ktime_get_ns();
	return to_kernel(reason);
}

#include "steering_cookie.h"
#include "steering_shared.h"

/* The ports of a tuple whose addresses have been read. */
static __always_inline void set_ports(struct bpf_sock_tuple *tuple, int type,
				      const struct segment *segment)
{
	if (type == ETH_P_IP) {
		tuple->ipv4.sport = segment->source;
		tuple->ipv4.dport = segment->dest;
	} else {
		tuple->ipv6.sport = segment->source;
		tuple->ipv6.dport = segment->dest;
	}
}

static __always_inline __u64 hint_of(__be32 address, __be16 port, __u64 generation)
{
	return address | (__u64)port << 32 | generation << 48;
}

/* Whether a frame is a whole segment, by IPv4 without tags or options, to the endpoint of the
 * hint. */
static __always_inline int is_hinted(struct xdp_md *context, const struct hint *hint)
{
	void *frame = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	struct ethhdr *ethernet = frame;
	struct iphdr *ip = (void *)(ethernet + 1);
	struct tcphdr *tcp = (void *)(ip + 1);

	if ((void *)(tcp + 1) > end || ethernet->h_dest[0] & 1 ||
	    ethernet->h_proto != bpf_htons(ETH_P_IP) || *(__u8 *)ip != 0x45 ||
	    ip->frag_off & bpf_htons(0x3fff) || ip->protocol != IPPROTO_TCP ||
	    bpf_ntohs(ip->tot_len) < sizeof(*ip) + sizeof(*tcp))
		return 0;
	return hint->found == hint_of(ip->daddr, tcp->dest, hint->generation);
}

/* To the responder. Returns if there is none. */
static __always_inline int to_responder(struct xdp_md *context)
{
	/* Counted first: a tail call that succeeds does not come back. The counters are this CPU's
	 * own, so taking it back is exact. */
	count(REASON_RESPONDER);
	bpf_tail_call(context, &responders, 0);
	add(REASON_RESPONDER, -1);
	return to_kernel(REASON_NO_RESPONDER);
}

/* Whatever the hint does not know. */
static __always_inline int look_up(struct xdp_md *context, struct hint *hint)
{
	struct cursor cursor = {
		.at = (void *)(long)context->data,
		.end = (void *)(long)context->data_end,
	};
	struct endpoint endpoint = { .protocol = IPPROTO_TCP };
	struct bpf_sock_tuple tuple = {};
	struct treatment *found, copy;
	const struct treatment *treatment = &copy;
	struct upper upper = {};
	struct segment segment = {};
	union flow_key key = {};
	__u32 tuple_size;
	int type, failed, verdict, state, mixed, asks;
	__u64 generation;

	/* Before the endpoint is looked up: if it goes meanwhile, what is found is not valid. */
	generation = *(volatile __u64 *)&hint->generation;

	type = read_link(&cursor, &endpoint);
	if (type < 0)
		return leave(context, -type);

	if (type == ETH_P_IP) {
		failed = read_ipv4(&cursor, &endpoint, &tuple, &upper);
		tuple_size = sizeof(tuple.ipv4);
	} else if (type == ETH_P_IPV6) {
		failed = read_ipv6(&cursor, &endpoint, &tuple, &upper);
		tuple_size = sizeof(tuple.ipv6);
	} else {
		return leave(context, REASON_NOT_IP);
	}
	if (failed)
		return leave(context, -failed);

	if (upper.protocol == IPPROTO_TCP)
		failed = read_tcp(&cursor, &upper, &segment);
	else if (upper.fragment)
		failed = -REASON_FRAGMENT;
	else if (type == ETH_P_IP && upper.protocol == IPPROTO_ICMP)
		failed = read_icmp(&cursor, &tuple, &segment);
	else if (type == ETH_P_IPV6 && upper.protocol == IPPROTO_ICMPV6)
		failed = read_icmp6(&cursor, &tuple, &segment);
	else
		failed = -REASON_NOT_TCP;
	if (failed)
		return leave(context, -failed);
	endpoint.port = segment.dest;

	found = bpf_map_lookup_elem(&endpoints, &endpoint);
	if (!found)
		return leave(context, upper.fragment ? REASON_FRAGMENT :
				      segment.quoted ? REASON_NOT_TCP : REASON_NOT_STEERED);
	/* What is replaced becomes another endpoint's by the change after the next, whoever still reads it here. */
	copy = *found;

	if (treatment->flags & FLAG_CLOSING && segment.opens)
		return leave_new(treatment, REASON_CLOSING);

	if (treatment->flags & FLAG_SHARED) {
		set_ports(&tuple, type, &segment);
		set_key(&key, &endpoint, &tuple, type, &segment);
		verdict = shared(context, treatment, &key, &tuple, tuple_size, type, &segment);
		if (verdict >= 0)
			return verdict;
	} else if (segment.opens && treatment->action == ACTION_ENGINE && is_stale(context->rx_queue_index)) {
		return leave_new(treatment, REASON_STALE);
	} else {
		mixed = is_mixed(treatment);
		asks = segment.opens && treatment->flags & FLAG_LISTENER;
		if (mixed || asks) {
			set_ports(&tuple, type, &segment);
			state = kernel_state(context, &tuple, tuple_size, asks);
			/* Where nobody listens, somebody may by the time the kernel looks. */
			if (asks && (!state || state == STATE_NOT_SHOWN))
				return leave_new(treatment, REASON_CLOSING);
			/* A SYN ends one in TIME-WAIT, and its client may be sent a cookie. */
			if (mixed && is_kernels(context, state, &tuple, tuple_size, type, &segment))
				return segment.opens ? leave_new(treatment, REASON_KERNEL_CONNECTION) :
						       to_kernel(REASON_KERNEL_CONNECTION);
		}
	}

	/* Nobody here puts fragments together, and the kernel, which does not know the connection,
	 * would end it by a reset. */
	if (upper.fragment) {
		count(REASON_FRAGMENT_REFUSED);
		return XDP_DROP;
	}

	/* Errors are for who sends segments; a responder that keeps nothing has no use for them. */
	if (segment.quoted && treatment->action != ACTION_ENGINE)
		return to_kernel(REASON_NOT_TCP);

	if (treatment->action == ACTION_RESPONDER) {
		if (type == ETH_P_IP && !endpoint.vlan[0])
			hint->found = hint_of(tuple.ipv4.daddr, endpoint.port, generation);
		return to_responder(context);
	}

	if (bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS) == XDP_REDIRECT) {
		given(context->rx_queue_index);
		count(segment.quoted ? REASON_ENGINE_ERROR : REASON_ENGINE);
		return XDP_REDIRECT;
	}

	/* No socket on this queue: new connections are the kernel's, and stay so. What is left is of
	 * the engine's, which is about to serve the queue if it is new. The kernel would end the
	 * connection; who hears nothing sends again. */
	if (segment.opens) {
		if (!(treatment->flags & FLAG_SHARED))
			return leave_new(treatment, REASON_NO_RECEIVER);
		remember(&key, treatment, OWNER_KERNEL, PHASE_OPENING);
		return to_kernel(REASON_NO_RECEIVER);
	}
	set_ports(&tuple, type, &segment);
	if (kernel_has(context, &tuple, tuple_size))
		return to_kernel(REASON_KERNEL_CONNECTION);
	count(REASON_UNSERVED_QUEUE);
	return XDP_DROP;
}

static __always_inline int divide(struct xdp_md *context)
{
	struct hint *hint;
	__u32 zero = 0;

	hint = bpf_map_lookup_elem(&hints, &zero);
	if (!hint)
		return to_kernel(REASON_NOT_STEERED);
	if (is_hinted(context, hint))
		return to_responder(context);
	return look_up(context, hint);
}

SEC("xdp.frags")
int steer(struct xdp_md *context)
{
	return divide(context);
}

/* The same, to take the place of the other: see src/steering/attach.rs. */
SEC("xdp.frags")
int steer_again(struct xdp_md *context)
{
	return divide(context);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
