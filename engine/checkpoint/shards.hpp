// Shards: a checkpoint whose tensors are in many files of equal size, one written by each rank.
//
// FOLDER/shards.json lists the tensors by the file in which a checkpoint that is not sharded has them. Their bytes, one
// after the other in that order, are cut into as many shards as there were ranks, each at a whole element. The file
// shard-R-of-N.safetensors has the pieces in shard R: a tensor that is whole in it in its shape, else a list of
// elements; each under the name "FILE/NAME".
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.hpp"
#include "engine/data/sample.hpp"

namespace tutti::engine {

inline constexpr const char* shards_file = "shards.json";

/// A tensor of a sharded checkpoint.
struct ShardedTensor {
  std::string file;  ///< "model.safetensors"
  TensorForm form;

  std::string key() const { return file + "/" + form.name; }
};

/// Consecutive bytes of a tensor, all of whole elements.
struct ShardPiece {
  std::size_t tensor = 0;  ///< its index
  std::size_t begin = 0, bytes = 0;
  bool operator==(const ShardPiece&) const = default;
};

/// Returns the pieces in shard `shard` of `shards`. The sizes of two shards differ by less than 16 bytes. Throws
/// Error{invalid} if the tensors' bytes are more than can be counted.
std::vector<ShardPiece> pieces_of(std::span<const ShardedTensor> tensors, std::size_t shard, std::size_t shards);

/// "shard-3-of-16.safetensors".
std::string shard_name(std::size_t shard, std::size_t shards);

/// The text of shards.json.
std::string shards_text(std::span<const ShardedTensor> tensors, std::size_t shards);

/// True if the file, which a checkpoint may have as it is or in shards, is in it. Local.
bool has_arrays(const std::filesystem::path& checkpoint, const std::string& file);

/// The arrays of a file of a checkpoint, or, where it is sharded, those that its shards have of it; copies, by name.
/// Any number of processes may read what any number of ranks wrote. With `sums`, each file that is opened is compared
/// with its size and checksum in the checkpoint's manifest; where none names it, with the checksums of its tensors, if
/// it has them. Throws Error{invalid}, in one line, with the file and what is wrong.
Fields arrays_of(const std::filesystem::path& checkpoint, const std::string& file, bool sums);

/// The metadata of such a file: of its first shard, where it is sharded. Throws as arrays_of() does.
std::map<std::string, std::string> metadata_of(const std::filesystem::path& checkpoint, const std::string& file);

}  // namespace tutti::engine
