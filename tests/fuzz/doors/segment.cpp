// The file that the ranks of a host share, as a rank maps it and searches it for what the others have written. The
// input begins with the header; its rest is repeated over lines, failures, indices and rings.
#include "transports/shm/segment.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {
namespace {

constexpr int ranks = 2;
constexpr std::size_t header_bytes = 40, file_bytes = std::size_t{2} << 20;  // without arenas

/// Segment does not copy the file, so the same file is used for all inputs.
int shared_file() {
  static const int fd = [] {
    const int made = memfd_create("fuzz", MFD_CLOEXEC);
    expect(made >= 0 && ftruncate(made, file_bytes) == 0, "no shared memory");
    return made;
  }();
  return fd;
}

void fill(Input input) {
  static std::uint8_t head[std::size_t{64} << 10];
  static auto* const file =
      static_cast<std::uint8_t*>(mmap(nullptr, sizeof head, PROT_READ | PROT_WRITE, MAP_SHARED, shared_file(), 0));
  const std::size_t taken = std::min(input.size(), header_bytes);
  const Input rest = input.subspan(taken);
  std::memset(head, 0, sizeof head);
  if (taken > 0) std::memcpy(head, input.data(), taken);
  for (std::size_t at = header_bytes; !rest.empty() && at < sizeof head; at += rest.size())
    std::memcpy(head + at, rest.data(), std::min(rest.size(), sizeof head - at));
  std::memcpy(file, head, sizeof head);
}

void look_around(shm::Segment& segment) {
  for (std::uint32_t n = 0; n < segment.leavers(); ++n)
    expect(segment.leaver(n) < ranks, "a rank that is none has left");
  shm::PoisonTable poison = segment.poison();
  Cause cause;
  for (int slot = 0; slot < poison.slots(); ++slot)
    if (poison.read(slot, cause)) expect(std::strlen(cause.text) < sizeof cause.text, "a text without an end");
  bool first = false;
  poison.post(cause, 0, first);
  shm::RingReader in = segment.open_reader(0);
  for (int i = 0; i < 3; ++i) {
    const ConstBytes there = in.peek();
    volatile unsigned sum = 0;
    for (const std::byte each : there) sum = sum + std::to_integer<unsigned>(each);
    in.consume(there.size());
  }
  shm::RingWriter out = segment.open_writer(0);
  const std::byte some[100] = {};
  out.put(some);
  out.publish();
  segment.leave();
}

}  // namespace

bool take(Input input) {
  fill(input);
  return !refuses([&] {
    shm::Segment segment(Descriptor(dup(shared_file())), ranks, 1);
    look_around(segment);
  });
}

}  // namespace tutti::fuzz
