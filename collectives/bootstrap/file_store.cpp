// A store in a folder, with one file per key.
//
// A value is written to a temporary file, which is then renamed (set) or linked (set_once) to its name, so readers
// never see a partial value and exactly one set_once wins. Counters are updated under flock. A waiter polls at growing
// intervals, because inotify does not report changes made by other hosts on a network file system. A poll reads the
// folder's modification time, one request however many keys the waiter waits for; only if that time has changed the
// waiter reads the keys.
//
// The folder must belong to the user, and no other user may write to it, because its values decide which processes are
// trusted. In addition, opening a file never follows a link and never blocks on a pipe.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "collectives/bootstrap/store_rules.hpp"
#include "collectives/bootstrap/watching_store.hpp"
#include "transports/core/descriptor.hpp"
#include "transports/core/host.hpp"
#include "transports/core/sha256.hpp"
#include "tutti/log.hpp"
#include "tutti/store.hpp"

namespace tutti {
namespace {

constexpr std::size_t longest_host = 4096;  // bytes of the line with the host before a value of set_at_end()
constexpr Seconds first_nap(0.0001), longest_nap(0.01);
constexpr Seconds look_interval(0.2);  // how often a waiter checks whether a later key will not be set any more

std::string hex(ConstBytes bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

/// The file name for a key: "k-" and the key, with characters other than letters, digits, '-' and '_' as ".2f"; or
/// "h-" and the key's SHA-256 if that would be too long.
std::string file_name(std::string_view key) {
  constexpr std::size_t longest_name = 200;
  std::string name = "k-";
  for (const char c : key) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (plain) {
      name += c;
    } else {
      const std::byte b{static_cast<unsigned char>(c)};
      name += "." + hex({&b, 1});
    }
  }
  if (name.size() <= longest_name) return name;
  return "h-" + hex(sha256(std::as_bytes(std::span(key))));
}

/// Opens a regular file of a store. Fails for a link with errno ELOOP, and for anything else that is no regular file
/// with EINVAL.
Descriptor open_file(const std::string& path, int flags) {
  Descriptor file(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600));
  struct stat about {};
  if (file && (fstat(file.fd(), &about) != 0 || !S_ISREG(about.st_mode))) {
    file.reset();
    errno = EINVAL;
  }
  return file;
}

/// Creates the folder, with access for this user only, if it does not exist. Throws Error{resource} if that fails, and
/// Error{invalid} if the folder belongs to another user or others may write to it.
void own_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path whole = fs::path(folder).lexically_normal();
  const fs::path parent = (whole.has_filename() ? whole : whole.parent_path()).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  if (!error && mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    error = std::error_code(errno, std::generic_category());
  struct stat about {};
  if (!error && stat(folder.c_str(), &about) != 0) error = std::error_code(errno, std::generic_category());
  if (!error && !S_ISDIR(about.st_mode)) error = std::make_error_code(std::errc::not_a_directory);
  if (error) throw Error(Code::resource, "cannot make the folder " + folder + " for the store: " + error.message());
  const auto distrust = [&](const std::string& why) {
    throw Error(Code::invalid, "the folder " + folder + " is not to be trusted as a store: " + why);
  };
  if (about.st_uid != geteuid())
    distrust("it belongs to user id " + std::to_string(about.st_uid) + "; name a folder of your own");
  if ((about.st_mode & (S_IWOTH | S_IWGRP)) == 0) return;
  const bool is_for_all = (about.st_mode & S_ISVTX) != 0;  // such as /tmp
  distrust("other users may write to it; " +
           (is_for_all ? "name a folder in it that is not there yet, such as " + folder + "/job"
                       : "say chmod go-w " + folder + ", or name a folder that is not there yet"));
}

class FileStore final : public WatchingStore {
 public:
  explicit FileStore(std::string folder) : folder_(std::move(folder)), place_("the store in " + folder_) {
    own_folder(folder_);
    if (access(folder_.c_str(), R_OK | W_OK | X_OK) != 0) fail("use", "", Code::resource);
  }

  void set(std::string_view key, std::string_view value) override {
    store_rules::check(key, value);
    const Draft draft(*this, key, value);
    if (rename(draft.path().c_str(), path(key).c_str()) != 0) fail("set", key);
  }

  bool find(std::string_view key, std::string& value) override {
    const Descriptor file = open_file(path(key), O_RDONLY);
    if (file) {
      value = contents(file, key);
      return true;
    }
    if (errno != ENOENT) fail("read", key);
    return find_at_end(key, value);
  }

  std::int64_t add(std::string_view key, std::int64_t amount) override {
    store_rules::check(key);
    const Descriptor lock = open_file(folder_ + "/lock", O_RDWR | O_CREAT);
    if (!lock) fail("lock", key);
    while (flock(lock.fd(), LOCK_EX) != 0)
      if (errno != EINTR) fail("lock", key);
    std::string text;
    find(key, text);
    const std::int64_t sum = store_rules::added(text, amount, key, place_);
    set(key, std::to_string(sum));
    return sum;
  }

  std::string set_once(std::string_view key, std::string_view value) override {
    store_rules::check(key, value);
    const Draft draft(*this, key, value);
    std::string standing;
    for (;;) {
      if (link(draft.path().c_str(), path(key).c_str()) == 0) return std::string(value);
      if (errno != EEXIST) fail("set", key);
      if (find(key, standing)) return standing;  // otherwise it was erased in between
    }
  }

  /// Writes a line with this host's identity, and the value, to a file that this process keeps locked. The kernel
  /// unlocks the file when the process ends. If files in the folder cannot be locked, the end of the process is not
  /// reported.
  void set_at_end(std::string_view key, std::string_view value) override {
    store_rules::check(key, value);
    const Draft draft(*this, key, host_ + "\n" + std::string(value));
    Descriptor file = open_file(draft.path(), O_RDWR);  // over NFS an exclusive lock needs a file open for writing
    if (!file) fail("set", key);
    if (flock(file.fd(), LOCK_EX | LOCK_NB) != 0) {
      log(LogLevel::debug, "files in " + folder_ + " cannot be locked (" + std::strerror(errno) +
                               "), so other ranks will not see from there that this one has ended");
      return;
    }
    if (rename(draft.path().c_str(), end_path(key).c_str()) != 0) fail("set", key);
    const std::lock_guard lock(mutex_);
    at_end_.push_back(std::move(file));
  }

  void erase(std::string_view key) override {
    if (unlink(path(key).c_str()) != 0 && errno != ENOENT) fail("erase", key);
  }

 private:
  /// A temporary file with the value, not yet linked to its name.
  class Draft {
   public:
    Draft(const FileStore& store, std::string_view key, std::string_view value)
        : path_(store.folder_ + "/draft-XXXXXX") {
      const Descriptor file(mkostemp(path_.data(), O_CLOEXEC));
      if (!file) store.fail("write", key);
      while (!value.empty()) {
        const ssize_t n = write(file.fd(), value.data(), value.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
          const int why = errno;
          unlink(path_.c_str());
          errno = why;
          store.fail("write", key, Code::resource);
        }
        value.remove_prefix(static_cast<std::size_t>(n));
      }
    }
    Draft(const Draft&) = delete;
    Draft& operator=(const Draft&) = delete;
    ~Draft() { unlink(path_.c_str()); }
    const std::string& path() const noexcept { return path_; }

   private:
    std::string path_;
  };

  std::string wait_for_first(std::span<const Awaited> keys, Deadline started, Deadline until) override {
    const std::string& key = keys.front().key;
    std::string value;
    FolderWatch watch(*this, key);
    Deadline next_look = deadline_in(look_interval);
    for (Seconds nap = first_nap;; nap = std::min(2 * nap, longest_nap)) {
      const Deadline now = Clock::now();
      const bool last = now >= until, all = now >= next_look;
      if (watch.may_have_changed() || last || all) {
        if (find(key, value)) return value;
        throw_if_departed(keys.front());
      }
      if (last) throw store_rules::timed_out(key, place_, started);
      if (all) {  // the end of a process does not change the folder
        for (const Awaited& later : keys.subspan(1)) throw_if_departed(later);
        next_look = deadline_in(look_interval);
      }
      const auto step = std::chrono::duration_cast<Clock::duration>(nap);
      std::this_thread::sleep_for(std::min(until - now, step));
    }
  }

  /// Detects changes of the folder's entries by its modification time. A file system's clock moves in steps of up to
  /// 10 ms, so two changes may have the same time. For 30 ms after a change another one counts as possible.
  class FolderWatch {
   public:
    FolderWatch(const FileStore& store, std::string_view key) : store_(store), key_(key) {}
    bool may_have_changed() {
      struct stat about {};
      if (stat(store_.folder_.c_str(), &about) != 0) store_.fail("wait for", key_);
      const bool same = about.st_mtim.tv_sec == seen_.tv_sec && about.st_mtim.tv_nsec == seen_.tv_nsec;
      seen_ = about.st_mtim;
      const Deadline now = Clock::now();
      if (!same) certain_ = now + duration_of(Seconds(0.03));
      return now < certain_;
    }

   private:
    const FileStore& store_;
    const std::string_view key_;
    timespec seen_{};
    Deadline certain_{};  // until then a further change may have the same modification time
  };

  void throw_if_departed(const Awaited& one) {
    std::string value, instead;
    if (!one.unless.empty() && find(one.unless, instead) && !find(one.key, value)) throw store_rules::departed(instead);
  }

  /// Returns true if the process that called set_at_end() has ended. Always false for a process of another host,
  /// because a lock that is held there may not be visible here.
  bool find_at_end(std::string_view key, std::string& value) const {
    const Descriptor file = open_file(end_path(key), O_RDONLY);
    if (!file) {
      if (errno == ENOENT) return false;
      fail("read", key);
    }
    const std::string text = contents(file, key);
    const std::size_t line = text.find('\n');
    if (line == text.npos || text.substr(0, line) != host_ || flock(file.fd(), LOCK_SH | LOCK_NB) != 0) return false;
    value = text.substr(line + 1);
    return true;
  }

  std::string contents(const Descriptor& file, std::string_view key) const {
    std::string text;
    char block[16384];
    for (;;) {
      const ssize_t n = read(file.fd(), block, sizeof block);
      if (n == 0) return text;
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("read", key);
      text.append(block, static_cast<std::size_t>(n));
      if (text.size() > store_rules::longest_value + longest_host) {
        errno = EFBIG;
        fail("read", key);
      }
    }
  }

  std::string path(std::string_view key) const { return folder_ + "/" + file_name(key); }
  std::string end_path(std::string_view key) const { return folder_ + "/end-" + file_name(key); }

  /// Throws an Error that describes errno.
  [[noreturn]] void fail(const std::string& verb, std::string_view key, Code code = Code::peer_lost) const {
    const std::error_code why(errno, std::generic_category());
    const std::string what = verb == "use" ? verb : verb + " key " + store_rules::shown(key) + " in";
    std::string hint;
    if (why == std::errc::no_such_file_or_directory) hint = "; was the folder removed while the job ran?";
    if (why == std::errc::too_many_symbolic_link_levels || why == std::errc::invalid_argument) {
      code = Code::invalid;
      hint = "; a link or a pipe is there that this store did not make: name another folder";
    }
    throw Error(code, "cannot " + what + " " + place_ + ": " + why.message() + hint);
  }

  const std::string folder_;
  const std::string place_;
  const std::string host_ = host_identity({});
  std::mutex mutex_;
  std::vector<Descriptor> at_end_;  // locked files of set_at_end()
};

}  // namespace

std::shared_ptr<Store> make_file_store(const std::string& folder) { return std::make_shared<FileStore>(folder); }

}  // namespace tutti
