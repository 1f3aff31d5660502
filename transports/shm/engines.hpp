// The engines: how a collective goes over shared memory. All fold in the order of the ranks, so all give the same bits.
#pragma once

#include "transports/shm/direct_call.hpp"
#include "transports/shm/engine_task.hpp"

namespace tutti::shm {

/// Packets: what every rank gives fits in a few cache lines, each with its own flag. One transfer between cores.
EngineTask play_packets(Room& room, const DirectCall& call);

/// One shot: everyone lays out what it gives, then everyone takes what it needs. One synchronisation.
EngineTask play_one_shot(Room& room, const DirectCall& call);

/// For what is larger: tells of the call, and waits until every rank has entered it. Then one of the following. Rounds
/// may have begun in it.
EngineTask play_meeting(Room& room, const DirectCall& call);

/// Rounds: pieces pass through two slots of each rank; what a rank keeps of its own is never staged, and its own share
/// of a result goes straight home. Waits are one round behind, and nothing waits at the end.
EngineTask play_rounds(Room& room, const DirectCall& call);
/// How many rounds that takes.
std::uint64_t rounds_of(const DirectCall& call);

/// Direct: where the buffers that it needs can be reached by all, they read and write those. Nothing is staged.
EngineTask play_direct(Room& room, const DirectCall& call);
/// After a meeting; the same on all ranks.
bool can_play_direct(const Room& room, const DirectCall& call);

/// CMA, for a scatter: every rank copies its block out of the root's buffer, by the kernel where that is ordinary
/// memory.
EngineTask play_cma(Room& room, const DirectCall& call);
/// After that; the same on all ranks. False: the kernel lets nobody read the root's buffer, and nothing has been done.
bool can_play_cma(const Room& room, const DirectCall& call) noexcept;
/// Whether that is the quickest way; the same on all ranks.
bool favours_cma(const Room& room, const DirectCall& call) noexcept;

/// Whether the buffers of `rank`, whose line this is, allow for direct.
bool is_within_reach(const DirectCall& call, int rank, const CallLine& line) noexcept;

/// The call as its rank makes it, in the own line but for the buffers and the stamp, which tells of it.
CallLine& write_line(Room& room, const DirectCall& call);
/// Tells of the call, and of what lies in the own slot for it.
void announce(Room& room, const DirectCall& call);

/// What an engine finds when a peer's call is another one; Ok where it is the same.
Status compare_calls(const Room& room, const DirectCall& call, int peer);

}  // namespace tutti::shm
