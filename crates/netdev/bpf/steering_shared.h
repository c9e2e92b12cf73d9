/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Endpoints that engine and kernel share by connections: the SYN decides, and what follows goes the same way.
 *
 * A share of the keyed hashes of 4-tuples is the engine's. Whose a connection is stands in a table from its
 * SYN on, and that is asked first, so that another share moves nobody, and a SYN that is sent again goes where
 * the first went. The table holds the connections that were used last; one that it has lost is the kernel's if
 * the kernel knows it, or by the answer to its SYN cookie will, and else the engine's.
 *
 * Included by steering.bpf.c after what it asks of the kernel, and steering_cookie.h.
 */
#include "siphash.h"

/* A share of all: a hash has as many values. */
#define SHARE_ALL 65536
#define MAX_FLOWS 65536
#define MAX_SLOTS 1024

/* For how long after a SYN another one without an answer between is taken for the same one sent again: longer
 * than the longest pause between two of Linux's (32 s). */
#define AGAIN_NS 60000000000ULL

enum owner {
	OWNER_ENGINE,
	OWNER_KERNEL,
};

enum phase {
	/* Its SYN has come. */
	PHASE_OPENING,
	/* Its client has said more. */
	PHASE_OPEN,
	/* Its client has sent a FIN or an RST, and no data since. */
	PHASE_ENDED,
};

/* A connection to a shared endpoint. The words are the same bytes, to be hashed. */
union flow_key {
	struct {
		__u8 address[16];
		__u8 peer[16];
		__u16 vlan[MAX_VLAN_TAGS];
		__be16 port;
		__be16 peer_port;
	};
	__u64 words[5];
};
_Static_assert(sizeof(union flow_key) == 40, "no padding");

struct flow {
	/* When its SYN came last, in nanoseconds; 0 if that was not seen. */
	__u64 opened;
	/* That of the endpoint: what is left of an earlier time counts for nothing. */
	__u32 epoch;
	__u8 owner;
	__u8 phase;
	__u16 zero;
};

/* What comes to the shared endpoints of a slot, since the program was loaded. */
struct load {
	/* Connections, and segments with data, by owner. */
	__u64 opened[2];
	__u64 data[2];
	/* Connections whose client has ended them, and how long those were open in all, in nanoseconds. */
	__u64 ended;
	__u64 lived;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_SLOTS);
	__type(key, __u32);
	__type(value, struct load);
} loads SEC(".maps");

/* Sized by whoever loads the program. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, union flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

/* Nobody outside knows it, or he could choose by his port who serves him. */
const volatile __u64 secret[2] = {};

static __always_inline void set_key(union flow_key *key, const struct endpoint *endpoint,
				    const struct bpf_sock_tuple *tuple, int type,
				    const struct segment *segment)
{
	__builtin_memcpy(key->address, endpoint->address, sizeof(key->address));
	__builtin_memcpy(key->vlan, endpoint->vlan, sizeof(key->vlan));
	key->port = endpoint->port;
	key->peer_port = segment->source;
	if (type == ETH_P_IP) {
		key->peer[10] = 0xff;
		key->peer[11] = 0xff;
		__builtin_memcpy(&key->peer[12], &tuple->ipv4.saddr, 4);
	} else {
		__builtin_memcpy(key->peer, tuple->ipv6.saddr, 16);
	}
}

/* Whose a connection is by the share, if nothing else speaks for either. */
static __always_inline int by_share(const union flow_key *key, __u32 share)
{
	SIP_BEGIN(secret);

	SIP_WORD(key->words[0]);
	SIP_WORD(key->words[1]);
	SIP_WORD(key->words[2]);
	SIP_WORD(key->words[3]);
	SIP_WORD(key->words[4]);
	SIP_WORD(40ULL << 56);
	SIP_END;
	return ((v0 ^ v1 ^ v2 ^ v3) & (SHARE_ALL - 1)) < share ? OWNER_ENGINE : OWNER_KERNEL;
}

static __always_inline struct load *load_of(const struct treatment *treatment)
{
	__u32 slot = treatment->slot;

	return bpf_map_lookup_elem(&loads, &slot);
}

static __always_inline void remember(const union flow_key *key, const struct treatment *treatment,
				     int owner, int phase)
{
	struct flow flow = {
		.opened = phase == PHASE_OPENING ? bpf_ktime_get_ns() : 0,
		.epoch = treatment->epoch,
		.owner = owner,
		.phase = phase,
	};

	bpf_map_update_elem(&flows, key, &flow, BPF_ANY);
}

/* Notes how far a connection has come by this segment. Most change nothing. */
static __always_inline void follow(struct flow *flow, const struct segment *segment,
				   struct load *load)
{
	__u8 phase = segment->ends ? PHASE_ENDED :
		     flow->phase == PHASE_ENDED && !segment->data ? PHASE_ENDED : PHASE_OPEN;

	if (flow->phase == phase)
		return;
	flow->phase = phase;
	if (phase == PHASE_ENDED && flow->opened && load) {
		load->ended++;
		load->lived += bpf_ktime_get_ns() - flow->opened;
	}
}

/* Counts a segment that is no SYN. */
static __always_inline void count_data(struct load *load, const struct segment *segment, int owner)
{
	if (load && segment->data)
		load->data[owner == OWNER_KERNEL]++;
}

/* Whose a connection is that is opened by a SYN, which is the first. */
static __always_inline int whose_syn(struct xdp_md *context, const struct treatment *treatment,
				     const union flow_key *key, struct bpf_sock_tuple *tuple,
				     __u32 tuple_size)
{
	int state;

	/* What is in TIME-WAIT is over: who opens the same pair of ports again is new. A server that closes
	 * first would keep all of a busy client's ports in the kernel. */
	state = kernel_state(context, tuple, tuple_size, 1);
	if (is_connection(state) && state != BPF_TCP_TIME_WAIT)
		return OWNER_KERNEL;
	if (treatment->flags & FLAG_LISTENER && (!state || state == STATE_NOT_SHOWN))
		return OWNER_KERNEL;
	return by_share(key, treatment->share);
}

/* Gives a frame of a shared endpoint to the kernel, if it is the kernel's: the verdict, or -1. */
static __always_inline int shared(struct xdp_md *context, const struct treatment *treatment,
				  const union flow_key *key, struct bpf_sock_tuple *tuple,
				  __u32 tuple_size, int type, const struct segment *segment)
{
	struct flow *flow = bpf_map_lookup_elem(&flows, key);
	struct load *load = load_of(treatment);
	int owner, again, state;

	if (flow && flow->epoch != treatment->epoch)
		flow = 0;
	/* Lest the compiler tests the epoch again instead of the pointer, of which the verifier knows. */
	asm volatile("" : "+r"(flow));
	/* A SYN to what is open is answered by who has it (RFC 9293, 3.10.7.4), whoever sent it. What the kernel
	 * has it knows itself. */
	if (segment->opens && !(flow && flow->phase == PHASE_OPEN && flow->owner == OWNER_ENGINE)) {
		again = flow && flow->phase == PHASE_OPENING &&
			bpf_ktime_get_ns() - flow->opened < AGAIN_NS;
		owner = again ? flow->owner :
				whose_syn(context, treatment, key, tuple, tuple_size);
		if (load && !again)
			load->opened[owner == OWNER_KERNEL]++;
		if (owner == OWNER_ENGINE && is_stale(context->rx_queue_index)) {
			remember(key, treatment, OWNER_KERNEL, PHASE_OPENING);
			return to_kernel(REASON_STALE);
		}
		remember(key, treatment, owner, PHASE_OPENING);
		return owner == OWNER_KERNEL ? to_kernel(REASON_SHARE) : -1;
	}
	if (flow) {
		count_data(load, segment, flow->owner);
		/* What an error quotes was not sent by the client. */
		if (!segment->quoted && !segment->opens)
			follow(flow, segment, load);
		return flow->owner == OWNER_KERNEL ? to_kernel(REASON_SHARE) : -1;
	}
	/* A flood of SYNs, for which the kernel sends cookies, is what makes the table lose them. */
	state = kernel_state(context, tuple, tuple_size, 0);
	owner = is_kernels(context, state, tuple, tuple_size, type, segment) ? OWNER_KERNEL :
									       OWNER_ENGINE;
	count_data(load, segment, owner);
	if (owner == OWNER_ENGINE)
		return -1;
	remember(key, treatment, OWNER_KERNEL, PHASE_OPEN);
	return to_kernel(REASON_FORGOTTEN);
}
