// Plans: how much memory a schedule takes on a rank, and how many messages it sends.
#include <algorithm>
#include <chrono>
#include <deque>
#include <numeric>

#include "benchmarks/growth/jobs.hpp"
#include "benchmarks/growth/law.hpp"
#include "collectives/plan/footprint.hpp"
#include "collectives/plan/plans.hpp"
#include "tutti/topology.hpp"

namespace tutti::growth {
namespace {

Hosts hosts_of(int size) {
  std::vector<int> host(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) host[static_cast<std::size_t>(rank)] = rank / ranks_of_a_host;
  return {host, size};
}

/// The greatest value of `figure` over all algorithms that support the shape.
template <class Figure>
double greatest(std::int64_t size, Figure figure) {
  const auto ranks = static_cast<int>(size);
  const Hosts hosts = hosts_of(ranks);
  double most = 0;
  for (const Algorithm* const one : catalog()) {
    const Shape shape{.rank = ranks / 3, .size = ranks, .count = static_cast<std::size_t>(2 * ranks), .hosts = &hosts};
    if (one->fits == nullptr || one->fits(shape)) most = std::max(most, figure(*one, shape));
  }
  return most;
}

double first_bytes(std::int64_t size) {
  return greatest(size, [](const Algorithm& one, const Shape& shape) {
    return static_cast<double>(footprint_of(one, shape).first_bytes);
  });
}

double first_microseconds(std::int64_t size) {
  return greatest(size, [](const Algorithm& one, const Shape& shape) {
    return std::chrono::duration<double, std::micro>(time_to_first_step(one, shape)).count();
  });
}

/// Messages that a rank sends to another one for a block of 64 KiB, by pairwise alltoall.
double messages_of_a_block(std::int64_t size) {
  const auto ranks = static_cast<int>(size);
  const Shape shape{.rank = 0, .size = ranks, .count = std::size_t{16} << 10};
  const Lanes lanes = lanes_of(*find_algorithm(Kind::alltoall, "pairwise"), shape, 4, std::size_t{1} << 20);
  return static_cast<double>(lanes.number);
}

/// Bytes of the schedules that a process keeps after each of its communicators has made calls of 16 shapes.
double bytes_kept(std::int64_t communicators) {
  const Algorithm& ring = *find_algorithm(Kind::allreduce, "ring");
  std::deque<Plans> all(static_cast<std::size_t>(communicators));
  std::size_t bytes = 0;
  for (Plans& plans : all) {
    for (std::size_t count = 1; count <= 16; ++count)
      plans.give_back(plans.take(ring, {.rank = 0, .size = 8, .count = count}));
    bytes += plans.bytes();
  }
  return static_cast<double>(bytes);
}

double bytes_of_hosts(std::int64_t size) {
  return static_cast<double>(hosts_of(static_cast<int>(size)).bytes()) / static_cast<double>(size);
}

}  // namespace

std::vector<Law> plan_laws() {
  const std::vector<std::int64_t> sizes = {64, 1024, 8192, 65536};
  return {
      {"plans", "bytes until a rank's first step, the most of all algorithms", How::function, sizes, first_bytes, 0.05,
       1536},
      {"plans", "microseconds until a rank's first step, the most of all algorithms", How::function, sizes,
       first_microseconds, 0, 50, false},
      {"plans", "bytes of schedules that a process keeps, by communicators", How::function, sizes, bytes_kept, 0.25,
       6 << 20},
      {"plans", "bytes of the table of hosts, for each rank", How::function, sizes, bytes_of_hosts, 0.02, 16},
      {"plans", "messages for a block of 64 KiB (pairwise alltoall)", How::function, sizes, messages_of_a_block, 0.2,
       8},
  };
}

}  // namespace tutti::growth
