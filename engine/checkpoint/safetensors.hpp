// The file format safetensors for named tensors, compatible with the Python package of that name.
//
// Layout: the length of the header (8 bytes, little-endian), the header as JSON, then the tensors' bytes,
// little-endian, row-major and without gaps. https://github.com/huggingface/safetensors
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/atomic_file.hpp"
#include "tutti/dtype.hpp"

namespace tutti::engine {

/// A named tensor whose memory is borrowed.
struct SavedTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// The entry of a tensor in a header.
struct TensorForm {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
};

/// The format's name of an element type, such as "BF16"; and the reverse, which is nullopt for an unknown name.
std::string_view safetensors_name(DType dtype) noexcept;
std::optional<DType> safetensors_dtype(std::string_view name) noexcept;

/// The beginning of a file, before the bytes of the tensors, which follow in the order of `tensors` without gaps.
/// `sums`: a checksum of each tensor, or empty. Throws Error{invalid} with the name of `file` if two tensors have
/// the same name or one is too large.
std::string safetensors_header(const std::filesystem::path& file, std::span<const TensorForm> tensors,
                               const std::map<std::string, std::string>& metadata,
                               std::span<const std::uint32_t> sums = {});

/// Writes a file atomically (AtomicFile), with a checksum of each tensor in its metadata. Throws Error{resource} if the
/// file cannot be written (no space, no folder), and Error{invalid} if two tensors have the same name or the bytes of a
/// tensor do not match its shape.
FileSum write_safetensors(const std::filesystem::path& file, std::span<const SavedTensor> tensors,
                          const std::map<std::string, std::string>& metadata = {});

/// A file opened for reading. Its tensors are views of a memory mapping, valid as long as this object. Like the
/// format's reference implementation, it refuses overlapping tensors, bytes that belong to no tensor, and duplicate
/// names. Any thread.
class Safetensors {
 public:
  /// Throws Error{invalid}, in one line, with the file's name and the problem.
  explicit Safetensors(const std::filesystem::path& file);
  ~Safetensors();
  Safetensors(const Safetensors&) = delete;
  Safetensors& operator=(const Safetensors&) = delete;

  std::span<const SavedTensor> tensors() const noexcept { return tensors_; }
  /// The tensor with this name. Throws Error{invalid} with the nearest name if there is none.
  const SavedTensor& at(std::string_view name) const;
  /// Throws Error{invalid} if the tensor's bytes do not match its checksum in the file. Does nothing if the file has no
  /// checksums because another program wrote it.
  void verify(const SavedTensor& tensor) const;
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }

 private:
  void read_header(std::string_view header, std::span<const std::byte> data);
  void read_metadata(const nlohmann::json& entry);
  [[noreturn]] void refuse(const std::string& why) const;

  std::filesystem::path file_;
  std::span<const std::byte> mapped_;
  std::vector<SavedTensor> tensors_;  // sorted by name
  std::map<std::string, std::string> metadata_;
  std::map<std::string, std::uint32_t, std::less<>> sums_;
};

}  // namespace tutti::engine
