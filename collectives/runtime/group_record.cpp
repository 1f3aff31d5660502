#include "collectives/runtime/group_record.hpp"

namespace tutti {
namespace {

// The members as a first world rank and a stride, if they are so regular.
RecordedMembers members_of(const Group& group) {
  RecordedMembers members{.id = group.id, .rank = group.rank, .size = group.size(), .first = 0, .stride = 1};
  if (group.size() == 0) return members;
  members.first = group.members.front();
  if (group.size() > 1) members.stride = group.members[1] - members.first;
  for (std::size_t i = 1; i < group.members.size(); ++i)
    if (group.members[i] - group.members[i - 1] != members.stride) members.stride = 0;
  return members;
}

}  // namespace

GroupRecord::GroupRecord(std::shared_ptr<Recorder> recorder, const Group& group, std::string name)
    : recorder_(std::move(recorder)),
      name_(std::move(name)),
      entry_(recorder_ != nullptr ? recorder_->add_group(members_of(group), name_) : -1) {}

GroupRecord::~GroupRecord() {
  if (recorder_ != nullptr) recorder_->drop_group(entry_);
}

std::uint8_t GroupRecord::label(const char* label) const noexcept {
  auto& [known, number] = labels_[reinterpret_cast<std::uintptr_t>(label) / 16 % labels_.size()];
  if (known != label) {
    known = label;
    number = text(label);
  }
  return number;
}

void GroupRecord::set_name(std::string_view name) {
  const std::lock_guard lock(mutex_);
  name_ = name;
  if (recorder_ != nullptr) recorder_->name_group(entry_, name);
}

std::string GroupRecord::name() const {
  const std::lock_guard lock(mutex_);
  return name_;
}

}  // namespace tutti
