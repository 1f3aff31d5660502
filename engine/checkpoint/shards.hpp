// Shards: a checkpoint whose tensors are in many files of equal size, one written by each rank.
//
// FOLDER/shards.json lists the tensors, each with the file that holds it in a checkpoint without shards. The bytes of
// all tensors, concatenated in that order, are divided into as many shards as there were ranks, at boundaries of
// elements. The file shard-R-of-N.safetensors has the pieces in shard R, each under the name "FILE/NAME". A piece that
// is a whole tensor has the tensor's shape; any other piece is one-dimensional.
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

/// Consecutive whole elements of a tensor, as a range of its bytes.
struct ShardPiece {
  std::size_t tensor = 0;  ///< index in the list of tensors
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

/// True if the checkpoint has the arrays of `file`, in that file or in shards. Local.
bool has_arrays(const std::filesystem::path& checkpoint, const std::string& file);

/// The arrays of a file of a checkpoint, by name, as copies. If the checkpoint is sharded, they are read from its
/// shards; readers need not be as many as the ranks that wrote. With `sums`, compares each file that is read with its
/// size and checksum in the manifest. If no manifest names an unsharded file, compares its tensors with the checksums
/// in the file, if it has any. Throws Error{invalid}, in one line, with the file and what is wrong.
Fields arrays_of(const std::filesystem::path& checkpoint, const std::string& file, bool sums);

/// The metadata of a file of a checkpoint; if sharded, that of its first shard. Throws as arrays_of() does.
std::map<std::string, std::string> metadata_of(const std::filesystem::path& checkpoint, const std::string& file);

}  // namespace tutti::engine
