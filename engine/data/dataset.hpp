// Dataset: samples by index. SampleStream: samples in sequence. Readers and user programs implement them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/data/blocks.hpp"
#include "engine/data/sample.hpp"

namespace tutti::engine {

/// A sequence of samples that is stored nowhere: calls `use` with the id of each sample, in order.
using Coming = std::function<void(const std::function<void(SampleId)>& use)>;

/// Samples with the same names, types and shapes. All functions may be called by several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::size_t size() const = 0;
  /// Sample i < size(); every call returns the same one. Throws tutti::Error, in one line, with the file's name.
  virtual Sample get(std::size_t i) const = 0;
  /// The number of samples in each file, for data sets whose files are best read one after the other; else empty.
  virtual std::vector<std::size_t> files() const { return {}; }
  /// The parts that are best read as a whole, for data sets in which samples in any order would be slow; else empty.
  virtual Blocks blocks() const { return {}; }
  /// A hint: the samples that will be requested next, in about this order. Replaces the previous hint. `coming` may be
  /// called several times, until expect() returns.
  virtual void expect(const Coming& coming) const { static_cast<void>(coming); }
};

/// Samples without an index, such as events as they arrive. One thread at a time.
class SampleStream {
 public:
  virtual ~SampleStream() = default;
  virtual std::optional<Sample> next() = 0;  ///< nullopt: end of the stream
};

/// Samples in memory: the rows of arrays. get() does not copy.
class ArrayDataset : public Dataset {
 public:
  /// Throws Error{invalid} unless all arrays have the same number of rows.
  explicit ArrayDataset(Fields columns);
  std::size_t size() const override { return size_; }
  Sample get(std::size_t i) const override;
  const Fields& columns() const noexcept { return columns_; }

 private:
  Fields columns_;
  std::size_t size_ = 0;
};

/// A subset of another data set, in that data set's order. Its memory is 4 bytes per sample, 8 if the data set has more
/// than 2^32 samples, and none if the samples are equally far apart.
class Subset : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> whole, std::vector<SampleId> ids);
  /// The samples `first`, first + stride, ... as far as the data set goes; stride > 0.
  Subset(std::shared_ptr<const Dataset> whole, SampleId first, SampleId stride);
  std::size_t size() const override { return size_; }
  Sample get(std::size_t i) const override { return whole_->get(id(i)); }
  std::vector<std::size_t> files() const override;
  Blocks blocks() const override;
  void expect(const Coming& coming) const override;

 private:
  SampleId id(std::size_t i) const;
  std::size_t number_below(SampleId end) const;

  std::shared_ptr<const Dataset> whole_;
  std::size_t size_ = 0;
  SampleId first_ = 0, stride_ = 0;  // for samples that are equally far apart; else a list has the ids
  std::vector<std::uint32_t> short_ids_;
  std::vector<SampleId> long_ids_;
};

}  // namespace tutti::engine
