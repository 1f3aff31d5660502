#include "tests/fuzz/door.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "transports/core/printable.hpp"
#include "tutti/status.hpp"

// AddressSanitizer's malloc() must return null for impossible sizes, as an ordinary malloc() does. C libraries ask for
// such sizes when a file contains them.
extern "C" const char* __asan_default_options();
const char* __asan_default_options() { return "allocator_may_return_null=1:quarantine_size_mb=64"; }

namespace tutti::fuzz {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "tutti-fuzz-XXXXXX").string();
    if (!mkdtemp(name.data())) fail("no folder for inputs can be made in " + name);
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

}  // namespace

void fail(const std::string& what) {
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

bool refuses(const std::function<void()>& open, std::string_view name) {
  try {
    open();
    return false;
  } catch (const Error& error) {
    const std::string text = error.what();
    expect(!text.empty() && text == printable(text, text.size()), "a message is no printable line: '" + text + "'");
    expect(text.find(name) != text.npos, "a message does not name " + std::string(name) + ": '" + text + "'");
    return true;
  }
}

const fs::path& folder() {
  static const Folder one;
  return one.path;
}

void write(const fs::path& file, Input input) {
  // Does not use O_TRUNC: after a truncation, file systems write the new content to the disk at once.
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  std::size_t written = 0;
  while (fd >= 0 && written < input.size()) {
    const ssize_t part = ::write(fd, input.data() + written, input.size() - written);
    if (part <= 0) break;
    written += static_cast<std::size_t>(part);
  }
  const bool whole = fd >= 0 && written == input.size() && ftruncate(fd, static_cast<off_t>(written)) == 0;
  if (!whole || close(fd) != 0) fail(file.string() + " cannot be written");
}

fs::path file_with(Input input, const std::string& ending) {
  static std::map<std::string, fs::path> files;
  fs::path& file = files[ending];
  if (file.empty()) file = folder() / ("input" + ending);
  write(file, input);
  return file;
}

}  // namespace tutti::fuzz
