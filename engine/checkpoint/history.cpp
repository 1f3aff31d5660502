#include "engine/checkpoint/history.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "engine/checkpoint/atomic_file.hpp"
#include "engine/checkpoint/records.hpp"
#include "engine/checkpoint/state.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/config/documents.hpp"
#include "engine/data/files.hpp"
#include "transports/core/descriptor.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;

constexpr std::size_t losses_a_line = 1000;
constexpr DocumentLimits line_limits{.bytes = std::size_t{1} << 20, .nodes = 100'000, .depth = 8};

std::string line_of(const char* what, Ordered value) {
  Ordered line;
  line[what] = std::move(value);
  return line.dump() + "\n";
}

std::string name_of(std::size_t number) {
  return "history" + (number == 0 ? std::string() : "-" + std::to_string(number)) + ".jsonl";
}

/// The number of bytes of each history that checkpoints in `folder` need. Checkpoints that cannot be read are ignored.
std::map<std::string, std::uint64_t> needed_in(const fs::path& folder) {
  std::map<std::string, std::uint64_t> needed;
  for (const fs::path& each : CheckpointStore(folder, 0, false).all()) try {
      const HistoryMark mark = RunState::read(each / RunState::file).history;
      if (!mark.file.empty()) needed[mark.file] = std::max(needed[mark.file], mark.bytes);
    } catch (const Error&) {
    }
  return needed;
}

/// Maps a file. The size in the result is `bytes`, even if the file is longer. Throws Error{invalid} if it is shorter.
MappedFile beginning(const fs::path& file, std::uint64_t bytes) {
  std::error_code failed;
  if (!fs::is_regular_file(fs::symlink_status(file, failed))) refuse(file, "is missing, or no regular file");
  MappedFile found = map_file(file);
  if (found.bytes < bytes)
    refuse(file,
           "has " + std::to_string(found.bytes) + " bytes of " + std::to_string(bytes) + " that a checkpoint needs");
  found.bytes = bytes;
  return found;
}

}  // namespace

bool is_history(std::string_view name) noexcept {
  return name.starts_with("history") && name.ends_with(".jsonl") &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

RunPast parse_history(std::string_view lines, const std::string& name) {
  RunPast past;
  std::size_t number = 0;
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    const std::string at = name + ", line " + std::to_string(++number);
    if (end == lines.npos) refuse(at + ": its end is missing");
    const Json line = parse_json(lines.substr(0, end), at, line_limits);
    lines.remove_prefix(end + 1);
    try {
      if (line.contains("losses"))
        std::ranges::move(numbers(line.at("losses")), std::back_inserter(past.losses));
      else if (line.contains("validation"))
        past.validations.push_back(validation_of(line.at("validation")));
      else
        past.epochs.push_back(epoch_of(line.at("epoch")));
    } catch (const nlohmann::json::exception& error) {
      refuse(at + ": is no part of a run's history (" + error.what() + ")");
    } catch (const Error& error) {
      refuse(at + ": " + error.what());
    }
  }
  return past;
}

RunPast read_history(const fs::path& folder, const HistoryMark& mark, bool sums) {
  const fs::path file = folder / mark.file;
  RunPast past;
  if (mark.bytes > 0) {
    const MappedFile found = beginning(file, mark.bytes);
    if (sums && crc32_of({found.memory.get(), found.bytes}) != mark.crc32)
      refuse(file, "is damaged: the checksum of its first " + std::to_string(mark.bytes) + " bytes is wrong");
    past = parse_history({reinterpret_cast<const char*>(found.memory.get()), found.bytes}, file.string());
  }
  if (past.losses.size() != mark.losses || past.epochs.size() != mark.epochs ||
      past.validations.size() != mark.validations)
    refuse(file, "has not as many losses, epochs and validations as a checkpoint says");
  return past;
}

History::History(fs::path folder, const HistoryMark& from) : folder_(std::move(folder)), mark_(from) {
  if (mark_.file.empty()) mark_ = {};
  std::map<std::string, std::uint64_t> needed = needed_in(folder_);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored))
    if (const std::string name = entry.path().filename(); is_history(name) && !needed.contains(name))
      fs::remove(entry.path(), ignored);
  const bool goes_on = !mark_.file.empty() && needed[mark_.file] <= mark_.bytes;
  if (goes_on) return;
  std::size_t number = 0;
  while (fs::exists(fs::symlink_status(folder_ / name_of(number), ignored))) ++number;
  const std::string before = std::exchange(mark_.file, name_of(number));
  if (mark_.bytes == 0) return;
  const MappedFile common = beginning(folder_ / before, mark_.bytes);
  AtomicFile out(folder_ / mark_.file);
  out.write(std::span(common.memory.get(), common.bytes));
  out.commit();
}

std::string History::note(const RunPast& past) {
  std::string lines;
  for (; mark_.losses < past.losses.size();) {
    const std::size_t some = std::min(losses_a_line, past.losses.size() - mark_.losses);
    Ordered values = Ordered::array();
    for (std::size_t i = 0; i < some; ++i) values.push_back(past.losses[mark_.losses++]);
    lines += line_of("losses", std::move(values));
  }
  for (; mark_.validations < past.validations.size(); ++mark_.validations)
    lines += line_of("validation", record_of(past.validations[mark_.validations]));
  for (; mark_.epochs < past.epochs.size(); ++mark_.epochs)
    lines += line_of("epoch", record_of(past.epochs[mark_.epochs]));
  mark_.crc32 = crc32_of(std::as_bytes(std::span(lines)), mark_.crc32);
  mark_.bytes += lines.size();
  return lines;
}

void History::append(const std::string& lines, const HistoryMark& mark_after) const {
  const fs::path file = folder_ / mark_after.file;
  const auto fail = [&](const char* what) {
    throw Error(Code::resource, file.string() + ": cannot be " + what + ": " +
                                    std::error_code(errno, std::system_category()).message() +
                                    "; what was saved before is still there");
  };
  const Descriptor out(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (!out) fail("opened");
  // Later bytes were written by a process that was killed before it wrote the checkpoint that needs them.
  auto at = static_cast<off_t>(mark_after.bytes - lines.size());
  if (::ftruncate(out.fd(), at) != 0) fail("cut");
  for (std::string_view rest = lines; !rest.empty();) {
    const ssize_t written = ::pwrite(out.fd(), rest.data(), rest.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("written");
    at += written;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(out.fd()) != 0) fail("written");
  sync_folder(folder_);
}

}  // namespace tutti::engine
