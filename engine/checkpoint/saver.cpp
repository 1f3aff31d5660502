#include "engine/checkpoint/saver.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/checkpoint/atomic_file.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "tutti/threads.hpp"

namespace tutti::engine {

FileSum write_arrays(const std::filesystem::path& file, const Fields& arrays,
                     const std::map<std::string, std::string>& metadata) {
  std::vector<SavedTensor> tensors;
  for (const auto& [name, array] : arrays) tensors.push_back({name, array.dtype(), array.shape(), array.bytes()});
  return write_safetensors(file, tensors, metadata);
}

Fields read_arrays(const std::filesystem::path& file, bool sums) {
  const Safetensors read(file);
  Fields arrays;
  for (const SavedTensor& tensor : read.tensors()) {
    if (sums) read.verify(tensor);
    arrays[tensor.name] = Array::make(tensor.dtype, tensor.shape, [&](std::byte* into) {
      std::copy(tensor.bytes.begin(), tensor.bytes.end(), into);
    });
  }
  return arrays;
}

Saver::~Saver() {
  if (thread_.joinable()) thread_.join();
}

void Saver::start(std::uint64_t step, CheckpointFiles files, bool best) {
  start([step, files = std::move(files), best](const CheckpointStore& store) {
    if (files.history) files.history();
    store.save(
        step, [&](const std::filesystem::path& folder) { write_manifest(folder, write_files(folder, files)); }, best);
  });
}

void Saver::start(std::function<void(const CheckpointStore&)> write) {
  wait();
  thread_ = start_thread("writes checkpoints", [this, write = std::move(write)] {
    try {
      write(store_);
    } catch (...) {
      failure_ = std::current_exception();
    }
  });
}

void Saver::wait() {
  if (thread_.joinable()) thread_.join();
  if (const std::exception_ptr failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
}

Manifest write_files(const std::filesystem::path& folder, const CheckpointFiles& files) {
  Manifest written;
  for (const auto& [name, arrays] : files.tensors) written[name] = write_arrays(folder / name, arrays, files.metadata);
  for (const auto& [name, text] : files.texts) {
    AtomicFile out(folder / name);
    out.write(text);
    written[name] = out.commit();
  }
  return written;
}

}  // namespace tutti::engine
