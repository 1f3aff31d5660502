// The engines: the algorithms of collectives over shared memory. All reduce in rank order, so all give the same bits.
#pragma once

#include "transports/shm/direct_call.hpp"
#include "transports/shm/engine_task.hpp"

namespace tutti::shm {

/// Packets: each rank's data fit into a few cache lines, each with its own flag. One cache line transfer between cores.
EngineTask play_packets(Room& room, const DirectCall& call);

/// One shot: each rank copies its data into its slot, then reads what it needs from the others. One synchronisation.
EngineTask play_one_shot(Room& room, const DirectCall& call);

/// Meeting, for larger calls: announces the call and waits until every rank has entered it; then one of the engines
/// below runs. Rounds may have begun already.
EngineTask play_meeting(Room& room, const DirectCall& call);

/// Rounds: a pipeline of pieces through two slots of each rank. A rank's data for itself are never staged, and its own
/// share of a result is written directly. Each wait is for the previous round, and there is none at the end.
EngineTask play_rounds(Room& room, const DirectCall& call);
/// The number of rounds that play_rounds() takes.
std::uint64_t rounds_of(const DirectCall& call);

/// Direct: ranks read and write one another's buffers, if all that the call needs are accessible. Nothing is staged.
EngineTask play_direct(Room& room, const DirectCall& call);
/// Call after a meeting; the same result on all ranks.
bool can_play_direct(const Room& room, const DirectCall& call);

/// CMA, for scatter: every rank copies its block from the root's buffer with process_vm_readv, if it is ordinary
/// memory.
EngineTask play_cma(Room& room, const DirectCall& call);
/// Call after play_cma(); the same on all ranks. False: the kernel refuses to read the root's buffer, and nothing was
/// done.
bool can_play_cma(const Room& room, const DirectCall& call) noexcept;
/// Whether CMA is the fastest engine for the call; the same on all ranks.
bool favours_cma(const Room& room, const DirectCall& call) noexcept;

/// Whether the buffers of `rank`, whose line is `line`, allow the direct engine.
bool is_within_reach(const DirectCall& call, int rank, const CallLine& line) noexcept;

/// Fills this rank's call line, except for the buffers and the stamp, which publishes it.
CallLine& write_line(Room& room, const DirectCall& call);
/// Publishes the call and the data in this rank's slot.
void announce(Room& room, const DirectCall& call);

/// Compares this call with those of the peers; Ok if they agree, else the mismatch.
Status compare_calls(const Room& room, const DirectCall& call, int peer);

}  // namespace tutti::shm
