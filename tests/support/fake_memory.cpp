// Memory of the fake accelerator. It is mapped twice: at an inaccessible address, which callers know, and at an address
// that the streams' tasks use.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "tests/support/fake_accelerator.hpp"
#include "tests/support/fake_stream.hpp"
#include "tutti/memory.hpp"

namespace tutti::testing {
namespace {

// The contents of a handle: a file of a living process.
struct FileOf {
  char magic[8] = {'t', 'u', 't', 't', 'i', 'f', 'k', 'e'};
  std::int32_t process = 0, fd = -1;
  std::uint64_t inode = 0, base = 0, bytes = 0;
};

std::uint64_t inode_of(int fd) {
  struct stat about {};
  return ::fstat(fd, &about) == 0 ? about.st_ino : 0;
}

int make_file(std::size_t bytes) {
  const int fd = ::memfd_create("fake device memory", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    throw Error(Code::resource, "no memory for the fake device: " + std::string(std::strerror(errno)));
  return fd;
}

std::byte* map(int fd, std::size_t bytes) {
  void* const place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (place == MAP_FAILED) throw Error(Code::resource, "cannot map memory of the fake device");
  return static_cast<std::byte*>(place);
}

FileOf file_of(const std::byte* bytes) {
  FileOf file;
  std::memcpy(&file, bytes, sizeof file);
  return file;
}

int open_file(const FileOf& file) {
  const std::string path = "/proc/" + std::to_string(file.process) + "/fd/" + std::to_string(file.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (std::string_view(file.magic, sizeof file.magic) != "tuttifke" || fd < 0 || inode_of(fd) != file.inode) {
    if (fd >= 0) ::close(fd);
    throw Error(Code::invalid, "the handle's memory is gone; its owner freed it, or has ended");
  }
  return fd;
}

}  // namespace

const FakeAccelerator::Region* FakeAccelerator::find(const void* memory) const {
  const auto* const place = static_cast<const std::byte*>(memory);
  auto after = regions_.upper_bound(place);
  if (after == regions_.begin()) return nullptr;
  const Region& region = std::prev(after)->second;
  return place < region.place.base + region.place.bytes ? &region : nullptr;
}

Device FakeAccelerator::device_of(const void* memory) const {
  const std::lock_guard lock(mutex_);
  const Region* const region = find(memory);
  return region == nullptr ? Device{} : Device{Device::Kind::cuda, region->device};
}

// Returns the lowest free addresses, so that freed ones are used again soon, also by allocations of other sizes.
std::byte* FakeAccelerator::reserve(std::size_t bytes) {
  constexpr std::size_t all = std::size_t{64} << 30;
  if (addresses_ == nullptr) {
    void* const base = ::mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) throw Error(Code::resource, "no addresses for the fake device");
    addresses_ = static_cast<std::byte*>(base);
  }
  std::byte* free = addresses_;
  for (const auto& [base, region] : regions_) {
    if (region.place.base >= free + bytes) break;
    free = region.place.base + region.place.bytes;
  }
  if (free + bytes > addresses_ + all) throw Error(Code::resource, "no addresses left for the fake device");
  return free;
}

std::byte* FakeAccelerator::add(Region region) {
  const std::lock_guard lock(mutex_);
  region.place.base = reserve(region.place.bytes);
  region.place.id = ++next_id_;
  regions_[region.place.base] = region;
  return region.place.base;
}

// Waits for all tasks on the device's streams, as freeing does on a real device. Other devices may wait for this rank.
void FakeAccelerator::drain(std::optional<int> device) noexcept {
  std::vector<std::shared_ptr<FakeStream>> streams;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, stream] : streams_) streams.push_back(stream);
    for (const auto& stream : default_streams_)
      if (stream) streams.push_back(stream);
  }
  for (const auto& stream : streams)
    if (!device || stream->device() == *device) stream->drain();
}

void FakeAccelerator::free(std::byte* base, bool own) noexcept {
  Region region;
  {
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(base);
    if (found == regions_.end()) return;
    region = found->second;
  }
  drain(region.device);
  if (own) std::memset(region.seen, std::to_integer<int>(poison), region.place.bytes);
  ::munmap(region.seen, region.place.bytes);
  if (region.fd >= 0) ::close(region.fd);
  const std::lock_guard lock(mutex_);
  if (own) used_ -= region.place.bytes;
  regions_.erase(base);
}

std::shared_ptr<void> FakeAccelerator::allocate(int device, std::size_t bytes) {
  check(device);
  const std::size_t whole = whole_pages(bytes);
  {
    const std::lock_guard lock(mutex_);
    if (used_ + whole > allowed_)
      throw Error(Code::resource, "device " + std::to_string(device) + " has no " + size_text(whole) +
                                      " left; free memory there, or use smaller buffers");
    used_ += whole;
  }
  const int fd = make_file(whole);
  Region region;
  region.place.bytes = whole;
  region.device = device;
  region.fd = fd;
  region.seen = map(fd, whole);
  std::memset(region.seen, 0xcc, whole);  // a value for bytes that were never written
  return {add(region), [this](void* base) { free(static_cast<std::byte*>(base), true); }};
}

std::shared_ptr<void> FakeAccelerator::allocate_pinned(std::size_t bytes) {
  pinned_ += bytes;
  return {::operator new(std::max<std::size_t>(bytes, 1), std::align_val_t(4096)), [this, bytes](void* memory) {
            drain();
            pinned_ -= bytes;
            ::operator delete(memory, std::align_val_t(4096));
          }};
}

std::shared_ptr<void> FakeAccelerator::pin(void* memory, std::size_t bytes) {
  pinned_ += bytes;
  return {memory, [this, bytes](void*) {
            drain();
            pinned_ -= bytes;
          }};
}

// ---- between processes --------------------------------------------------------------------------

Allocated FakeAccelerator::allocation_of(const void* memory) const {
  const std::lock_guard lock(mutex_);
  if (const Region* const region = find(memory)) return region->place;
  throw Error(Code::invalid, "the address is not in memory of a device");
}

MemoryHandle FakeAccelerator::share(const Allocated& allocation) {
  const std::lock_guard lock(mutex_);
  const Region* const region = find(allocation.base);
  if (region == nullptr || region->fd < 0)
    throw Error(Code::invalid, "only memory that this process allocated can be shared");
  FileOf file;
  file.process = ::getpid();
  file.fd = region->fd;
  file.inode = inode_of(region->fd);
  file.base = reinterpret_cast<std::uintptr_t>(region->place.base);
  file.bytes = region->place.bytes;
  MemoryHandle handle;
  std::memcpy(handle.bytes.data(), &file, sizeof file);
  return handle;
}

std::byte* FakeAccelerator::open(const MemoryHandle& handle, int device) {
  check(device);
  const FileOf file = file_of(handle.bytes.data());
  if (file.process == ::getpid())
    throw Error(Code::invalid, "a handle is opened by another process than the one that made it");
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [base, one] : regions_)
      if (one.owner == file.process && one.theirs < file.base + file.bytes && file.base < one.theirs + one.place.bytes)
        throw Error(Code::invalid, "the handle's memory, or what was at its addresses before, is open already");
  }
  const int fd = open_file(file);
  Region region;
  region.place.bytes = file.bytes;
  region.device = device;
  region.seen = map(fd, file.bytes);
  region.owner = file.process;
  region.theirs = file.base;
  ::close(fd);
  return add(region);
}

void FakeAccelerator::close(std::byte* base) noexcept { free(base, false); }

bool FakeAccelerator::reach(int device, int peer) {
  check(device);
  check(peer);
  return reaches_;
}

}  // namespace tutti::testing
