// The C functions of an existing communicator: ranks, groups, survival, errors, memory.
#include <algorithm>
#include <climits>

#include "bindings/c/handles.hpp"
#include "transports/core/checked.hpp"
#include "transports/core/layout.hpp"

namespace tutti::c {
namespace {

/// Implements the functions that make a communicator by a member function without arguments.
template <class Maker>
tutti_result make(tutti_comm comm, tutti_comm* made, const Maker& maker) {
  return guarded([&] {
    given(made, "made");
    hand_out(maker(usable(comm, "comm").communicator), made);
  });
}

std::span<const int> listed(const int* ranks, int n) {
  if (n < 1) throw Error(Code::invalid, "n is " + std::to_string(n) + "; a group has 1 rank or more");
  return {given(ranks, "ranks"), static_cast<std::size_t>(n)};
}

/// A call of this kind for explain(), which does not access memory.
Collective sketch(Kind kind, std::size_t count, const bindings::View& view, Reduction op, int size) {
  const auto total = checked_product(count, view.item_bytes() * static_cast<std::size_t>(size));
  if (!total) throw Error(Code::invalid, "count is " + std::to_string(count) + "; no memory holds so many elements");
  const std::size_t block = count * view.elements;
  Collective call;
  call.kind = kind;
  call.in = ConstBuffer(nullptr, block * blocks_in(kind, size), view.dtype);
  call.out = Buffer(nullptr, block * blocks_out(kind, size), view.dtype);
  call.op = op;
  return call;
}

void check_rank(int rank, int size, const char* what) {
  if (rank < 0 || rank >= size)
    throw Error(Code::invalid,
                std::string(what) + " is " + std::to_string(rank) + ", but ranks are 0 to " + std::to_string(size - 1));
}

}  // namespace
}  // namespace tutti::c

using namespace tutti;
using namespace tutti::c;

extern "C" {

tutti_result tutti_comm_rank(tutti_comm comm, int* rank) {
  return guarded([&] { *given(rank, "rank") = usable(comm, "comm").communicator.rank(); });
}

tutti_result tutti_comm_size(tutti_comm comm, int* size) {
  return guarded([&] { *given(size, "size") = usable(comm, "comm").communicator.size(); });
}

tutti_result tutti_comm_world_rank(tutti_comm comm, int i, int* rank) {
  return guarded([&] {
    const Communicator& of = usable(comm, "comm").communicator;
    check_rank(i, of.size(), "i");
    *given(rank, "rank") = of.world_rank(i);
  });
}

tutti_result tutti_comm_split(tutti_comm comm, int color, int key, tutti_comm* made) {
  return make(comm, made, [&](Communicator& of) { return of.split(color, key); });
}

tutti_result tutti_comm_subgroup(tutti_comm comm, const int* ranks, int n, tutti_comm* made) {
  return make(comm, made, [&](Communicator& of) { return of.subgroup(listed(ranks, n)); });
}

tutti_result tutti_comm_group(tutti_comm comm, const int* ranks, int n, const char* name, tutti_comm* made) {
  return make(comm, made, [&](Communicator& of) -> std::optional<Communicator> {
    const std::span<const int> members = listed(ranks, n);
    given(name, "name");
    for (const int one : members)
      if (one == of.rank()) return of.group(members, name);
    return std::nullopt;
  });
}

tutti_result tutti_comm_dup(tutti_comm comm, tutti_comm* made) {
  return make(comm, made, [](Communicator& of) { return of.dup(); });
}

tutti_result tutti_comm_node(tutti_comm comm, tutti_comm* made) {
  return make(comm, made, [](Communicator& of) { return of.node(); });
}

tutti_result tutti_comm_across(tutti_comm comm, tutti_comm* made) {
  return make(comm, made, [](Communicator& of) { return of.across(); });
}

tutti_result tutti_comm_leaders(tutti_comm comm, tutti_comm* made) {
  return make(comm, made, [](Communicator& of) { return of.leaders(); });
}

tutti_result tutti_comm_agree(tutti_comm comm, uint64_t* bits, int* members, int* n) {
  return guarded([&] {
    const Agreed agreed = usable(comm, "comm").communicator.agree(*given(bits, "bits"));
    *bits = agreed.bits;
    if (members != nullptr) std::ranges::copy(agreed.members, members);
    if (n != nullptr) *n = static_cast<int>(agreed.members.size());
  });
}

tutti_result tutti_comm_shrink(tutti_comm comm, tutti_comm* made) {
  return make(comm, made, [](Communicator& of) { return of.shrink(); });
}

tutti_result tutti_comm_grow(tutti_comm comm, int most, double patience, tutti_comm* made) {
  return make(comm, made, [&](Communicator& of) { return of.grow(most, patience); });
}

tutti_result tutti_comm_waiting(tutti_comm comm, int* n) {
  return guarded([&] { *given(n, "n") = usable(comm, "comm").communicator.waiting(); });
}

tutti_result tutti_comm_epoch(tutti_comm comm, uint64_t* epoch) {
  return guarded([&] { *given(epoch, "epoch") = usable(comm, "comm").communicator.epoch(); });
}

tutti_result tutti_comm_routes(tutti_comm comm, int i, char* text, size_t text_bytes) {
  return guarded([&] {
    const Communicator& of = usable(comm, "comm").communicator;
    check_rank(i, of.size(), "i");
    put_text(of.routes()[static_cast<std::size_t>(i)], text, text_bytes);
  });
}

tutti_result tutti_comm_set_name(tutti_comm comm, const char* name) {
  return guarded([&] { usable(comm, "comm").communicator.set_name(given(name, "name")); });
}

tutti_result tutti_comm_doctor(tutti_comm comm, double patience, char* text, size_t text_bytes) {
  return guarded([&] { put_text(usable(comm, "comm").communicator.doctor(patience), text, text_bytes); });
}

tutti_result tutti_comm_explain(tutti_comm comm, const char* kind, size_t count, tutti_dtype dtype, tutti_op op,
                                char* text, size_t text_bytes) {
  return guarded([&] {
    const Communicator& of = usable(comm, "comm").communicator;
    const auto parsed = parse_kind(given(kind, "kind"));
    if (!parsed) throw Error(Code::invalid, "there is no kind of call '" + std::string(kind) + "'; one is 'allreduce'");
    const bindings::View view = view_of(dtype);
    const bool folds = *parsed == Kind::allreduce || *parsed == Kind::reduce || *parsed == Kind::reduce_scatter;
    const Reduction reduction = reduction_of(op, 1);
    put_text(of.explain(sketch(*parsed, count, view, folds ? reduction_on(view, reduction) : sum, of.size())), text,
             text_bytes);
  });
}

// Uses probe(), which throws the communicator's first failure. The tag passed to it matches no message.
tutti_result tutti_comm_error(tutti_comm comm, tutti_result* code, int* culprit, char* text, size_t text_bytes) {
  return guarded([&] {
    given(code, "code");
    Communicator& of = usable(comm, "comm").communicator;
    const auto tell = [&](tutti_result result, int who, std::string_view why) {
      if (text != nullptr) put_text(why, text, text_bytes);
      if (culprit != nullptr) *culprit = who;
      *code = result;
    };
    std::optional<Error> failure;
    try {
      static_cast<void>(of.probe(any_rank, INT_MAX));
    } catch (const Error& error) {
      failure = error;
    }
    if (failure) return tell(static_cast<tutti_result>(failure->code()), failure->culprit(), failure->what());
    tell(TUTTI_OK, -1, "");
  });
}

tutti_result tutti_comm_abort(tutti_comm comm, const char* why) {
  return guarded(
      [&] { usable(comm, "comm").communicator.abort(why != nullptr ? why : "the program aborted the communicator"); });
}

tutti_result tutti_comm_free(tutti_comm comm) {
  return guarded([&] {
    if (comm != nullptr) delete &usable(comm, "comm");
  });
}

tutti_result tutti_allocate(tutti_comm comm, size_t bytes, void** data, tutti_memory* memory) {
  return guarded([&] {
    given(data, "data");
    given(memory, "memory");
    auto made = std::make_shared<Allocation<std::byte>>(usable(comm, "comm").communicator.allocate<std::byte>(bytes));
    void* const at = made->data();
    *memory = new tutti_memory_s{std::move(made)};
    *data = at;
  });
}

tutti_result tutti_register(tutti_comm comm, void* data, size_t bytes, tutti_memory* memory) {
  return guarded([&] {
    given(memory, "memory");
    *memory = new tutti_memory_s{usable(comm, "comm").communicator.register_memory(given(data, "data"), bytes)};
  });
}

tutti_result tutti_memory_free(tutti_memory memory) {
  return guarded([&] {
    if (memory != nullptr) delete &usable(memory, "memory");
  });
}

}  // extern "C"
