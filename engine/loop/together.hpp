// write_together(): a checkpoint to which every rank contributes files of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "engine/checkpoint/stage.hpp"
#include "engine/checkpoint/store.hpp"
#include "tutti/communicator.hpp"

namespace tutti::engine {

/// What a rank contributes.
struct RankFiles {
  std::shared_ptr<Stage> stage;                   ///< its tensors, which another thread fills
  std::map<std::string, std::string> metadata;    ///< of files of tensors
  std::map<std::string, std::string> texts = {};  ///< further files, by name; of rank 0
  std::function<void()> history = {};             ///< of rank 0; called first
};

/// Writes a checkpoint of `step` into the folder of `store`, which all ranks see. Rank 0 makes the folder, every rank
/// writes its files, and rank 0, which is told their sizes and checksums, makes the manifest and the checkpoint. If a
/// rank fails, all ranks throw its error, with its number, what was written is removed, and the checkpoint before stays
/// the newest one. If a rank is lost, the others throw Error{peer_lost}, and what was written is left to the next run's
/// store to remove, as some may still be writing. Collective on `ranks`, which nothing else uses meanwhile; blocks,
/// without a deadline, as long as the ranks' disks want.
///
/// A rank gives and gets a number of bytes that does not depend on how many ranks there are; rank 0 gets 12 bytes and a
/// name for each file.
void write_together(Communicator& ranks, const CheckpointStore& store, std::uint64_t step, const RankFiles& mine,
                    bool best);

}  // namespace tutti::engine
