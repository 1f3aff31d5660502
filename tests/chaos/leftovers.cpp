#include "tests/chaos/leftovers.hpp"

#include <chrono>
#include <filesystem>
#include <thread>

namespace tutti::testing {
namespace {

namespace fs = std::filesystem;

std::size_t entries(const char* folder) {
  std::size_t count = 0;
  std::error_code ignored;
  for (fs::directory_iterator one(folder, ignored), end; one != end; one.increment(ignored)) ++count;
  return count;
}

// Lists what the descriptors are, for a report.
std::string open_descriptors() {
  std::string list;
  std::error_code ignored;
  for (fs::directory_iterator one("/proc/self/fd", ignored), end; one != end; one.increment(ignored))
    list += " " + one->path().filename().string() + "=" + fs::read_symlink(one->path(), ignored).string();
  return list;
}

std::string difference(const Holdings& before, const Holdings& now) {
  std::string text;
  if (now.descriptors > before.descriptors)
    text += std::to_string(now.descriptors - before.descriptors) + " descriptors are left open:" + open_descriptors();
  if (now.threads > before.threads)
    text += (text.empty() ? "" : "; ") + std::to_string(now.threads - before.threads) + " threads are left";
  for (const std::string& name : now.shared)
    if (!before.shared.contains(name)) text += (text.empty() ? "" : "; ") + ("/dev/shm/" + name + " is left");
  return text;
}

}  // namespace

Holdings holdings() {
  Holdings now;
  now.descriptors = entries("/proc/self/fd");
  now.threads = entries("/proc/self/task");
  std::error_code ignored;
  for (fs::directory_iterator one("/dev/shm", ignored), end; one != end; one.increment(ignored))
    if (const std::string name = one->path().filename(); name.starts_with("tutti")) now.shared.insert(name);
  return now;
}

std::string left_beyond(const Holdings& before) {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text = difference(before, holdings());
    if (text.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return text;
}

}  // namespace tutti::testing
