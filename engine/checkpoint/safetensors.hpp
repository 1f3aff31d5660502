// The file format safetensors: named tensors, as Python's package of that name reads and writes them.
//
// Eight bytes with the length of the header (little-endian), the header as JSON, then the tensors' bytes, little-endian
// and row by row, without gaps. https://github.com/huggingface/safetensors
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transports/core/dtype.hpp"

namespace tutti::engine {

/// A tensor in memory that belongs to somebody else.
struct SavedTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Writes a file that is there whole or not at all. Throws Error{resource} where it cannot be written (no space, no
/// folder), Error{invalid} if two tensors have one name or a tensor's bytes are not those of its shape.
void write_safetensors(const std::filesystem::path& file, std::span<const SavedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// A file that is read. Its tensors lie in memory that is mapped from it, and live as long as this object. Threads:
/// any.
class Safetensors {
 public:
  /// Throws Error{invalid} with one line that names the file and what is wrong with it.
  explicit Safetensors(const std::filesystem::path& file);
  ~Safetensors();
  Safetensors(const Safetensors&) = delete;
  Safetensors& operator=(const Safetensors&) = delete;

  std::span<const SavedTensor> tensors() const noexcept { return tensors_; }
  /// Throws Error{invalid} naming the file and the nearest name where there is no such tensor.
  const SavedTensor& at(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }

 private:
  void read_header(std::string_view header, std::span<const std::byte> data);
  [[noreturn]] void refuse(const std::string& why) const;

  std::filesystem::path file_;
  std::span<const std::byte> mapped_;
  std::vector<SavedTensor> tensors_;  // by name
  std::map<std::string, std::string> metadata_;
};

}  // namespace tutti::engine
