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

/// The files that a rank contributes.
struct RankFiles {
  std::shared_ptr<Stage> stage;                   ///< its tensors; another thread calls Stage::fill()
  std::map<std::string, std::string> metadata;    ///< metadata of the files of tensors
  std::map<std::string, std::string> texts = {};  ///< further files, by name; of rank 0
  std::function<void()> history = {};             ///< on rank 0: writes the run's history; called first
};

/// Writes a checkpoint of `step` into the folder of `store`, which all ranks must be able to access. Rank 0 creates the
/// checkpoint's folder, and every rank writes its files. Then rank 0 gathers their sizes and checksums, writes the
/// manifest and commits the checkpoint. If a rank fails, all ranks throw its error, with its rank. The files are then
/// removed, and the previous checkpoint remains the newest. If a rank is lost, the others throw Error{peer_lost}. The
/// files then remain until the next run's store removes them, because some ranks may still be writing. Collective on
/// `ranks`, which nothing else uses meanwhile; blocks, without a deadline, as long as the disks of the ranks need.
///
/// The number of bytes that a rank sends and receives does not depend on the number of ranks, except that rank 0
/// receives a line of text for each file: size, checksum and name.
void write_together(Communicator& ranks, const CheckpointStore& store, std::uint64_t step, const RankFiles& mine,
                    bool best);

}  // namespace tutti::engine
