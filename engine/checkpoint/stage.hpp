// Stage: copies tensors in one thread while another thread writes the copies to files.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/atomic_file.hpp"
#include "engine/data/array.hpp"
#include "tutti/dtype.hpp"

namespace tutti::engine {

/// A tensor, or consecutive elements of a tensor, that Stage::fill() copies later.
struct StagedTensor {
  std::string name;
  DType dtype = DType::f32;
  ArrayShape shape = {};
  /// Copies into.size() bytes of the tensor, from byte `begin` on, to host memory.
  std::function<void(std::size_t begin, std::span<std::byte> into)> copy = {};

  std::size_t bytes() const;
};

/// A safetensors file that is to be written.
struct StagedFile {
  std::string name;
  std::vector<StagedTensor> tensors = {};
};

/// Files to be written, whose tensors must not change until fill() returns. One thread calls fill(), which copies;
/// another thread calls write(), which writes. The faster one waits for the other, so that copies take at most `most`
/// bytes at a time. If all files together have at most `most` bytes, fill() never waits for the disk.
class Stage {
 public:
  Stage(std::vector<StagedFile> files, std::size_t most);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// Copies all tensors. Returns early if write() has failed. If `copy` throws, so does write().
  void fill();
  /// Writes the files into `folder`, durably, without checksums of single tensors. Returns their sizes and checksums by
  /// name. Throws Error{resource}.
  std::map<std::string, FileSum> write(const std::filesystem::path& folder,
                                       const std::map<std::string, std::string>& metadata);
  /// Discards all copies and lets fill() return early. To be called if write() is not called, or fails.
  void abandon();

  std::size_t bytes() const noexcept { return bytes_; }  ///< of all tensors
  std::size_t peak() const noexcept { return peak_; }    ///< the most bytes of copies at a time; read it after write()

 private:
  bool reserve(std::size_t bytes);
  void put(std::vector<std::byte> part);
  std::vector<std::byte> take();
  void write_tensors(AtomicFile& out, const StagedFile& file);

  const std::vector<StagedFile> files_;
  const std::size_t most_;
  std::size_t bytes_ = 0;
  std::mutex mutex_;
  std::condition_variable moved_;
  std::deque<std::vector<std::byte>> parts_;
  std::size_t held_ = 0, peak_ = 0;
  bool abandoned_ = false, broken_ = false;
};

}  // namespace tutti::engine
