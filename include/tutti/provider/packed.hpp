// RunList and PackedTexts: compact lists of numbers and of texts, with one entry per rank of a job.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/status.hpp"

namespace tutti {

/// A list of numbers, stored as runs with a constant step: 12 bytes for a run such as 3 3 3 3 or 14 28 42. For example,
/// a list of the hosts of all ranks takes 12 bytes per host if the ranks of each host are consecutive. No list takes
/// more than 6 bytes per number.
///
/// Threads: several threads may call const functions at once.
class RunList {
  // Arithmetic is modulo 2^32, so a step may be negative.
  struct Run {
    std::uint32_t begin, first, step;
    std::uint32_t at(std::size_t i) const noexcept { return first + (static_cast<std::uint32_t>(i) - begin) * step; }
  };

 public:
  void push_back(std::uint32_t number) {
    if (!runs_.empty()) {
      Run& last = runs_.back();
      if (size_ - last.begin == 1) last.step = number - last.first;
      if (number == last.at(size_)) return static_cast<void>(++size_);
    }
    runs_.push_back({size_++, number, 0});
  }

  std::size_t size() const noexcept { return size_; }
  std::uint32_t operator[](std::size_t i) const noexcept { return runs_[run_of(i)].at(i); }
  std::uint32_t at(std::size_t i) const {
    if (i >= size_) throw std::out_of_range("RunList::at");
    return (*this)[i];
  }

  /// Reads the list from front to back without a search per number. The list must outlive the reader and not change.
  class Reader {
   public:
    explicit Reader(const RunList& list) noexcept : list_(list) {}
    std::uint32_t operator[](std::size_t i) noexcept {
      if (i < begin_ || i >= end_) {
        const std::size_t run = list_.run_of(i);
        begin_ = list_.runs_[run].begin;
        end_ = run + 1 < list_.runs_.size() ? list_.runs_[run + 1].begin : list_.size_;
        run_ = &list_.runs_[run];
      }
      return run_->at(i);
    }

   private:
    const RunList& list_;
    std::size_t begin_ = 0, end_ = 0;
    const Run* run_ = nullptr;
  };

  std::size_t memory() const noexcept { return runs_.capacity() * sizeof(Run); }  ///< heap bytes, without this object
  void shrink_to_fit() { runs_.shrink_to_fit(); }

 private:
  std::size_t run_of(std::size_t i) const noexcept {
    const auto after = std::ranges::upper_bound(runs_, i, {}, [](const Run& run) { return std::size_t{run.begin}; });
    return static_cast<std::size_t>(after - runs_.begin()) - 1;
  }

  std::vector<Run> runs_;
  std::uint32_t size_ = 0;
};

/// A list of texts, stored one after the other in one string.
class PackedTexts {
 public:
  /// Appends a text. Throws Error{resource} if all texts together exceed 4 GiB.
  void push_back(std::string_view text) {
    if (all_.size() + text.size() > std::numeric_limits<std::uint32_t>::max())
      throw Error(Code::resource, "the ranks tell one another more than 4 GiB at the start");
    all_ += text;
    ends_.push_back(static_cast<std::uint32_t>(all_.size()));
  }

  std::size_t size() const noexcept { return ends_.size(); }
  /// Text `i`, valid until the next push_back(). Throws std::out_of_range if there is no text `i`.
  std::string_view operator[](std::size_t i) const {
    const std::size_t end = ends_.at(i), begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(all_).substr(begin, end - begin);
  }

  std::size_t memory() const noexcept { return all_.capacity() + ends_.memory(); }  ///< heap bytes, without this object
  void shrink_to_fit() {
    all_.shrink_to_fit();
    ends_.shrink_to_fit();
  }

 private:
  std::string all_;
  RunList ends_;
};

}  // namespace tutti
