// Dataset: samples by their number; SampleStream: samples one after the other. What a reader or a program of one's own
// implements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/data/sample.hpp"

namespace tutti::engine {

/// Samples that all have the same names, types and shapes. All calls may come from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::size_t size() const = 0;
  /// Sample i < size(); the same one every time. Throws tutti::Error with one line that names the file.
  virtual Sample get(std::size_t i) const = 0;
  /// Samples of each file, where neighbours are in a file that is read best as a whole; empty: there are no files.
  virtual std::vector<std::size_t> files() const { return {}; }
  /// A hint: what will be asked for from now on, in about this order. Replaces the one before.
  virtual void expect(std::span<const std::uint32_t> ids) const { static_cast<void>(ids); }
};

/// What has no numbers, such as events as they arrive. One thread at a time.
class SampleStream {
 public:
  virtual ~SampleStream() = default;
  virtual std::optional<Sample> next() = 0;  ///< nullopt: the end
};

/// Samples in memory: the rows of arrays. get() copies nothing.
class ArrayDataset : public Dataset {
 public:
  /// All arrays have as many rows. Throws Error{invalid}.
  explicit ArrayDataset(Fields columns);
  std::size_t size() const override { return size_; }
  Sample get(std::size_t i) const override;
  const Fields& columns() const noexcept { return columns_; }

 private:
  Fields columns_;
  std::size_t size_ = 0;
};

/// Some samples of another data set, in its order.
class Subset : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> whole, std::vector<std::uint32_t> ids);
  std::size_t size() const override { return ids_.size(); }
  Sample get(std::size_t i) const override { return whole_->get(ids_.at(i)); }
  std::vector<std::size_t> files() const override;
  void expect(std::span<const std::uint32_t> ids) const override;

 private:
  std::shared_ptr<const Dataset> whole_;
  std::vector<std::uint32_t> ids_;
};

}  // namespace tutti::engine
