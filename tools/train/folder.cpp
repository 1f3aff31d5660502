#include "tools/train/folder.hpp"

#include <ctime>
#include <filesystem>
#include <system_error>
#include <vector>

#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* runs = "runs";

}  // namespace

std::string new_run_folder(const std::string& name) {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  ::localtime_r(&now, &local);
  char time[32];
  std::strftime(time, sizeof time, "-%Y%m%d-%H%M%S", &local);
  const std::string folder = (fs::path(runs) / (fs::path(name).stem().string() + time)).string();
  std::string found = folder;
  for (int i = 2; fs::exists(found); ++i) found = folder + "-" + std::to_string(i);
  return found;
}

ClaimedFolder::ClaimedFolder(const std::string& wanted) : path_(wanted) {
  std::error_code failed;
  fs::create_directories(fs::path(wanted).parent_path(), failed);
  for (int i = 2; !failed && !fs::create_directory(path_, failed); ++i) path_ = wanted + "-" + std::to_string(i);
  if (failed)
    throw Error(Code::resource,
                "run=" + path_ + ": cannot be made: " + failed.message() + "; name another folder, or say run=none");
}

ClaimedFolder::~ClaimedFolder() {
  std::error_code not_empty;
  fs::remove(path_, not_empty);
  fs::remove(fs::path(path_).parent_path(), not_empty);
}

std::string newest_run_folder() {
  std::error_code none;
  fs::path newest;
  fs::file_time_type time;
  for (const auto& entry : fs::directory_iterator(runs, none)) {
    if (!fs::exists(entry.path() / "config.yaml", none)) continue;
    const fs::file_time_type written = fs::last_write_time(entry.path() / "config.yaml", none);
    if (newest.empty() || written > time) {
      newest = entry.path();
      time = written;
    }
  }
  return newest.string();
}

std::string of_first_rank(const std::string& text, Communicator& world) {
  std::vector<std::int64_t> length{static_cast<std::int64_t>(text.size())};
  world.broadcast(length, 0).wait();
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  bytes.resize(static_cast<std::size_t>(length[0]));
  world.broadcast(bytes, 0).wait();
  return {bytes.begin(), bytes.end()};
}

}  // namespace tutti::tools
