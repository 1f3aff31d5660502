#include "engine/checkpoint/store.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string>
#include <system_error>
#include <vector>

#include "engine/checkpoint/atomic_file.hpp"
#include "engine/checkpoint/manifest.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-", unfinished = ".unfinished-";

/// The steps of all checkpoints, newest first. Every entry named step-N counts as a checkpoint, even if damaged.
std::vector<std::uint64_t> steps_in(const fs::path& folder) {
  std::vector<std::uint64_t> steps;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (const auto step = checkpoint_step(entry.path().filename().string())) steps.push_back(*step);
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

fs::path folder_of(const fs::path& folder, std::uint64_t step) {
  return folder / (prefix.data() + std::to_string(step));
}

/// The checkpoint that `link` points to; nullopt unless it is in the same folder. A store makes no other links.
std::optional<fs::path> linked(const fs::path& link) {
  std::error_code none;
  const fs::path target = fs::read_symlink(link, none);
  if (none || !checkpoint_step(target.string())) return std::nullopt;
  const fs::path found = link.parent_path() / target;
  return fs::exists(fs::symlink_status(found, none)) ? std::optional(found) : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> checkpoint_step(std::string_view name) {
  std::uint64_t step = 0;
  if (!name.starts_with(prefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, step);
  const bool whole = error == std::errc() && rest == end && prefix.data() + std::to_string(step) == name;
  return whole ? std::optional(step) : std::nullopt;
}

ChosenCheckpoint choose_checkpoint(const CheckpointStore& store, std::string_view asked, bool sums) {
  ChosenCheckpoint chosen;
  if (const auto step = checkpoint_step(asked)) {
    if (const std::string fault = fault_of(store.folder() / asked, sums); !fault.empty())
      throw Error(Code::invalid,
                  fault + "; `tutti checkpoint list " + store.folder().string() + "` says which are whole");
    chosen.step = step;
    return chosen;
  }
  for (const fs::path& each : store.all()) {
    std::string fault = fault_of(each, sums);
    if (fault.empty()) {
      chosen.step = checkpoint_step(each.filename().string());
      return chosen;
    }
    chosen.skipped.push_back(std::move(fault));
  }
  if (!chosen.skipped.empty())
    throw Error(Code::invalid, "no checkpoint in " + store.folder().string() + " is whole (the last one: " +
                                   chosen.skipped.front() + "): begin anew in another run=");
  return chosen;
}

CheckpointStore::CheckpointStore(fs::path folder, std::size_t keep, bool writes)
    : folder_(std::move(folder)), keep_(keep) {
  if (!writes) return;
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed) throw Error(Code::resource, folder_.string() + ": cannot be made: " + failed.message());
  for (const auto& entry : fs::directory_iterator(folder_, failed))
    if (entry.path().filename().string().starts_with(unfinished)) fs::remove_all(entry.path(), failed);
}

void CheckpointStore::save(std::uint64_t step, const std::function<void(const fs::path&)>& fill, bool best) const {
  const fs::path filled = begin(step);
  try {
    fill(filled);
    commit(step, best);
  } catch (...) {
    abandon(step);
    throw;
  }
}

fs::path CheckpointStore::unfinished_folder(std::uint64_t step) const {
  return folder_ / (unfinished.data() + folder_of(folder_, step).filename().string());
}

fs::path CheckpointStore::begin(std::uint64_t step) const {
  const fs::path filled = unfinished_folder(step);
  std::error_code failed;
  fs::remove_all(filled, failed);
  if (!fs::create_directory(filled, failed))
    throw Error(Code::resource, filled.string() + ": cannot be made: " + failed.message());
  return filled;
}

void CheckpointStore::abandon(std::uint64_t step) const noexcept {
  std::error_code ignored;
  fs::remove_all(unfinished_folder(step), ignored);
}

void CheckpointStore::commit(std::uint64_t step, bool best) const {
  const fs::path whole = folder_of(folder_, step), name = whole.filename(), filled = unfinished_folder(step);
  std::error_code failed;
  sync_folder(filled);
  // If this step has a checkpoint already, the two names are exchanged, so that step-N exists at any time.
  const bool again = fs::exists(fs::symlink_status(whole, failed));
  if (again && renameat2(AT_FDCWD, filled.c_str(), AT_FDCWD, whole.c_str(), RENAME_EXCHANGE) != 0) {
    fs::rename(whole, filled.string() + "-before", failed);  // for file systems without RENAME_EXCHANGE, such as NFS
    fs::rename(filled, whole, failed);
    fs::remove_all(filled.string() + "-before");
  } else if (!again) {
    fs::rename(filled, whole, failed);
  }
  if (failed)
    throw Error(Code::resource,
                whole.string() + ": cannot be made: " + failed.message() + "; earlier ones are still there");
  sync_folder(folder_);
  fs::remove_all(filled, failed);
  // before `last`, because the state of `last` may name this checkpoint as the best
  if (best) replace_link(folder_ / "best", name);
  replace_link(folder_ / "last", name);
  remove_old();
}

void CheckpointStore::remove_old() const {
  if (keep_ == 0) return;
  const auto last_one = last(), best_one = best();
  std::vector<std::uint64_t> steps = steps_in(folder_);
  // Checkpoints newer than `last` are damaged, or belong to a run that was abandoned for an earlier step. They are
  // neither counted nor removed.
  if (last_one)
    std::erase_if(steps, [&](std::uint64_t step) { return step > checkpoint_step(last_one->filename().string()); });
  for (std::size_t i = keep_; i < steps.size(); ++i) {
    const fs::path old = folder_of(folder_, steps[i]);
    if (old == last_one || old == best_one) continue;
    // renamed first, so that a folder step-N is never partially removed
    const fs::path away = folder_ / (unfinished.data() + old.filename().string());
    std::error_code ignored;
    fs::rename(old, away, ignored);
    fs::remove_all(away, ignored);
  }
}

std::vector<fs::path> CheckpointStore::all() const {
  std::vector<fs::path> found;
  for (const std::uint64_t step : steps_in(folder_)) found.push_back(folder_of(folder_, step));
  // The link is missing if the process was killed before it made its first one. Checkpoints newer than the link come
  // from a process that was killed before it moved the link, or from a run that was abandoned for an earlier step.
  if (const auto saved = linked(folder_ / "last"))
    std::rotate(found.begin(), std::find(found.begin(), found.end(), *saved), found.end());
  return found;
}

std::optional<fs::path> CheckpointStore::last() const {
  const std::vector<fs::path> found = all();
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::optional<fs::path> CheckpointStore::best() const { return linked(folder_ / "best"); }

}  // namespace tutti::engine
