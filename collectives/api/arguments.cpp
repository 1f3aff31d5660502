#include "collectives/api/arguments.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>

#include "transports/accelerators.hpp"
#include "transports/core/checked.hpp"
#include "transports/core/layout.hpp"
#include "tutti/status.hpp"

namespace tutti {
namespace {

std::string not_a_rank(const std::string& what, int value, int size) {
  return what + " " + std::to_string(value) + " is not a rank of this communicator, whose ranks are 0 to " +
         std::to_string(size - 1);
}

// A buffer of so many elements fits into the address space, whatever its type.
constexpr std::size_t always_addressable = PTRDIFF_MAX / sizeof(double);

class Checker {
 public:
  Checker(Collective& call, const Group& group)
      : call_(call), rank_(group.rank), size_(group.size()), at_root_(group.rank == call.root) {}

  // Not inlined: otherwise the fast path of check_arguments() has to save registers.
  [[gnu::noinline]] void run() {
    if (call_.kind == Kind::barrier) return;
    if (std::max(call_.in.count, call_.out.count) > always_addressable) addresses();
    if (call_.kind == Kind::send) return point_to_point();
    if (has_root(call_.kind) && (call_.root < 0 || call_.root >= size_)) out_of_range("root", call_.root);
    settle_dtypes();
    if (call_.variable) {
      counts();
    } else {
      sizes();
    }
    operators();
    places();
    aliasing();
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Code::invalid, std::string(name(call_.kind)) + (call_.variable ? "v: " : ": ") + why);
  }
  [[noreturn]] void out_of_range(const std::string& what, int value) const { refuse(not_a_rank(what, value, size_)); }

  void addresses() const {
    for (const auto& [what, buffer] : {std::pair("in", call_.in), std::pair("out", ConstBuffer(call_.out))})
      if (!checked_product(buffer.count, size_of(buffer.dtype)))
        refuse(std::string(what) + " has " + std::to_string(buffer.count) + " elements of " +
               std::string(name(buffer.dtype)) + ", more than an address space holds; give the memory's true count");
  }

  void point_to_point() const {
    if (call_.to >= size_ || call_.to < -1) out_of_range("to", call_.to);
    if (call_.from >= size_ || call_.from < -1) out_of_range("from", call_.from);
    if (call_.from_any) {
      if (call_.from >= 0) refuse("it is to receive from rank " + std::to_string(call_.from) + " and from anyone");
      if (call_.out.device.kind != Device::Kind::cpu)
        throw Error(Code::unsupported, "recv_any: the buffer is on a device; receive on the host, or name the rank");
    }
    if (call_.to < 0 && call_.from < 0 && !call_.from_any)
      refuse("it has neither a rank to send to nor one to receive from");
    if (call_.to >= 0 && (call_.from >= 0 || call_.from_any)) places();
  }

  void settle_dtypes() const {
    if (call_.kind == Kind::broadcast) call_.in = ConstBuffer(nullptr, 0, call_.out.dtype);
    if (call_.kind == Kind::scatter && !at_root_) call_.in = ConstBuffer(nullptr, 0, call_.out.dtype);
    if (only_root_takes(call_.kind) && !at_root_) call_.out = Buffer(nullptr, 0, call_.in.dtype);
    if (call_.in.dtype != call_.out.dtype) {
      refuse("in holds " + std::string(name(call_.in.dtype)) + " and out " + std::string(name(call_.out.dtype)) +
             "; they must be of one type");
    }
  }

  void expect(const char* what, std::size_t have, std::size_t want, const char* because) const {
    if (have != want) refuse_size(what, have, want, because);
  }
  void expect_blocks(const char* what, std::size_t have, std::size_t each, const char* of) const {
    const auto want = checked_product(static_cast<std::size_t>(size_), each);
    if (have != want) refuse_size(what, have, want.value_or(SIZE_MAX), std::to_string(size_) + " ranks times " + of);
  }
  [[noreturn]] void refuse_size(const char* what, std::size_t have, std::size_t want,
                                const std::string& because) const {
    refuse(std::string(what) + " has " + std::to_string(have) + " elements, but must have " + std::to_string(want) +
           " (" + because + ")");
  }

  void sizes() const {
    switch (call_.kind) {
      case Kind::allreduce: return expect("out", call_.out.count, call_.in.count, "as in");
      case Kind::reduce:
        if (at_root_) expect("out", call_.out.count, call_.in.count, "as in");
        return;
      case Kind::allgather: return expect_blocks("out", call_.out.count, call_.in.count, "in");
      case Kind::gather:
        if (at_root_) expect_blocks("out", call_.out.count, call_.in.count, "in");
        return;
      case Kind::reduce_scatter: return expect_blocks("in", call_.in.count, call_.out.count, "out");
      case Kind::scatter:
        if (at_root_) expect_blocks("in", call_.in.count, call_.out.count, "out");
        return;
      case Kind::alltoall:
        expect("out", call_.out.count, call_.in.count, "as in");
        if (call_.in.count % static_cast<std::size_t>(size_) != 0)
          refuse("in has " + std::to_string(call_.in.count) + " elements, which " + std::to_string(size_) +
                 " ranks cannot share equally; use alltoallv");
        return;
      default: return;
    }
  }

  void blocks(const char* what, const std::vector<std::size_t>& counts, std::size_t have) const {
    if (counts.size() != static_cast<std::size_t>(size_))
      refuse("there are " + std::to_string(counts.size()) + " counts for " + std::to_string(size_) + " ranks");
    const std::optional<std::size_t> total = checked_sum(counts, PTRDIFF_MAX / size_of(call_.in.dtype));
    if (!total) refuse("the sum of the counts is more than an address space holds");
    expect(what, have, *total, "the sum of the counts");
  }

  // Only the root passes the counts. Another rank fills in its own count, and zero for all others.
  void fill_in_counts() const {
    std::vector<std::size_t>& counts = call_.kind == Kind::gather ? call_.out_counts : call_.in_counts;
    counts.assign(static_cast<std::size_t>(size_), 0);
    counts[static_cast<std::size_t>(rank_)] = call_.kind == Kind::gather ? call_.in.count : call_.out.count;
  }

  void counts() const {
    const auto mine = static_cast<std::size_t>(rank_);
    if ((call_.kind == Kind::gather || call_.kind == Kind::scatter) && !at_root_) return fill_in_counts();
    switch (call_.kind) {
      case Kind::allgather:
      case Kind::gather:
        blocks("out", call_.out_counts, call_.out.count);
        return expect("in", call_.in.count, call_.out_counts[mine], "this rank's count");
      case Kind::reduce_scatter:
      case Kind::scatter:
        blocks("in", call_.in_counts, call_.in.count);
        return expect("out", call_.out.count, call_.in_counts[mine], "this rank's count");
      case Kind::alltoall:
        blocks("in", call_.in_counts, call_.in.count);
        blocks("out", call_.out_counts, call_.out.count);
        return expect("out's own block", call_.out_counts[mine], call_.in_counts[mine], "what this rank keeps");
      default: refuse("there is no form with counts");
    }
  }

  void operators() const {
    if (!folds(call_.kind) || supports(call_.op.op, call_.in.dtype)) return;
    refuse(std::string(name(call_.op.op)) + " is not defined for " + std::string(name(call_.in.dtype)) +
           (is_integer(call_.in.dtype) ? "; convert to a floating-point type, or use sum" : "; it wants integers"));
  }

  void places() const {
    if (call_.in.data == nullptr || call_.out.data == nullptr || call_.in.device == call_.out.device) return;
    const auto place = [](Device device) {
      return device.kind == Device::Kind::cpu ? "on the host" : "on device " + std::to_string(device.index);
    };
    refuse("in is " + std::string(place(call_.in.device)) + " and out " + place(call_.out.device) +
           "; both must be in one place");
  }

  void aliasing() const {
    const std::byte *in = call_.in.data, *out = call_.out.data;
    if (call_.in.count == 0 || call_.out.count == 0) return;
    const bool blocks_in = has_blocks_in(call_.kind), blocks_out = has_blocks_out(call_.kind);
    if (in == out && blocks_in == blocks_out) return;
    if (in >= out + call_.out.bytes() || out >= in + call_.in.bytes()) return;
    const std::size_t width = size_of(call_.in.dtype);
    const auto before = [&](const std::vector<std::size_t>& counts, std::size_t each) {
      const auto mine = static_cast<std::size_t>(rank_);
      if (!call_.variable) return mine * each * width;
      return std::accumulate(counts.begin(), counts.begin() + rank_, std::size_t{0}) * width;
    };
    bool in_place = false;
    if (blocks_out && !blocks_in) in_place = in == out + before(call_.out_counts, call_.in.count);
    if (blocks_in && !blocks_out) in_place = out == in + before(call_.in_counts, call_.out.count);
    if (!in_place) refuse("in and out overlap, and not in the way that counts as in place; use separate buffers");
  }

  Collective& call_;
  const int rank_, size_;
  const bool at_root_;
};

// True for an in-place allreduce by sum with valid arguments, the most frequent call. It needs no further checks.
bool is_sum_in_place(const Collective& call) noexcept {
  return call.kind == Kind::allreduce && call.op.op == Op::sum && call.in.data == call.out.data &&
         call.in.count == call.out.count && call.in.dtype == call.out.dtype && !call.variable &&
         call.in.count <= always_addressable;
}

}  // namespace

void check_arguments(Collective& call, const Group& group) {
  if (!is_sum_in_place(call)) Checker(call, group).run();
}

void check_message(std::string_view call, int peer, int tag, int size) {
  const auto refuse = [&](const std::string& why) { throw Error(Code::invalid, std::string(call) + ": " + why); };
  if (peer < 0 || peer >= size)
    refuse(not_a_rank("peer", peer, size) +
           (call == "recv" && peer < 0 ? "; recv_any receives from whoever sends" : ""));
  if (tag < 0) refuse("the tag " + std::to_string(tag) + " is negative; tags are 0 or more");
}

Accelerator* gpu_of(const Collective& call, const Settings& settings) {
  const Device device = device_of(call);
  if (device.kind == Device::Kind::cpu) return nullptr;
  Accelerator& gpu = accelerator(settings);
  if (const std::string why = gpu.why_not(); !why.empty())
    throw Error(Code::unsupported, "the buffer is on a device, but there is none: " + why);
  const auto count = static_cast<int>(gpu.devices().size());
  if (device.index < 0 || device.index >= count)
    throw Error(Code::invalid, "the buffer is said to be on device " + std::to_string(device.index) + ", but there " +
                                   (count == 1 ? "is 1 device" : "are " + std::to_string(count) + " devices") +
                                   ", counted from 0");
  return &gpu;
}

}  // namespace tutti
