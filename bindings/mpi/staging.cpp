#include "bindings/mpi/staging.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "bindings/mpi/failures.hpp"
#include "bindings/mpi/library.hpp"
#include "bindings/mpi/types.hpp"
#include "collectives/runtime/pool.hpp"
#include "tutti/status.hpp"

namespace tutti::preload {

struct Scratch::Block {
  std::unique_ptr<std::byte[]> memory;
  std::size_t capacity = 0;
};

namespace {

constexpr std::size_t most_kept = std::size_t{16} << 20;

Pool<Scratch::Block>& pool() {
  static auto& all = *new Pool<Scratch::Block>;  // never destroyed: requests may complete while the process exits
  return all;
}

/// Maximum number of bytes per MPI_Pack or MPI_Unpack, because their positions are ints.
constexpr std::int64_t most_packed = std::int64_t{1} << 30;

const Part& with_usable_type(const Part& part) {
  if (!is_usable(part.type)) throw BadArgument(MPI_ERR_TYPE, "a datatype is none, or is not committed");
  return part;
}

void check_packed(int result, std::int64_t moved, std::int64_t expected) {
  if (result != MPI_SUCCESS || moved != expected)
    throw Error(Code::unsupported, "MPI packed " + std::to_string(moved) + " bytes of a derived type instead of " +
                                       std::to_string(expected) + "; leave the program to MPI alone");
}

}  // namespace

// Delegates to another constructor, so that the destructor runs if this constructor throws.
Scratch::Scratch(std::size_t bytes) : Scratch() {
  block_ = pool().take();
  if (block_->capacity >= bytes) return;
  *block_ = {};
  block_->memory.reset(new (std::nothrow) std::byte[bytes]);
  if (block_->memory == nullptr)
    throw Error(Code::resource, "there is no memory for a copy of " + std::to_string(bytes) + " bytes");
  block_->capacity = bytes;
}
Scratch::Scratch(Scratch&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
Scratch& Scratch::operator=(Scratch&& other) noexcept {
  std::swap(block_, other.block_);
  return *this;
}
Scratch::~Scratch() {
  if (block_ == nullptr) return;
  if (block_->capacity > most_kept) *block_ = {};
  pool().give(block_);
}
std::byte* Scratch::data() const noexcept { return block_ != nullptr ? block_->memory.get() : nullptr; }

Side::Side(const Part& part, int blocks)
    : part_(with_usable_type(part)),
      size_(static_cast<std::size_t>(size_of_type(part.type))),
      extent_(extent_of_type(part.type)),
      contiguous_(is_contiguous(part.type)) {
  for (int i = 0; i < blocks; ++i) {
    const std::int64_t count = part.counts.empty() ? part.count : part.counts[i];
    if (count < 0) throw BadArgument(MPI_ERR_COUNT, "a count is negative: " + std::to_string(count));
    counts_.push_back(count);
    displs_.push_back(part.displs.empty() ? i * part.count : part.displs[i]);
    blocks_.push_back(static_cast<std::size_t>(count) * size_);
  }
  total_ = std::accumulate(blocks_.begin(), blocks_.end(), std::size_t{0});
  check_places();
  if (part_.data == nullptr && !contiguous_ && total_ > 0) give_address();
  direct_ = is_direct();
  if (!direct_) copy_ = Scratch(total_);
}

Side::~Side() {
  if (holds_type_) library().type_free(&part_.type);
}

// Makes a contiguous type of one element. MPI_Type_dup() is not used: it would call the program's functions that copy
// attributes.
void Side::hold_type() {
  if (direct_ || contiguous_ || holds_type_) return;
  MPI_Datatype same{};
  const int created = library().type_contiguous(1, part_.type, &same);
  hold(created, same);
}

void Side::hold(int created, MPI_Datatype type) {
  if (created != MPI_SUCCESS || library().type_commit(&type) != MPI_SUCCESS)
    throw Error(Code::unsupported, "MPI cannot make a datatype of another one");
  part_.type = type;
  holds_type_ = true;
}

// With MPI_BOTTOM, which is null, a type contains absolute addresses. MPICH's MPI_Pack() refuses a null address, so the
// type is replaced by one with addresses relative to `origin`.
void Side::give_address() {
  static char origin = 0;
  const int one = 1;
  MPI_Aint away = 0;
  library().get_address(&origin, &away);
  away = -away;
  MPI_Datatype moved{};
  const int created = library().type_create_hindexed(1, &one, &away, part_.type, &moved);
  hold(created, moved);
  part_.data = &origin;
}

void Side::check_places() const {
  if (part_.data == MPI_IN_PLACE) throw BadArgument(MPI_ERR_BUFFER, "MPI_IN_PLACE is not allowed for this buffer");
  if (!contiguous_) return;  // a null address is correct if the type contains absolute addresses
  for (int i = 0; i < static_cast<int>(blocks_.size()); ++i)
    if (blocks_[static_cast<std::size_t>(i)] > 0 && place_of(i) == nullptr)
      throw BadArgument(MPI_ERR_BUFFER, "a buffer is null");
}

std::byte* Side::place_of(int block) const noexcept {
  const std::int64_t away = displs_[static_cast<std::size_t>(block)] * extent_;
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::intptr_t>(part_.data) + away);
}

std::size_t Side::offset_of(int block) const noexcept {
  return std::accumulate(blocks_.begin(), blocks_.begin() + block, std::size_t{0});
}

bool Side::is_direct() noexcept {
  direct_data_ = static_cast<std::byte*>(part_.data);
  if (total_ == 0) return true;
  if (!contiguous_) return false;
  std::byte* next = nullptr;
  for (int i = 0; i < static_cast<int>(blocks_.size()); ++i) {
    const std::size_t bytes = blocks_[static_cast<std::size_t>(i)];
    if (bytes == 0) continue;
    std::byte* const place = place_of(i);
    if (next == nullptr) direct_data_ = place;
    if (next != nullptr && place != next) return false;
    next = place + bytes;
  }
  return true;
}

template <class Move>
void Side::in_runs(int block, const Move& move) const {
  std::byte* elements = place_of(block);
  const auto size = static_cast<std::int64_t>(size_), at_once = std::max<std::int64_t>(most_packed / size, 1);
  std::size_t packed = 0;
  for (std::int64_t left = counts_[static_cast<std::size_t>(block)]; left > 0;) {
    const std::int64_t n = std::min(left, at_once), bytes = n * size;
    int position = 0;
    const int room = static_cast<int>(std::min<std::int64_t>(bytes, std::numeric_limits<int>::max()));
    const int result = move(elements, packed, static_cast<int>(n), room, &position);
    check_packed(result, position, bytes);
    elements += n * extent_;
    packed += static_cast<std::size_t>(bytes);
    left -= n;
  }
}

void Side::pack(int block, std::byte* into) const {
  const std::size_t bytes = blocks_[static_cast<std::size_t>(block)];
  if (bytes == 0) return;
  if (contiguous_) {
    std::memcpy(into, place_of(block), bytes);
    return;
  }
  in_runs(block, [&](const std::byte* elements, std::size_t at, int n, int room, int* position) {
    return library().pack(elements, n, part_.type, into + at, room, position, library().own);
  });
}

void Side::unpack(int block, const std::byte* from) const {
  const std::size_t bytes = blocks_[static_cast<std::size_t>(block)];
  if (bytes == 0) return;
  if (contiguous_) {
    std::memcpy(place_of(block), from, bytes);
    return;
  }
  in_runs(block, [&](std::byte* elements, std::size_t at, int n, int room, int* position) {
    return library().unpack(from + at, room, position, elements, n, part_.type, library().own);
  });
}

void Side::load(int block) {
  if (!direct_) pack(block, copy_.data() + offset_of(block));
}
void Side::load() {
  if (!direct_) copy_out(copy_.data());
}
void Side::store() {
  if (!direct_) copy_in(copy_.data());
}

void Side::copy_out(std::byte* copy) const {
  for (int i = 0; i < static_cast<int>(blocks_.size()); copy += blocks_[static_cast<std::size_t>(i)], ++i)
    pack(i, copy);
}
void Side::copy_in(const std::byte* copy) const {
  for (int i = 0; i < static_cast<int>(blocks_.size()); copy += blocks_[static_cast<std::size_t>(i)], ++i)
    unpack(i, copy);
}

}  // namespace tutti::preload
