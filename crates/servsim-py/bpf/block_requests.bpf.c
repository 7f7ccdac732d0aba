// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
//
// What `servsim disk capture --method bpf` runs in the kernel: each insert, issue and completion of a block request
// becomes one record in a ring of the processor it happens on, which the reader has mapped.
//
// Records mean what the trace events block_rq_insert, block_rq_issue and block_rq_complete mean (Linux,
// include/trace/events/block.h); flags of a request are kept as they are, the reader makes words of them. Nothing is
// decided here, so that a record costs as little as it can: no helper is called but for the clock and the name of the
// process, and no reader is woken. Where the kernel's structures have their members is found when the program is loaded
// (CO-RE), for Linux 5.12 and later: earlier ones have no atomic operation that returns the old value.

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

// From include/uapi/linux/bpf.h, which would need the headers of the machine that this is built on.
enum { BPF_MAP_TYPE_ARRAY = 2, BPF_F_MMAPABLE = 1024 };

// Of the kernel's structures, the members used.
#define KERNEL __attribute__((preserve_access_index))

struct gendisk {
	int major, first_minor;
} KERNEL;

struct request_queue {
	struct gendisk *disk;
} KERNEL;

struct request {
	struct request_queue *q;
	__u32 cmd_flags, __data_len;
	__u64 __sector;
} KERNEL;

// Before Linux 5.17.
struct request___before_5_17 {
	struct gendisk *rq_disk;
} KERNEL;

struct task_struct {
	int pid;
} KERNEL;

enum kind { INSERT, ISSUE, COMPLETE };

// The same layout is in servsim/disk/bpf.py (EVENT); `process` is left as it was at a completion.
struct event {
	__u64 serial; // 1 + its place in the sequence of its ring; written last
	__u64 time_ns;
	__u64 sector;
	__u32 device; // as the kernel's dev_t: major << 20 | minor
	__u32 flags;
	__u32 bytes;
	__s32 error;
	__s32 pid;
	__u16 kind;
	__u16 processor;
	char process[16];
};

_Static_assert(sizeof(struct event) == 64, "an event is a cache line");

// The same layout is in servsim/disk/bpf.py (RING_WORDS).
struct ring {
	__u64 reserved; // events that have, or are about to get, a place in the ring
	__u64 lost;     // events that found it full
	__u64 unused[6];
	__u64 taken; // events that the reader has taken; the reader writes it
	__u64 unused_too[7];
};

_Static_assert(sizeof(struct ring) == 128, "what the reader writes is in another cache line than what the program does");

// Places in a ring, a power of two; the reader sets it before loading, and with it the size of `events`.
const volatile __u32 places = 1 << 18;

// Places that are left free. Between a look at the ring and the reservation, an interrupt may reserve too.
enum { SPARE = 64 };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ring);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct event);
} events SEC(".maps");

static __always_inline __u32 device_of(struct request *request)
{
	struct request___before_5_17 *old = (void *)request;
	struct gendisk *disk = bpf_core_field_exists(old->rq_disk) ? old->rq_disk : request->q->disk;

	return disk ? disk->major << 20 | disk->first_minor : 0;
}

static __always_inline int record(struct request *request, enum kind kind, __u32 bytes, __s32 error)
{
	__u32 processor = bpf_get_smp_processor_id();
	struct ring *ring = bpf_map_lookup_elem(&rings, &processor);

	if (!ring)
		return 0;
	if (ring->reserved - ring->taken >= places - SPARE) {
		__sync_fetch_and_add(&ring->lost, 1);
		return 0;
	}
	__u64 number = __sync_fetch_and_add(&ring->reserved, 1);
	__u32 place = processor * places + (number & (places - 1));
	struct event *event = bpf_map_lookup_elem(&events, &place);

	if (!event) {
		__sync_fetch_and_add(&ring->lost, 1);
		return 0;
	}
	event->time_ns = bpf_ktime_get_ns();
	event->sector = request->__sector;
	event->device = device_of(request);
	event->flags = request->cmd_flags;
	event->bytes = bytes;
	event->error = error;
	event->pid = ((struct task_struct *)bpf_get_current_task_btf())->pid;
	event->kind = kind;
	event->processor = processor;
	if (kind != COMPLETE)
		bpf_get_current_comm(event->process, sizeof event->process);
	// An exchange, because it keeps what is above from becoming visible after it.
	__sync_lock_test_and_set(&event->serial, number + 1);
	return 0;
}

SEC("tp_btf/block_rq_insert")
int servsim_insert(__u64 *arguments)
{
	struct request *request = (void *)arguments[0];

	return record(request, INSERT, request->__data_len, 0);
}

SEC("tp_btf/block_rq_issue")
int servsim_issue(__u64 *arguments)
{
	struct request *request = (void *)arguments[0];

	return record(request, ISSUE, request->__data_len, 0);
}

SEC("tp_btf/block_rq_complete")
int servsim_complete(__u64 *arguments)
{
	return record((void *)arguments[0], COMPLETE, arguments[2], arguments[1]);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
