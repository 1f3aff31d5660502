#include "bindings/mpi/types.hpp"

#include <algorithm>
#include <vector>

#include "bindings/mpi/library.hpp"

namespace tutti::preload {
namespace {

struct Known {
  MPI_Datatype type;
  Sort sort;
  DType dtype;
};
std::vector<Known> known_types;  // ordered by handle

std::optional<DType> dtype_of_sort(Sort sort, int bytes) noexcept {
  switch (sort) {
    case Sort::whole:
      if (bytes == 1) return DType::i8;
      if (bytes == 2) return DType::i16;
      if (bytes == 4) return DType::i32;
      if (bytes == 8) return DType::i64;
      return {};
    case Sort::natural:
      if (bytes == 1) return DType::u8;
      if (bytes == 2) return DType::u16;
      if (bytes == 4) return DType::u32;
      if (bytes == 8) return DType::u64;
      return {};
    case Sort::complex: bytes /= 2; [[fallthrough]];
    case Sort::real:
      if (bytes == 4) return DType::f32;
      if (bytes == 8) return DType::f64;
      return {};
    case Sort::truth:
    case Sort::byte:
      if (bytes == 1) return DType::u8;
      return {};
  }
  return {};
}

const Known* find(MPI_Datatype type) noexcept {
  const auto found = std::ranges::lower_bound(known_types, type, {}, &Known::type);
  return found != known_types.end() && found->type == type ? &*found : nullptr;
}

std::optional<Op> plain_op(MPI_Op op) noexcept {
  for (const Op one : {Op::sum, Op::prod, Op::min, Op::max, Op::band, Op::bor, Op::bxor})
    if (op == op_of(one)) return one;
  return {};
}

std::optional<Op> logical_op(MPI_Op op) noexcept {
  const LogicalOps& logical = library().logical;
  if (op == logical.land) return Op::band;
  if (op == logical.lor) return Op::bor;
  if (op == logical.lxor) return Op::bxor;
  return {};
}

struct Envelope {
  int integers = 0, addresses = 0, combiner = MPI_COMBINER_NAMED;
  bool large = false;  ///< the type has MPI_Count counts, which the functions before MPI 4 cannot return
};

Envelope envelope_of(MPI_Datatype type) {
  Envelope found;
  int types = 0;
  if (library().type_get_envelope_c == nullptr) {
    library().type_get_envelope(type, &found.integers, &found.addresses, &types, &found.combiner);
    return found;
  }
  MPI_Count integers = 0, addresses = 0, counts = 0, inner = 0;
  library().type_get_envelope_c(type, &integers, &addresses, &counts, &inner, &found.combiner);
  found.integers = static_cast<int>(integers);
  found.addresses = static_cast<int>(addresses);
  found.large = counts > 0;
  return found;
}

/// True if the type inside an MPI_Type_dup() or MPI_Type_contiguous() type is contiguous.
bool inner_is_contiguous(MPI_Datatype type, const Envelope& envelope) {
  int count = 0;
  MPI_Aint address = 0;
  MPI_Datatype inner = {};
  library().type_get_contents(type, envelope.integers, envelope.addresses, 1, &count, &address, &inner);
  const bool found = is_contiguous(inner);
  if (envelope_of(inner).combiner != MPI_COMBINER_NAMED) library().type_free(&inner);
  return found;
}

}  // namespace

void note_types(void* handle) {
  known_types.clear();
  for (const PredefinedType& one : predefined_types(handle)) {
    int bytes = 0;
    if (library().type_size(one.type, &bytes) != MPI_SUCCESS) continue;
    if (const auto dtype = dtype_of_sort(one.sort, bytes)) known_types.push_back({one.type, one.sort, *dtype});
  }
  std::ranges::sort(known_types, {}, &Known::type);
}

std::optional<Folding> folding_of(MPI_Datatype type, MPI_Op op) noexcept {
  const Known* const known = find(type);
  if (known == nullptr) return {};
  const std::optional<Op> wanted = known->sort == Sort::truth ? logical_op(op) : plain_op(op);
  if (!wanted) return {};
  const bool bits = *wanted == Op::band || *wanted == Op::bor || *wanted == Op::bxor;
  if (known->sort == Sort::byte && !bits) return {};
  if (known->sort == Sort::complex && *wanted != Op::sum) return {};
  if (!supports(*wanted, known->dtype)) return {};
  return Folding{known->dtype, *wanted, known->sort == Sort::complex ? 2 : 1};
}

// MPI has no function to test this. MPI_Pack() of no elements returns an error for a type that is not usable.
bool is_usable(MPI_Datatype type) noexcept {
  if (find(type) != nullptr) return true;
  if (type == library().handles.no_type) return false;
  char nothing = 0, room = 0;
  int position = 0;
  return library().pack(&nothing, 0, type, &room, 1, &position, library().own) == MPI_SUCCESS;
}

bool is_contiguous(MPI_Datatype type) {
  if (find(type) != nullptr) return true;
  const Envelope envelope = envelope_of(type);
  if (envelope.combiner == MPI_COMBINER_NAMED) {
    MPI_Aint lower = 0, extent = 0;
    library().type_get_extent(type, &lower, &extent);
    return lower == 0 && extent == size_of_type(type);
  }
  const bool one_inside = envelope.combiner == MPI_COMBINER_DUP || envelope.combiner == MPI_COMBINER_CONTIGUOUS;
  return one_inside && !envelope.large && inner_is_contiguous(type, envelope);
}

std::int64_t size_of_type(MPI_Datatype type) {
  int bytes = 0;
  library().type_size(type, &bytes);
  return bytes;
}

std::int64_t extent_of_type(MPI_Datatype type) {
  MPI_Aint lower = 0, extent = 0;
  library().type_get_extent(type, &lower, &extent);
  return extent;
}

}  // namespace tutti::preload
