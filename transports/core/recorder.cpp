#include "transports/core/recorder.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "transports/core/host.hpp"
#include "transports/core/process.hpp"
#include "transports/core/random.hpp"
#include "tutti/fork.hpp"
#include "tutti/log.hpp"
#include "tutti/memory.hpp"

namespace tutti {
namespace {

constexpr std::size_t slot_bytes = recorded_slot_bytes;

template <std::size_t Size>
void write_text(std::array<char, Size>& into, std::string_view text) noexcept {
  const std::size_t length = std::min(text.size(), Size - 1);
  if (length > 0) std::memcpy(into.data(), text.data(), length);
  std::memset(into.data() + length, 0, Size - length);
}

// A text that can be part of a file name.
std::string as_file_name(std::string_view text) {
  std::string name(text.substr(0, 100));
  for (char& c : name)
    if ((c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '.') c = '_';
  return name;
}

Descriptor named_file(const std::string& folder, const std::string& job) {
  const std::string path =
      folder + "/" + std::string(recorder_name) + "." + as_file_name(job) + "." + as_file_name(host_name()) + ".";
  for (int number = 0; number < 10'000; ++number) {
    const int fd = ::open((path + std::to_string(number)).c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) return Descriptor(fd);
    if (errno != EEXIST) break;
  }
  throw Error(Code::invalid, "the recorder cannot make a file in '" + folder + "' (" + std::strerror(errno) +
                                 "): make that folder, or set TUTTI_RECORDER=on");
}

Descriptor unlinked_file() {
  for (const char* const folder : {"/dev/shm", "/tmp"}) {
    std::uint64_t number = 0;
    fill_random(&number, sizeof number);
    const std::string path = std::string(folder) + "/" + std::string(recorder_name) + "." + std::to_string(number);
    const int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) continue;
    ::unlink(path.c_str());
    return Descriptor(fd);
  }
  return {};
}

RecordedRank* map_slot(int file, int slot) noexcept {
  void* const memory = ::mmap(nullptr, slot_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                              static_cast<off_t>(slot) * static_cast<off_t>(slot_bytes));
  if (memory == MAP_FAILED) return nullptr;
  if (reserve_pages(file, static_cast<std::size_t>(slot) * slot_bytes, memory, slot_bytes) != 0) {
    ::munmap(memory, slot_bytes);
    return nullptr;
  }
  ::madvise(memory, slot_bytes, MADV_DONTFORK);
  return static_cast<RecordedRank*>(memory);
}

std::mutex tables_mutex;  // guards the tables of groups and texts of all recorders of this process

}  // namespace

Descriptor make_recorder_file(int ranks, const std::string& folder, const std::string& job) {
  const auto bytes = static_cast<off_t>(ranks) * static_cast<off_t>(slot_bytes);
  Descriptor file;
  if (!folder.empty()) {
    file = named_file(folder, job);
  } else {
    file = Descriptor(::memfd_create(recorder_name.data(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file) file = unlinked_file();
  }
  if (!file || ::ftruncate(file.fd(), bytes) != 0)
    throw Error(Code::resource, std::string("the recorder's memory is refused: ") + std::strerror(errno));
  ::fcntl(file.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);  // fails for an ordinary file
  return file;
}

bool clear_recorder_slot(int file, int slot) noexcept {
  const auto begin = static_cast<off_t>(slot) * static_cast<off_t>(slot_bytes);
  if (::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, static_cast<off_t>(slot_bytes)) == 0)
    return true;
  static constexpr std::array<char, 65536> zeros{};
  for (std::size_t done = 0; done < slot_bytes; done += zeros.size())
    if (::pwrite(file, zeros.data(), zeros.size(), begin + static_cast<off_t>(done)) !=
        static_cast<ssize_t>(zeros.size()))
      return false;
  return true;
}

// Claims this rank's slot of the memory that `tutti run` has passed on. Null if there is none, or if another process of
// the rank has claimed it.
std::unique_ptr<Recorder> Recorder::adopt(const Owner& owner) {
  const char* const number = std::getenv(recorder_variable);
  if (number == nullptr || owner.slot < 0) return nullptr;
  char* end = nullptr;
  const long fd = std::strtol(number, &end, 10);
  struct stat status = {};
  if (end == number || *end != '\0' || fd < 3 || fd > 1 << 20 || ::fstat(static_cast<int>(fd), &status) != 0 ||
      !S_ISREG(status.st_mode) || status.st_size < (owner.slot + 1) * static_cast<off_t>(slot_bytes))
    return nullptr;
  Descriptor file(::fcntl(static_cast<int>(fd), F_DUPFD_CLOEXEC, 3));
  RecordedRank* const memory = file ? map_slot(file.fd(), owner.slot) : nullptr;
  if (memory == nullptr) return nullptr;
  std::int64_t nobody = 0;
  if (memory->pid.compare_exchange_strong(nobody, ::getpid())) {
    ::fcntl(static_cast<int>(fd), F_SETFD, FD_CLOEXEC);  // programs that this rank starts are no ranks
    return std::unique_ptr<Recorder>(new Recorder(std::move(file), *memory, owner));
  }
  ::munmap(memory, slot_bytes);
  return nullptr;
}

std::unique_ptr<Recorder> Recorder::make(std::string_view setting, const Owner& owner) {
  if (setting == "off") return nullptr;
  try {
    if (auto adopted = adopt(owner)) return adopted;
    const std::string folder(setting == "on" ? "" : setting);
    Descriptor file = make_recorder_file(1, folder, owner.job + ".rank" + std::to_string(owner.rank));
    RecordedRank* const memory = map_slot(file.fd(), 0);
    if (memory == nullptr) throw Error(Code::resource, "there is no memory for the recorder");
    memory->pid.store(::getpid());
    return std::unique_ptr<Recorder>(new Recorder(std::move(file), *memory, owner));
  } catch (const Error& error) {
    if (error.code() == Code::invalid) throw;
    log(LogLevel::info, std::string(error.what()) + "; this rank's calls are not recorded", owner.rank);
    return nullptr;
  }
}

Recorder::Recorder(Descriptor file, RecordedRank& memory, const Owner& owner)
    : file_(std::move(file)), memory_(&memory), generation_(fork_generation()) {
  memory.version = RecordedRank::is_version;
  memory.bytes = slot_bytes;
  memory.started = process_start(::getpid());
  memory.rank = owner.rank;
  memory.size = owner.size;
  write_text(memory.host, host_name());
  write_text(memory.machine, machine_identity());
  write_text(memory.job, owner.job);
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  const std::string_view program(path.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  write_text(memory.program, program.substr(program.find_last_of('/') + 1));
  memory.tick_at = ticks();
  memory.real_at = real_time();
  memory.magic.store(RecordedRank::is_magic, std::memory_order_release);
}

Recorder::~Recorder() {
  if (fork_generation() != generation_) return;  // in a forked child, which does not have the memory
  memory_->stage.store(static_cast<std::uint32_t>(Stage::ended));
  ::munmap(memory_, slot_bytes);
}

Record* Recorder::next_free() noexcept {
  constexpr std::size_t most_tries = 256;
  for (std::size_t i = 0; i < most_tries; ++i) {
    Record& record = memory_->records[place_];
    place_ = (place_ + 1) % RecordedRank::records_in_ring;
    if (!runs(record)) return &record;
  }
  memory_->lost.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

void Recorder::arrived(Record& record) noexcept {
  stamp(&record);
  const std::uint64_t passed = (ticks() - record.launched.load(std::memory_order_relaxed)) / Record::ticks_of_first;
  record.first.store(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(passed, 1, 0xffffffffu)),
                     std::memory_order_relaxed);
}

void Recorder::set_stage(Stage stage, std::string_view doing) noexcept {
  memory_->doing_version.fetch_add(1);
  write_text(memory_->doing, doing);
  memory_->doing_version.fetch_add(1);
  memory_->stage.store(static_cast<std::uint32_t>(stage));
  memory_->staged_at.store(ticks());
}

void Recorder::looked() noexcept {
  const std::uint64_t now = ticks(), real = real_time();
  memory_->looked_at.store(now, std::memory_order_relaxed);
  if (real <= memory_->real_at) return;  // the clock was set back
  const double seconds = 1e-9 * static_cast<double>(real - memory_->real_at);
  memory_->per_second.store(static_cast<std::uint64_t>(static_cast<double>(now - memory_->tick_at) / seconds),
                            std::memory_order_relaxed);
}

void Recorder::begin_wait(const Record* record) noexcept {
  memory_->waits_for.store(record != nullptr ? record->number.load(std::memory_order_relaxed) : 0);
  memory_->waiters.fetch_add(1);
}

void Recorder::failed(const Cause& why) noexcept {
  static_assert(sizeof why <= sizeof memory_->failure);
  if (memory_->failure_version.load() != 0) return;
  memory_->failure_version.store(1);
  std::memcpy(memory_->failure.data(), &why, sizeof why);
  memory_->failure_version.store(2);
}

// ---- tables -------------------------------------------------------------------------------------

int Recorder::add_group(const RecordedMembers& group, std::string_view name) noexcept {
  const std::lock_guard lock(tables_mutex);
  auto& groups = memory_->groups;
  const auto free = std::ranges::find_if(groups, [](const RecordedGroup& one) { return one.id.load() == 0; });
  if (free == groups.end()) return -1;
  free->made.store(ticks());
  free->rank.store(group.rank);
  free->size.store(group.size);
  free->first.store(group.first);
  free->stride.store(group.stride);
  write_text(free->name, name);
  free->id.store(group.id, std::memory_order_release);
  return static_cast<int>(free - groups.begin());
}

void Recorder::name_group(int entry, std::string_view name) noexcept {
  if (entry < 0) return;
  const std::lock_guard lock(tables_mutex);
  write_text(memory_->groups[static_cast<std::size_t>(entry)].name, name);
}

void Recorder::drop_group(int entry) noexcept {
  if (entry < 0 || fork_generation() != generation_) return;
  const std::lock_guard lock(tables_mutex);
  memory_->groups[static_cast<std::size_t>(entry)].id.store(0);
}

std::uint8_t Recorder::text(std::string_view text) noexcept {
  const std::lock_guard lock(tables_mutex);
  auto& texts = memory_->texts;
  text = text.substr(0, texts[0].size() - 1);
  for (std::size_t i = 1; i < texts.size(); ++i) {
    if (texts[i][0] == '\0') write_text(texts[i], text);
    if (std::string_view(texts[i].data()) == text) return static_cast<std::uint8_t>(i);
  }
  return 0;
}

}  // namespace tutti
