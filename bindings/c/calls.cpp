// The C functions of collectives and messages: each makes a Collective of its operands, and launches or collects it.
#include <cmath>
#include <numeric>

#include "bindings/c/handles.hpp"
#include "collectives/api/arguments.hpp"
#include "transports/core/checked.hpp"

namespace tutti::c {
namespace {

/// Converts the arguments of a C function to a call and launches it.
class Submission {
 public:
  Submission(tutti_comm comm, tutti_dtype dtype, const tutti_call* call)
      : comm_(usable(comm, "comm")), view_(view_of(dtype)), options_(TUTTI_CALL_INIT) {
    if (call != nullptr) options_ = completed(call, options_, "call");
    if (std::isnan(options_.timeout) || options_.timeout < 0)
      throw Error(Code::invalid, "call->timeout is " + std::to_string(options_.timeout) +
                                     "; give seconds, 0 for the communicator's, or infinity");
    if (options_.device < -1)
      throw Error(Code::invalid, "call->device is " + std::to_string(options_.device) + "; -1 is host memory");
    if (options_.device >= 0) device_ = {Device::Kind::cuda, options_.device};
  }

  std::size_t size() const noexcept { return static_cast<std::size_t>(comm_.communicator.size()); }
  std::size_t rank() const noexcept { return static_cast<std::size_t>(comm_.communicator.rank()); }
  bool is_at(int root) const noexcept { return comm_.communicator.rank() == root; }

  /// The buffer of `count` items at `data`. Throws if the pointer is NULL and `count` is not 0.
  ConstBuffer input(const void* data, std::size_t count, const char* name = "in") const {
    if (count > 0) given(data, name);
    return {data, elements(count), view_.dtype, device_};
  }
  Buffer output(void* data, std::size_t count, const char* name = "out") const {
    if (count > 0) given(data, name);
    return {data, elements(count), view_.dtype, device_};
  }
  /// The number of items of all ranks, if each rank has `count`.
  std::size_t of_all(std::size_t count) const {
    if (count > SIZE_MAX / size()) refuse_count(count);
    return count * size();
  }
  /// The block of `all` that starts at item `before`.
  Buffer block(const Buffer& all, std::size_t before, std::size_t count) const {
    std::byte* const at = all.data == nullptr ? nullptr : all.data + elements(before) * size_of(view_.dtype);
    return {at, elements(count), view_.dtype, device_};
  }
  /// The counts of all ranks, converted to library elements.
  std::vector<std::size_t> counts(const std::size_t* list, const char* name = "counts") const {
    std::vector<std::size_t> all(given(list, name), list + size());
    for (std::size_t& one : all) one = elements(one);
    if (!checked_sum(all)) throw Error(Code::invalid, std::string("the sum of ") + name + " fits in no memory");
    return all;
  }
  std::size_t items(const std::vector<std::size_t>& counts) const {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0}) / view_.elements;
  }
  std::size_t items_before(const std::vector<std::size_t>& counts, std::size_t rank) const {
    return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(rank), std::size_t{0}) /
           view_.elements;
  }

  Reduction reduction(tutti_op op) const { return reduction_on(view_, reduction_of(op, options_.factor)); }

  void run(Collective call, tutti_request* request) {
    if (collect(call, request)) return;
    Work work = comm_.communicator.launch(call, options());
    if (request == nullptr) return work.wait();
    auto made = std::make_unique<tutti_request_s>();
    if (call.kind == Kind::send) made->source = call.from;
    if (call.from_any) made->from.emplace(work);
    made->work = std::move(work);
    *request = made.release();
  }

 private:
  [[noreturn]] static void refuse_count(std::size_t count) {
    throw Error(Code::invalid, "a count is " + std::to_string(count) + "; no memory holds so many elements");
  }
  std::size_t elements(std::size_t items) const {
    if (!checked_product(items, view_.item_bytes())) refuse_count(items);
    return items * view_.elements;
  }

  CallOptions options() const {
    CallOptions made;
    if (options_.timeout > 0) made.timeout = options_.timeout;
    if (options_.algorithm != nullptr) made.algorithm = options_.algorithm;
    if (options_.has_stream != 0) made.stream = Stream{options_.stream, options_.device < 0 ? 0 : options_.device};
    return made;
  }

  /// Collects the call if this thread is between tutti_group_begin and tutti_group_end.
  bool collect(const Collective& call, const tutti_request* request) {
    const std::lock_guard lock(comm_.mutex);
    const auto open = comm_.collected.find(std::this_thread::get_id());
    if (open == comm_.collected.end()) return false;
    if (request != nullptr)
      throw Error(Code::invalid, "between tutti_group_begin and tutti_group_end request must be NULL");
    Collected& group = open->second;
    const CallOptions mine = options();
    if (!group.options) group.options = mine;
    if (group.options->timeout != mine.timeout || group.options->algorithm != mine.algorithm ||
        group.options->stream != mine.stream)
      throw Error(Code::invalid,
                  "the calls of a group have one tutti_call; this one's is another than the first one's");
    group.calls.push_back(call);
    return true;
  }

  tutti_comm_s& comm_;
  const bindings::View view_;
  tutti_call options_;
  Device device_;
};

Collective call_of(Kind kind, ConstBuffer in, Buffer out, int root = 0) {
  Collective call;
  call.kind = kind;
  call.in = in;
  call.out = out;
  call.root = root;
  return call;
}

void check_peer(const char* what, int peer, int tag, const Submission& of) {
  check_message(what, peer, tag, static_cast<int>(of.size()));
}

}  // namespace
}  // namespace tutti::c

using namespace tutti;
using namespace tutti::c;

extern "C" {

tutti_result tutti_allreduce(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype, tutti_op op,
                             const tutti_call* call, tutti_request* request) {
  return guarded([&] {
    Submission to(comm, dtype, call);
    const Buffer result = to.output(out, count);
    Collective made = call_of(Kind::allreduce, in == nullptr ? result : to.input(in, count), result);
    made.op = to.reduction(op);
    to.run(std::move(made), request);
  });
}

tutti_result tutti_reduce(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype, tutti_op op,
                          int root, const tutti_call* call, tutti_request* request) {
  return guarded([&] {
    Submission to(comm, dtype, call);
    const bool wants_out = to.is_at(root) || in == nullptr;
    const Buffer result = wants_out ? to.output(out, count) : to.output(nullptr, 0);
    Collective made = call_of(Kind::reduce, in == nullptr ? result : to.input(in, count), result, root);
    made.op = to.reduction(op);
    to.run(std::move(made), request);
  });
}

tutti_result tutti_reduce_scatter(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype,
                                  tutti_op op, const tutti_call* call, tutti_request* request) {
  return guarded([&] {
    Submission to(comm, dtype, call);
    const std::size_t all = to.of_all(count);
    Collective made;
    if (in == nullptr) {
      const Buffer whole = to.output(out, all);
      made = call_of(Kind::reduce_scatter, whole, to.block(whole, to.rank() * count, count));
    } else {
      made = call_of(Kind::reduce_scatter, to.input(in, all), to.output(out, count));
    }
    made.op = to.reduction(op);
    to.run(std::move(made), request);
  });
}

tutti_result tutti_reduce_scatterv(tutti_comm comm, const void* in, void* out, const size_t* counts, tutti_dtype dtype,
                                   tutti_op op, const tutti_call* call, tutti_request* request) {
  return guarded([&] {
    Submission to(comm, dtype, call);
    Collective made;
    std::vector<std::size_t> parts = to.counts(counts);
    if (in == nullptr) {
      const Buffer whole = to.output(out, to.items(parts));
      made =
          call_of(Kind::reduce_scatter, whole, to.block(whole, to.items_before(parts, to.rank()), counts[to.rank()]));
    } else {
      made = call_of(Kind::reduce_scatter, to.input(in, to.items(parts)), to.output(out, counts[to.rank()]));
    }
    made.op = to.reduction(op);
    made.variable = true;
    made.in_counts = std::move(parts);
    to.run(std::move(made), request);
  });
}

tutti_result tutti_broadcast(tutti_comm comm, void* data, size_t count, tutti_dtype dtype, int root,
                             const tutti_call* call, tutti_request* request) {
  return guarded([&] {
    Submission to(comm, dtype, call);
    to.run(call_of(Kind::broadcast, {}, to.output(data, count, "data"), root), request);
  });
}

tutti_result tutti_allgather(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype,
                             const tutti_call* call, tutti_request* request) {
  return guarded([&] {
    Submission to(comm, dtype, call);
    const Buffer all = to.output(out, to.of_all(count));
    const ConstBuffer mine = in == nullptr ? to.block(all, to.rank() * count, count) : to.input(in, count);
    to.run(call_of(Kind::allgather, mine, all), request);
  });
}

tutti_result tutti_allgatherv(tutti_comm comm, const void* in, size_t count, void* out, const size_t* counts,
                              tutti_dtype dtype, const tutti_call* call, tutti_request* request) {
  return guarded([&] {
    Submission to(comm, dtype, call);
    std::vector<std::size_t> parts = to.counts(counts);
    const Buffer all = to.output(out, to.items(parts));
    const ConstBuffer mine =
        in == nullptr ? to.block(all, to.items_before(parts, to.rank()), count) : to.input(in, count);
    Collective made = call_of(Kind::allgather, mine, all);
    made.variable = true;
    made.out_counts = std::move(parts);
    to.run(std::move(made), request);
  });
}

tutti_result tutti_gather(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype, int root,
                          const tutti_call* call, tutti_request* request) {
  return guarded([&] {
    Submission to(comm, dtype, call);
    const bool here = to.is_at(root);
    const Buffer all = here ? to.output(out, to.of_all(count)) : to.output(nullptr, 0);
    const bool in_place = here && in == nullptr;
    const ConstBuffer mine = in_place ? to.block(all, to.rank() * count, count) : to.input(in, count);
    to.run(call_of(Kind::gather, mine, all, root), request);
  });
}

tutti_result tutti_gatherv(tutti_comm comm, const void* in, size_t count, void* out, const size_t* counts,
                           tutti_dtype dtype, int root, const tutti_call* call, tutti_request* request) {
  return guarded([&] {
    Submission to(comm, dtype, call);
    Collective made = call_of(Kind::gather, {}, to.output(nullptr, 0), root);
    made.variable = true;
    if (to.is_at(root)) {
      made.out_counts = to.counts(counts);
      made.out = to.output(out, to.items(made.out_counts));
    }
    const bool in_place = to.is_at(root) && in == nullptr;
    made.in = in_place ? to.block(made.out, to.items_before(made.out_counts, to.rank()), count) : to.input(in, count);
    to.run(std::move(made), request);
  });
}

tutti_result tutti_scatter(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype, int root,
                           const tutti_call* call, tutti_request* request) {
  return guarded([&] {
    Submission to(comm, dtype, call);
    const bool here = to.is_at(root);
    Collective made = call_of(Kind::scatter, here ? to.input(in, to.of_all(count)) : to.input(nullptr, 0), {}, root);
    // The root's block is not copied if the call is in place, so nothing is written to `in`.
    made.out = here && out == nullptr
                   ? to.block(to.output(const_cast<void*>(in), to.of_all(count)), to.rank() * count, count)
                   : to.output(out, count);
    to.run(std::move(made), request);
  });
}

tutti_result tutti_scatterv(tutti_comm comm, const void* in, const size_t* counts, void* out, size_t count,
                            tutti_dtype dtype, int root, const tutti_call* call, tutti_request* request) {
  return guarded([&] {
    Submission to(comm, dtype, call);
    const bool here = to.is_at(root);
    Collective made = call_of(Kind::scatter, to.input(nullptr, 0), {}, root);
    made.variable = true;
    if (here) {
      made.in_counts = to.counts(counts);
      made.in = to.input(in, to.items(made.in_counts));
    }
    made.out = here && out == nullptr ? to.block(to.output(const_cast<void*>(in), to.items(made.in_counts)),
                                                 to.items_before(made.in_counts, to.rank()), count)
                                      : to.output(out, count);
    to.run(std::move(made), request);
  });
}

tutti_result tutti_alltoall(tutti_comm comm, const void* in, void* out, size_t count, tutti_dtype dtype,
                            const tutti_call* call, tutti_request* request) {
  return guarded([&] {
    Submission to(comm, dtype, call);
    const Buffer result = to.output(out, to.of_all(count));
    to.run(call_of(Kind::alltoall, in == nullptr ? result : to.input(in, to.of_all(count)), result), request);
  });
}

tutti_result tutti_alltoallv(tutti_comm comm, const void* in, const size_t* in_counts, void* out,
                             const size_t* out_counts, tutti_dtype dtype, const tutti_call* call,
                             tutti_request* request) {
  return guarded([&] {
    Submission to(comm, dtype, call);
    Collective made = call_of(Kind::alltoall, {}, {});
    made.variable = true;
    made.out_counts = to.counts(out_counts, "out_counts");
    made.out = to.output(out, to.items(made.out_counts));
    made.in_counts = in == nullptr && in_counts == nullptr ? made.out_counts : to.counts(in_counts, "in_counts");
    if (in == nullptr && made.in_counts != made.out_counts)
      throw Error(Code::invalid,
                  "in place, what goes to a rank comes from the place of what it sends: in_counts has to "
                  "be NULL or equal to out_counts");
    made.in = in == nullptr ? ConstBuffer(made.out) : to.input(in, to.items(made.in_counts));
    to.run(std::move(made), request);
  });
}

tutti_result tutti_barrier(tutti_comm comm, const tutti_call* call, tutti_request* request) {
  return guarded([&] { Submission(comm, TUTTI_U8, call).run(call_of(Kind::barrier, {}, {}), request); });
}

tutti_result tutti_send(tutti_comm comm, const void* data, size_t count, tutti_dtype dtype, int to, int tag,
                        const tutti_call* call, tutti_request* request) {
  return guarded([&] {
    Submission submission(comm, dtype, call);
    check_peer("send", to, tag, submission);
    Collective made = call_of(Kind::send, submission.input(data, count, "data"), submission.output(nullptr, 0));
    made.to = to;
    made.tag = tag;
    submission.run(std::move(made), request);
  });
}

tutti_result tutti_recv(tutti_comm comm, void* data, size_t count, tutti_dtype dtype, int from, int tag,
                        const tutti_call* call, tutti_request* request) {
  return guarded([&] {
    Submission submission(comm, dtype, call);
    const bool any = from == TUTTI_ANY_RANK;
    check_peer(any ? "recv_any" : "recv", any ? 0 : from, tag, submission);
    Collective made = call_of(Kind::send, submission.input(nullptr, 0), submission.output(data, count, "data"));
    made.from = from;
    made.from_any = any;
    made.tag = tag;
    submission.run(std::move(made), request);
  });
}

tutti_result tutti_sendrecv(tutti_comm comm, const void* in, size_t in_count, int to, void* out, size_t out_count,
                            int from, tutti_dtype dtype, int tag, const tutti_call* call, tutti_request* request) {
  return guarded([&] {
    Submission submission(comm, dtype, call);
    check_peer("sendrecv", to, tag, submission);
    check_peer("sendrecv", from, tag, submission);
    const Buffer result = submission.output(out, out_count);
    Collective made = call_of(Kind::send, in == nullptr ? result : submission.input(in, in_count), result);
    made.to = to;
    made.from = from;
    made.tag = tag;
    submission.run(std::move(made), request);
  });
}

tutti_result tutti_probe(tutti_comm comm, int from, int tag, int* found, int* rank, size_t* bytes) {
  return guarded([&] {
    given(found, "found");
    const std::optional<Arrived> one = usable(comm, "comm").communicator.probe(from, tag);
    *found = one ? 1 : 0;
    if (one && rank != nullptr) *rank = one->from;
    if (one && bytes != nullptr) *bytes = one->bytes;
  });
}

tutti_result tutti_group_begin(tutti_comm comm) {
  return guarded([&] {
    tutti_comm_s& of = usable(comm, "comm");
    const std::lock_guard lock(of.mutex);
    if (!of.collected.try_emplace(std::this_thread::get_id()).second)
      throw Error(Code::invalid, "this thread has begun a group on this communicator already; end it first");
  });
}

tutti_result tutti_group_end(tutti_comm comm, tutti_request* request) {
  return guarded([&] {
    tutti_comm_s& of = usable(comm, "comm");
    std::unique_lock lock(of.mutex);
    auto group = of.collected.extract(std::this_thread::get_id());
    lock.unlock();
    if (!group) throw Error(Code::invalid, "this thread has begun no group on this communicator");
    const Collected& all = group.mapped();
    Work work = of.communicator.launch(std::span<const Collective>(all.calls), all.options.value_or(CallOptions{}));
    if (request == nullptr) return work.wait();
    auto made = std::make_unique<tutti_request_s>();
    made->work = std::move(work);
    *request = made.release();
  });
}

}  // extern "C"
