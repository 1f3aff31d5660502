// The engines: the algorithms of collectives over shared memory. All reduce in rank order, so their results are equal
// bit for bit.
#pragma once

#include "transports/shm/call.hpp"
#include "transports/shm/engine_task.hpp"

namespace tutti::shm {

/// LL, for small calls: each rank's data fit into a few cache lines, each of which contains its own flag. Takes the
/// time of one cache line transfer between cores.
EngineTask play_low_latency(GroupMemory& memory, const ShmCall& call);

/// One shot: each rank copies its data into its slot, then reads what it needs from the others. One synchronisation.
EngineTask play_one_shot(GroupMemory& memory, const ShmCall& call);

/// Meeting, for larger calls: announces the call and waits until every rank has entered it. Then the backend runs one
/// of the engines below. A rank that already knows that two-copy follows stages its first piece here.
EngineTask play_meeting(GroupMemory& memory, const ShmCall& call);

/// Two-copy: a pipeline of pieces through two slots of each rank. A rank does not stage data for itself, and writes its
/// own share of a result directly. A rank waits only for work of the previous round, and does not wait at the end.
EngineTask play_two_copy(GroupMemory& memory, const ShmCall& call);
/// The number of rounds that play_two_copy() takes.
std::uint64_t rounds_of(const ShmCall& call);

/// Zero-copy: ranks read and write one another's buffers and stage nothing. All buffers that the call needs must be
/// accessible: see can_play_zero_copy().
EngineTask play_zero_copy(GroupMemory& memory, const ShmCall& call);
/// Call after play_meeting(); the result is the same on all ranks.
bool can_play_zero_copy(const GroupMemory& memory, const ShmCall& call);

/// CMA, for scatter: every rank copies its block from the root's buffer: from the root's arena if the buffer lies
/// there, else with process_vm_readv.
EngineTask play_cma(GroupMemory& memory, const ShmCall& call);
/// Call after play_cma(); the result is the same on all ranks. False: the kernel cannot read the root's buffer, and
/// play_cma() has copied nothing.
bool can_play_cma(const GroupMemory& memory, const ShmCall& call) noexcept;
/// True if CMA is the fastest engine for the call; the result is the same on all ranks.
bool favours_cma(const GroupMemory& memory, const ShmCall& call) noexcept;

/// True if the buffers of `rank` allow the zero-copy engine; `line` is that rank's call line.
bool is_within_reach(const ShmCall& call, int rank, const CallLine& line) noexcept;

/// Fills this rank's call line, except for the buffers and the stamp, which publishes it.
CallLine& write_line(GroupMemory& memory, const ShmCall& call);
/// Publishes the call and the data in this rank's slot.
void announce(GroupMemory& memory, const ShmCall& call);

/// Compares this call with the call of rank `peer`; Ok if they agree, else the mismatch.
Status compare_calls(const GroupMemory& memory, const ShmCall& call, int peer);

}  // namespace tutti::shm
