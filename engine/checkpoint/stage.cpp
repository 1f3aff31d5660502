#include "engine/checkpoint/stage.hpp"

#include <algorithm>
#include <utility>

#include "engine/checkpoint/safetensors.hpp"
#include "transports/core/checked.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

constexpr std::size_t largest_part = std::size_t{4} << 20;

}  // namespace

std::size_t StagedTensor::bytes() const { return checked_product(size_of(dtype), shape).value_or(0); }

Stage::Stage(std::vector<StagedFile> files, std::size_t most) : files_(std::move(files)), most_(most) {
  for (const StagedFile& file : files_)
    for (const StagedTensor& tensor : file.tensors) bytes_ += tensor.bytes();
}

/// Waits until `bytes` more bytes of copies may exist. Returns false after abandon().
bool Stage::reserve(std::size_t bytes) {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [&] { return abandoned_ || held_ == 0 || held_ + bytes <= most_; });
  held_ += bytes;
  peak_ = std::max(peak_, held_);
  return !abandoned_;
}

void Stage::put(std::vector<std::byte> part) {
  const std::scoped_lock lock(mutex_);
  if (!abandoned_) parts_.push_back(std::move(part));
  moved_.notify_all();
}

void Stage::fill() {
  // Two parts fit into most_ bytes, so that one is copied while the other is written.
  const std::size_t most = std::clamp<std::size_t>(most_ / 2 / 64 * 64, 64, largest_part);
  try {
    for (const StagedFile& file : files_)
      for (const StagedTensor& tensor : file.tensors)
        for (std::size_t begin = 0, end = tensor.bytes(); begin < end; begin += most) {
          const std::size_t bytes = std::min(most, end - begin);
          if (!reserve(bytes)) return;
          std::vector<std::byte> part(bytes);
          tensor.copy(begin, part);
          put(std::move(part));
        }
  } catch (...) {
    const std::scoped_lock lock(mutex_);
    broken_ = true;
    moved_.notify_all();
    throw;
  }
}

std::vector<std::byte> Stage::take() {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [this] { return broken_ || !parts_.empty(); });
  if (broken_) throw Error(Code::resource, "the state of a run could not be copied, so it is not written");
  std::vector<std::byte> part = std::move(parts_.front());
  parts_.pop_front();
  return part;
}

void Stage::abandon() {
  const std::scoped_lock lock(mutex_);
  abandoned_ = true;
  parts_.clear();
  moved_.notify_all();
}

void Stage::write_tensors(AtomicFile& out, const StagedFile& file) {
  for (const StagedTensor& tensor : file.tensors)
    for (std::size_t left = tensor.bytes(); left > 0;) {
      const std::vector<std::byte> part = take();
      out.write(part);
      left -= part.size();
      const std::scoped_lock lock(mutex_);
      held_ -= part.size();
      moved_.notify_all();
    }
}

std::map<std::string, FileSum> Stage::write(const std::filesystem::path& folder,
                                            const std::map<std::string, std::string>& metadata) {
  std::map<std::string, FileSum> sums;
  try {
    for (const StagedFile& file : files_) {
      std::vector<TensorForm> forms;
      for (const StagedTensor& tensor : file.tensors) forms.push_back({tensor.name, tensor.dtype, tensor.shape});
      AtomicFile out(folder / file.name);
      out.write(safetensors_header(folder / file.name, forms, metadata));
      write_tensors(out, file);
      sums[file.name] = out.commit();
    }
  } catch (...) {
    abandon();
    throw;
  }
  return sums;
}

}  // namespace tutti::engine
