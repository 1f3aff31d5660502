// GroupRecord: a communicator's part in the flight recorder of its rank.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "transports/core/recorder.hpp"
#include "tutti/provider/backend.hpp"

namespace tutti {

/// Describes the communicator in the recorder while this object lives. Threads: begin() is for the holder of the
/// progress token, like label(), the rest for any thread.
class GroupRecord {
 public:
  /// `recorder` is null if nothing is recorded.
  GroupRecord(std::shared_ptr<Recorder> recorder, const Group& group, std::string name);
  ~GroupRecord();
  GroupRecord(const GroupRecord&) = delete;
  GroupRecord& operator=(const GroupRecord&) = delete;

  /// See Recorder::begin(). Null if nothing is recorded.
  Record* begin(const RecordEntry& entry) const noexcept {
    return recorder_ != nullptr ? recorder_->begin(entry) : nullptr;
  }
  /// The number that stands for a text in records; 0 if nothing is recorded.
  std::uint8_t text(std::string_view text) const noexcept { return recorder_ != nullptr ? recorder_->text(text) : 0; }

  /// As text(), for a static text: usually found by its address.
  std::uint8_t label(const char* label) const noexcept;

  void set_name(std::string_view name);
  std::string name() const;

 private:
  const std::shared_ptr<Recorder> recorder_;
  mutable std::mutex mutex_;  // guards name_
  std::string name_;
  const int entry_;
  // The numbers of labels by their address; token held.
  mutable std::array<std::pair<const char*, std::uint8_t>, 16> labels_{};
};

}  // namespace tutti
