#include "collectives/collective_operation.hpp"

#include "collectives/context.hpp"

namespace tutti {

CollectiveOperation::CollectiveOperation(std::shared_ptr<Context> context, std::shared_ptr<GroupState> group,
                                         Parts parts)
    : Operation(std::move(context), std::move(group), {parts.launch.sequence, parts.launch.summary}, parts.until),
      parts_(std::move(parts)) {
  if (!parts_.insisted.empty()) parts_.launch.algorithm = parts_.insisted;
}

void CollectiveOperation::begin() {
  if (context().settings().verify != "full" || group().group().size() == 1)
    return parts_.backend->start(parts_.call, parts_.launch, *this);
  verification_ =
      std::make_unique<Verification>(context().wire(), group().group(), call(),
                                     Verification::Outcome{[this](const Status& why) { in_trouble(why); },
                                                           [this](const Status& status) { verified(status); }});
  verification_->begin();
}

void CollectiveOperation::verified(const Status& status) {
  if (!status.ok()) return finish(status);
  try {
    parts_.backend->start(parts_.call, parts_.launch, *this);
  } catch (const std::exception& error) {
    fail_here(error.what());
  }
}

void CollectiveOperation::trouble(const Status& why) { in_trouble(why); }

void CollectiveOperation::ended(const Status& status) { finish(status); }

void CollectiveOperation::cancel(const Status& why) noexcept { parts_.backend->cancel(why); }

std::string CollectiveOperation::where() const {
  const std::string name(parts_.backend->name()), where = parts_.backend->where(parts_.launch.sequence);
  return where.empty() ? name : where;
}

}  // namespace tutti
