// Counts the calls that a rank makes, by replacing Communicator's functions in the whole program of a
// test.
//
// Include it in one file of a program only, which links libtutti as a shared library: it defines the functions. Ranks
// are threads, and each counts its own.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <span>
#include <utility>

#include "tutti/collective.hpp"
#include "tutti/communicator.hpp"
#include "tutti/dtype.hpp"

namespace tutti::testing {

/// The calls of one thread since it began.
struct CallCount {
  std::size_t calls = 0;
  std::size_t reductions = 0;  ///< how many of them were allreduces
  std::size_t given = 0;       ///< bytes that this rank passed in
  std::size_t taken = 0;       ///< bytes that this rank received

  CallCount operator-(const CallCount& before) const {
    return {calls - before.calls, reductions - before.reductions, given - before.given, taken - before.taken};
  }
};

inline thread_local CallCount calls_of_this_rank;

inline Collective counted(Collective call) {
  CallCount& count = calls_of_this_rank;
  ++count.calls;
  count.reductions += call.kind == Kind::allreduce ? 1 : 0;
  count.given += call.in.count * size_of(call.in.dtype);
  count.taken += call.out.count * size_of(call.out.dtype);
  return call;
}

}  // namespace tutti::testing

namespace tutti {
namespace testing {

inline Collective call_of(Kind kind, ConstBuffer in, Buffer out, Reduction op = sum, int root = 0) {
  Collective call;
  call.kind = kind;
  call.in = in;
  call.out = out;
  call.op = op;
  call.root = root;
  return call;
}

}  // namespace testing

Work Communicator::allreduce(Buffer data, Reduction op, const CallOptions& options) {
  return launch(testing::counted(testing::call_of(Kind::allreduce, data, data, op)), options);
}

Work Communicator::broadcast(Buffer data, int root, const CallOptions& options) {
  return launch(testing::counted(testing::call_of(Kind::broadcast, {}, data, sum, root)), options);
}

Work Communicator::allgather(ConstBuffer in, Buffer out, const CallOptions& options) {
  return launch(testing::counted(testing::call_of(Kind::allgather, in, out)), options);
}

Work Communicator::gather(ConstBuffer in, Buffer out, int root, const CallOptions& options) {
  return launch(testing::counted(testing::call_of(Kind::gather, in, out, sum, root)), options);
}

Work Communicator::gatherv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, int root,
                           const CallOptions& options) {
  Collective call = testing::call_of(Kind::gather, in, out, sum, root);
  call.variable = true;
  call.out_counts.assign(counts.begin(), counts.end());
  return launch(testing::counted(std::move(call)), options);
}

Work Communicator::send(ConstBuffer data, int to, int tag, const CallOptions& options) {
  Collective call = testing::call_of(Kind::send, data, Buffer(nullptr, 0, data.dtype));
  call.to = to;
  call.tag = tag;
  return launch(testing::counted(std::move(call)), options);
}

Work Communicator::recv(Buffer data, int from, int tag, const CallOptions& options) {
  Collective call = testing::call_of(Kind::send, ConstBuffer(nullptr, 0, data.dtype), data);
  call.from = from;
  call.tag = tag;
  return launch(testing::counted(std::move(call)), options);
}

Work Communicator::launch_value(Kind kind, Buffer value, Reduction op, int root, const CallOptions& options) {
  static_cast<void>(testing::counted(
      testing::call_of(kind, kind == Kind::broadcast ? ConstBuffer() : ConstBuffer(value), value, op, root)));
  constexpr const char* symbol =
      "_ZN5tutti12Communicator12launch_valueENS_4KindENS_6BufferENS_9ReductionEiRKNS_11CallOptionsE";
  using Launch = Work(Communicator*, Kind, Buffer, Reduction, int, const CallOptions&);
  static auto* const launches = reinterpret_cast<Launch*>(::dlsym(RTLD_NEXT, symbol));
  if (launches == nullptr) std::abort();
  return launches(this, kind, value, op, root, options);
}

}  // namespace tutti
