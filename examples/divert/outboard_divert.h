/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For programs in outboard's slot: `return verdict(XDP_TX);` decides, and counts what was decided for
 * `outboard divert list`. See docs/divert.md.
 */
#ifndef OUTBOARD_DIVERT_H
#define OUTBOARD_DIVERT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, XDP_REDIRECT + 1);
	__type(key, __u32);
	__type(value, __u64);
} verdicts SEC(".maps");

static __always_inline int verdict(__u32 action)
{
	__u64 *count = bpf_map_lookup_elem(&verdicts, &action);

	if (count)
		*count += 1;
	return action;
}

#endif
