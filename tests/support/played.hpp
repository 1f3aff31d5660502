// One collective of a conformance test: the call, its data, and the check of its result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/reference.hpp"
#include "transports/accelerators.hpp"
#include "transports/core/layout.hpp"
#include "tutti/collective.hpp"
#include "tutti/communicator.hpp"

namespace tutti::testing {

struct Case {
  Kind kind;
  DType dtype;
  Reduction op;
  std::size_t count;
  int root;
  bool in_place, variable;
  std::uint64_t seed;
  std::string algorithm = {};
  std::uint64_t shared = 0;  ///< bit r: rank r's buffers come from Communicator::allocate
  bool device = false;       ///< the buffers are in memory of devices

  std::string text() const {
    return std::string(name(kind)) + (variable ? "v " : " ") + std::string(name(dtype)) + " " +
           std::string(name(op.op)) + " count " + std::to_string(count) + " root " + std::to_string(root) +
           (in_place ? " in place" : "") + (shared != 0 ? " shared " + std::to_string(shared) : "") + " seed " +
           std::to_string(seed);
  }
};

// One rank's part of one case: prepares, launches, and later checks.
class Played {
 public:
  Played(Communicator& world, const Case& c) : world_(world), case_(c), p_(static_cast<std::size_t>(world.size())) {
    counts_.assign(p_, c.count);
    if (c.variable)
      for (std::size_t r = 0; r < p_; ++r) counts_[r] = (c.count + 3 * r * c.count) % (c.count + r + 1);
    total_ = std::accumulate(counts_.begin(), counts_.end(), std::size_t{0});
    for (std::size_t r = 0; r < p_; ++r) inputs_.push_back(random_data(c.dtype, input_count(r), c.seed + r));
    me_ = static_cast<std::size_t>(world.rank());
    root_ = static_cast<std::size_t>(c.root);
  }

  Work launch() {
    const std::size_t width = size_of(case_.dtype);
    in_ = place(inputs_[me_].size(), in_data_, in_shared_);
    std::ranges::copy(inputs_[me_], in_.begin());
    out_ = place(output_count() * width, out_data_, out_shared_);
    std::ranges::fill(out_, std::byte{0x5a});
    ConstBuffer in(in_.data(), input_count(me_), case_.dtype);
    Buffer out(out_.data(), output_count(), case_.dtype);
    const bool blocks_out = case_.kind == Kind::allgather || case_.kind == Kind::gather;
    const bool blocks_in = case_.kind == Kind::reduce_scatter || case_.kind == Kind::scatter;
    const bool has_both = output_count() > 0 && input_count(me_) > 0;
    in_place_ = case_.in_place && has_both && !(case_.kind == Kind::alltoall && case_.variable);
    if (in_place_ && blocks_out) {
      std::ranges::copy(in_, out_.begin() + static_cast<std::ptrdiff_t>(before(me_) * width));
      in.data = out_.data() + before(me_) * width;
    } else if (in_place_ && blocks_in) {
      out.data = in_.data() + before(me_) * width;
    } else if (in_place_) {
      std::ranges::copy(in_, out_.begin());
      in.data = out_.data();
    }
    if (case_.kind == Kind::broadcast && me_ == root_) std::ranges::copy(in_, out_.begin());
    result_ = out.data;
    if (case_.device) {
      gpu_ = &accelerator();
      in_device_ = upload(in_);
      out_device_ = upload(out_);
      in = Buffer(on_device(in.data), in.count, in.dtype, where());
      out = Buffer(on_device(out.data), out.count, out.dtype, where());
    }
    return call(in, out);
  }

  // Returns "" or what is wrong. Adds the checksum of the result to `sum` if all ranks must have the same result.
  std::string check(std::uint64_t& sum) const {
    if (case_.device) {
      gpu_->copy(stream(), in_.data(), in_device_.get(), in_.size());
      gpu_->copy(stream(), out_.data(), out_device_.get(), out_.size());
      gpu_->synchronize(stream());
    }
    const std::size_t width = size_of(case_.dtype);
    const bool untouched = !in_place_ || (case_.kind == Kind::reduce && me_ != root_);
    if (untouched && !std::ranges::equal(in_, inputs_[me_]) && case_.kind != Kind::broadcast)
      return "the input was changed";
    switch (case_.kind) {
      case Kind::allreduce:
        sum = checksum(result_, case_.count * width, sum);
        return check_fold(case_.dtype, case_.op, inputs_, 0, result_, case_.count);
      case Kind::reduce: return me_ == root_ ? check_fold(case_.dtype, case_.op, inputs_, 0, result_, case_.count) : "";
      case Kind::reduce_scatter: return check_fold(case_.dtype, case_.op, inputs_, before(me_), result_, counts_[me_]);
      case Kind::broadcast: return same(inputs_[root_], 0, 0, case_.count);
      case Kind::scatter: return same(inputs_[root_], before(me_), 0, counts_[me_]);
      case Kind::gather:
        if (me_ != root_) return "";
        [[fallthrough]];
      case Kind::allgather: return gathered();
      default: return exchanged();
    }
  }

 private:
  Bytes place(std::size_t bytes, Data& data, std::optional<Allocation<std::uint8_t>>& shared) {
    data.resize(bytes);
    if ((case_.shared >> me_ & 1) == 0) return data;
    shared = world_.allocate<std::uint8_t>(bytes);
    return {reinterpret_cast<std::byte*>(shared->data()), bytes};
  }
  // Data is copied on the device's default stream, after which the call is ordered.
  Device where() const { return {Device::Kind::cuda, device_of_rank(*gpu_, world_.rank())}; }
  Stream stream() const { return {nullptr, where().index}; }
  std::shared_ptr<void> upload(Bytes from) const {
    auto memory = gpu_->allocate(where().index, from.size());
    gpu_->copy(stream(), memory.get(), from.data(), from.size());
    return memory;
  }
  std::byte* on_device(const std::byte* host) const {
    if (host == nullptr) return nullptr;
    const bool of_in = host >= in_.data() && host < in_.data() + in_.size();
    return static_cast<std::byte*>((of_in ? in_device_ : out_device_).get()) + (host - (of_in ? in_ : out_).data());
  }
  std::size_t before(std::size_t r) const {
    return std::accumulate(counts_.begin(), counts_.begin() + static_cast<std::ptrdiff_t>(r), std::size_t{0});
  }
  // alltoallv: rank a sends (count + a + 2b) % (count + 1) elements to rank b.
  std::size_t pair(std::size_t a, std::size_t b) const {
    return case_.variable ? (case_.count + a + 2 * b) % (case_.count + 1) : case_.count;
  }
  std::vector<std::size_t> pairs(bool sent) const {
    std::vector<std::size_t> list;
    for (std::size_t r = 0; r < p_; ++r) list.push_back(sent ? pair(me_, r) : pair(r, me_));
    return list;
  }
  std::size_t input_count(std::size_t r) const {
    switch (case_.kind) {
      case Kind::allgather:
      case Kind::gather: return counts_[r];
      case Kind::reduce_scatter: return total_;
      case Kind::scatter: return r == static_cast<std::size_t>(case_.root) ? total_ : 0;
      case Kind::alltoall: {
        std::size_t n = 0;
        for (std::size_t b = 0; b < p_; ++b) n += pair(r, b);
        return n;
      }
      default: return case_.count;
    }
  }
  std::size_t output_count() const {
    switch (case_.kind) {
      case Kind::allgather: return total_;
      case Kind::gather: return me_ == root_ ? total_ : 0;
      case Kind::reduce_scatter:
      case Kind::scatter: return counts_[me_];
      case Kind::alltoall: {
        const auto list = pairs(false);
        return std::accumulate(list.begin(), list.end(), std::size_t{0});
      }
      case Kind::reduce: return me_ == root_ ? case_.count : 0;
      default: return case_.count;
    }
  }

  // Ranks other than the root pass no counts, or wrong ones, because these must not be read.
  std::vector<std::size_t> counts_of_root() const {
    if (me_ == root_) return counts_;
    return std::vector<std::size_t>(case_.seed % 2 == 0 ? 0 : p_ + me_, 77);
  }

  Work call(ConstBuffer in, Buffer out) {
    const Case& c = case_;
    const CallOptions by{.algorithm = c.algorithm};
    switch (c.kind) {
      case Kind::allreduce: return world_.allreduce(in, out, c.op, by);
      case Kind::reduce: return world_.reduce(in, out, c.op, c.root, by);
      case Kind::broadcast: return world_.broadcast(out, c.root, by);
      case Kind::allgather: return c.variable ? world_.allgatherv(in, out, counts_, by) : world_.allgather(in, out, by);
      case Kind::reduce_scatter:
        return c.variable ? world_.reduce_scatterv(in, out, counts_, c.op, by)
                          : world_.reduce_scatter(in, out, c.op, by);
      case Kind::gather:
        return c.variable ? world_.gatherv(in, out, counts_of_root(), c.root, by) : world_.gather(in, out, c.root, by);
      case Kind::scatter:
        return c.variable ? world_.scatterv(in, out, counts_of_root(), c.root, by)
                          : world_.scatter(in, out, c.root, by);
      case Kind::alltoall:
        if (c.variable) return world_.alltoallv(in, pairs(true), out, pairs(false), by);
        return world_.alltoall(in, out, by);
      default: return world_.barrier();
    }
  }

  std::string same(const Data& data, std::size_t from, std::size_t at, std::size_t count) const {
    const std::size_t width = size_of(case_.dtype);
    const bool equal = std::equal(result_ + at * width, result_ + (at + count) * width, data.data() + from * width);
    return equal ? "" : "the elements from " + std::to_string(at) + " on are not the ones sent";
  }
  std::string gathered() const {
    for (std::size_t r = 0; r < p_; ++r)
      if (auto bad = same(inputs_[r], 0, before(r), counts_[r]); !bad.empty()) return bad;
    return "";
  }
  std::string exchanged() const {
    std::size_t at = 0;
    for (std::size_t r = 0; r < p_; ++r) {
      std::size_t from = 0;
      for (std::size_t b = 0; b < me_; ++b) from += pair(r, b);
      if (auto bad = same(inputs_[r], from, at, pair(r, me_)); !bad.empty()) return bad;
      at += pair(r, me_);
    }
    return "";
  }

  Communicator& world_;
  Case case_;
  std::size_t p_, me_ = 0, root_ = 0, total_ = 0;
  std::vector<std::size_t> counts_;
  std::vector<Data> inputs_;
  Data in_data_, out_data_;
  std::optional<Allocation<std::uint8_t>> in_shared_, out_shared_;  // replace the data above for shared buffers
  Bytes in_, out_;
  Accelerator* gpu_ = nullptr;
  std::shared_ptr<void> in_device_, out_device_;  // copies of in_ and out_ on the device, for device buffers
  bool in_place_ = false;
  std::byte* result_ = nullptr;
};

}  // namespace tutti::testing
