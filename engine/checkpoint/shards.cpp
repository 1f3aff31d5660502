#include "engine/checkpoint/shards.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/saver.hpp"
#include "engine/config/documents.hpp"
#include "engine/data/files.hpp"
#include "engine/data/range.hpp"
#include "transports/core/checked.hpp"
#include "transports/core/text_file.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int shards_version = 1;
constexpr std::size_t most_shards = std::size_t{1} << 20;
constexpr DocumentLimits shards_limits{.bytes = std::size_t{256} << 20, .nodes = 20'000'000, .depth = 8};

std::size_t bytes_of(const ShardedTensor& tensor) {
  const auto bytes = checked_product(size_of(tensor.form.dtype), tensor.form.shape);
  if (!bytes) throw Error(Code::invalid, "'" + tensor.key() + "' has more bytes than can be counted");
  return *bytes;
}

struct ShardsIndex {
  std::size_t shards = 0;
  std::vector<ShardedTensor> tensors;
};

ShardedTensor tensor_of(const Json& entry) {
  ShardedTensor found{entry.at("file").get<std::string>(), {entry.at("name").get<std::string>(), {}, {}}};
  const std::optional<DType> dtype = safetensors_dtype(entry.at("dtype").get<std::string>());
  if (!dtype) throw Error(Code::invalid, "'" + found.key() + "' has an element type that is not supported");
  found.form.dtype = *dtype;
  for (const Json& side : entry.at("shape")) {
    if (!side.is_number_unsigned() || side.get<std::uint64_t>() > PTRDIFF_MAX)
      throw Error(Code::invalid, "'" + found.key() + "' has not a shape of whole numbers");
    found.form.shape.push_back(side.get<std::int64_t>());
  }
  bytes_of(found);
  return found;
}

ShardsIndex read_index(const fs::path& file) {
  const Json all = parse_json(read_text(file, shards_limits.bytes), file.string(), shards_limits);
  try {
    if (all.at("version").get<int>() != shards_version) refuse(file, "was written by another version of tutti");
    ShardsIndex found{.shards = all.at("shards").get<std::size_t>(), .tensors = {}};
    if (found.shards == 0 || found.shards > most_shards || !all.at("shards").is_number_unsigned())
      refuse(file, "has no number of shards from 1 to " + std::to_string(most_shards));
    for (const Json& entry : all.at("tensors")) found.tensors.push_back(tensor_of(entry));
    static_cast<void>(pieces_of(found.tensors, 0, found.shards));  // throws if the sum of all bytes overflows
    return found;
  } catch (const Json::exception& error) {
    refuse(file, std::string("is no list of shards: ") + error.what());
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(file.string())) throw;
    refuse(file, error.what());
  }
}

/// Reads the shards of a checkpoint. Opens a shard at its first use, and compares it with `manifest` unless that is
/// null.
class Shards {
 public:
  Shards(fs::path folder, ShardsIndex index, ListedFiles* manifest)
      : folder_(std::move(folder)), index_(std::move(index)), manifest_(manifest) {
    ends_.reserve(index_.tensors.size());
    for (const ShardedTensor& each : index_.tensors) {
      total_ += bytes_of(each);
      ends_.push_back(total_);
    }
  }

  const ShardsIndex& index() const noexcept { return index_; }

  /// Returns a copy of tensor number `tensor`. Allocates memory only after all of its pieces have been found.
  Array read(std::size_t tensor) {
    for_pieces(tensor, [](const ShardPiece&, std::span<const std::byte>) {});
    const TensorForm& form = index_.tensors[tensor].form;
    return Array::make(form.dtype, form.shape, [&](std::byte* into) {
      for_pieces(tensor, [&](const ShardPiece& piece, std::span<const std::byte> bytes) {
        std::ranges::copy(bytes, into + piece.begin);
      });
    });
  }

 private:
  /// Calls `use` with each piece of a tensor and the bytes of that piece.
  template <class Use>
  void for_pieces(std::size_t tensor, const Use& use) {
    const std::size_t begin = tensor == 0 ? 0 : ends_[tensor - 1];
    if (begin == ends_[tensor]) return;
    for (std::size_t shard = shard_with(begin), last = shard_with(ends_[tensor] - 1); shard <= last; ++shard)
      for (const ShardPiece& piece : pieces_in(shard))
        if (piece.tensor == tensor) use(piece, found(shard, piece));
  }

  std::size_t shard_with(std::size_t byte) const {
    std::size_t low = 0, high = index_.shards - 1;
    while (low < high) {
      const std::size_t middle = (low + high + 1) / 2;
      if (share(total_, static_cast<int>(middle), static_cast<int>(index_.shards)).begin <= byte)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }

  const std::vector<ShardPiece>& pieces_in(std::size_t shard) {
    if (shard != listed_) pieces_ = pieces_of(index_.tensors, shard, index_.shards);
    listed_ = shard;
    return pieces_;
  }

  std::span<const std::byte> found(std::size_t shard, const ShardPiece& piece) {
    const std::string name = shard_name(shard, index_.shards);
    const fs::path file = folder_ / name;
    if (shard != open_) {
      if (manifest_) manifest_->check(name);
      file_ = std::make_unique<Safetensors>(file);
    }
    open_ = shard;
    const SavedTensor& saved = file_->at(index_.tensors[piece.tensor].key());
    if (saved.bytes.size() != piece.bytes || saved.dtype != index_.tensors[piece.tensor].form.dtype)
      refuse(file, "'" + saved.name + "' is not the piece that " + shards_file + " asks for");
    return saved.bytes;
  }

  static constexpr std::size_t none = SIZE_MAX;
  const fs::path folder_;
  const ShardsIndex index_;
  ListedFiles* const manifest_;
  std::vector<std::size_t> ends_;
  std::size_t total_ = 0, listed_ = none, open_ = none;
  std::vector<ShardPiece> pieces_;
  std::unique_ptr<Safetensors> file_;
};

/// Reads a file that is not sharded. A file that ranks wrote together has no checksums of tensors, but an entry in the
/// manifest.
Fields read_unsharded(const fs::path& checkpoint, const std::string& file, bool sums) {
  const bool is_compared = sums && ListedFiles(checkpoint).check(file);
  return read_arrays(checkpoint / file, sums && !is_compared);
}

}  // namespace

std::vector<ShardPiece> pieces_of(std::span<const ShardedTensor> tensors, std::size_t shard, std::size_t shards) {
  std::vector<std::size_t> sizes;
  for (const ShardedTensor& each : tensors) sizes.push_back(bytes_of(each));
  const std::optional<std::size_t> total = checked_sum(sizes);
  if (!total) throw Error(Code::invalid, "the tensors of a checkpoint have more bytes than can be counted");
  const Range wanted = share(*total, static_cast<int>(shard), static_cast<int>(shards));
  std::vector<ShardPiece> found;
  std::size_t at = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t element = size_of(tensors[i].form.dtype);
    const auto cut = [&](std::size_t place) {  // bytes of this tensor before `place`, in whole elements
      return std::min(place - std::min(place, at), sizes[i]) / element * element;
    };
    const std::size_t begin = cut(wanted.begin);
    const bool ends_here = shard + 1 == shards;
    const std::size_t end = ends_here ? sizes[i] : cut(wanted.begin + wanted.count);
    if (end > begin) found.push_back({i, begin, end - begin});
    at += sizes[i];
  }
  return found;
}

std::string shard_name(std::size_t shard, std::size_t shards) {
  return "shard-" + std::to_string(shard) + "-of-" + std::to_string(shards) + ".safetensors";
}

std::string shards_text(std::span<const ShardedTensor> tensors, std::size_t shards) {
  nlohmann::ordered_json listed = nlohmann::ordered_json::array();
  for (const ShardedTensor& each : tensors)
    listed.push_back({{"file", each.file},
                      {"name", each.form.name},
                      {"dtype", safetensors_name(each.form.dtype)},
                      {"shape", each.form.shape}});
  return nlohmann::ordered_json{{"version", shards_version}, {"shards", shards}, {"tensors", listed}}.dump(1) + "\n";
}

bool has_arrays(const fs::path& checkpoint, const std::string& file) {
  std::error_code none;
  if (fs::exists(checkpoint / file, none)) return true;
  if (!fs::exists(checkpoint / shards_file, none)) return false;
  return std::ranges::any_of(read_index(checkpoint / shards_file).tensors,
                             [&](const ShardedTensor& each) { return each.file == file; });
}

Fields arrays_of(const fs::path& checkpoint, const std::string& file, bool sums) {
  std::error_code none;
  if (fs::exists(checkpoint / file, none) || !fs::exists(checkpoint / shards_file, none))
    return read_unsharded(checkpoint, file, sums);
  std::optional<ListedFiles> manifest;
  if (sums) manifest.emplace(checkpoint).check(shards_file);
  Shards shards(checkpoint, read_index(checkpoint / shards_file), manifest ? &*manifest : nullptr);
  const std::vector<ShardedTensor>& tensors = shards.index().tensors;
  std::map<std::string_view, std::size_t> by_name;  // sorted by name, as in a safetensors file
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].file == file) by_name[tensors[i].form.name] = i;
  Fields found;
  for (const auto& [name, number] : by_name) found[std::string(name)] = shards.read(number);
  return found;
}

std::map<std::string, std::string> metadata_of(const fs::path& checkpoint, const std::string& file) {
  std::error_code none;
  if (fs::exists(checkpoint / file, none) || !fs::exists(checkpoint / shards_file, none))
    return Safetensors(checkpoint / file).metadata();
  return Safetensors(checkpoint / shard_name(0, read_index(checkpoint / shards_file).shards)).metadata();
}

}  // namespace tutti::engine
