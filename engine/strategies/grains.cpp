// Grains: training whose result is bitwise the same for any number of ranks.
//
// The samples of a step are cut into G grains. One rank runs a forward and a backward pass for each grain. Gradients
// are added in the order of one binary tree over the grains (grain_tree.hpp). A rank adds the nodes within its own
// grains. For each other node, the owner of the right half sends its sum to the rank with the node's first grain.
// Finally rank 0 broadcasts the total. If G is a multiple of the ranks, the longest path to rank 0 has log2(ranks)
// messages. A rank holds at most 2 log2(G) sums.
//
// Every grain begins with the step's initial buffers. A floating-point buffer changes by the mean of the grains'
// changes, added in the same order; any other buffer takes grain 0's value. EasyScale (Li et al., SC 2023) makes
// training on GPUs reproducible in this way.
#include <chrono>
#include <map>

#include "engine/data/sampler.hpp"
#include "engine/strategies/grain_sums.hpp"
#include "engine/strategies/grain_tree.hpp"
#include "engine/strategies/makers.hpp"
#include "nn/synchronize.hpp"

namespace tutti::engine::exchange {
namespace {

class Grains final : public Strategy {
 public:
  Grains(std::size_t grains, Replica replica)
      : Strategy({.name = std::to_string(grains) + " grains",
                  .about = "in " + std::to_string(grains) + " grains, with the same bits for any number of ranks",
                  .equal_gradients = true,
                  .has_buffers = true}),
        grains_(grains),
        world_(std::move(replica.world)),
        tensor_device_(replica.tensor_device),
        tensors_(replica) {
    for (int rank = 0; rank < world_.size(); ++rank)
      owners_.insert(owners_.end(), share(grains_, rank, world_.size()).count, rank);
    mine_ = share(grains_, world_.rank(), world_.size());
    for (const auto& [name, tensor] : replica.buffers)
      if (!tensor.is_floating_point()) {
        counters_.emplace_back(name, tensor);
        before_.push_back(tensor.clone());
        after_.push_back(tensor.clone());
      }
  }

  void begin_step(const StepShare& share) override {
    share_ = share;
    present_ = std::min(grains_, share.global_count);
    tree_ = grain_tree(grains_, present_);
    next_ = 0;
    for (std::size_t i = 0; i < counters_.size(); ++i) before_[i].copy_(counters_[i].second);
    tensors_.begin_step();
  }

  double begin_piece(std::size_t, std::size_t count) override {
    tensors_.forget_gradients();
    return static_cast<double>(count) / static_cast<double>(share_.global_count);
  }

  void end_piece(std::size_t piece) override {
    const std::size_t grain = mine_.begin + piece;
    sums_.emplace(grain, tensors_.take());
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      if (grain == 0) after_[i].copy_(counters_[i].second);
      counters_[i].second.copy_(before_[i]);
    }
    for (; next_ < tree_.size() && tree_[next_].last <= grain; ++next_)
      if (is_mine(tree_[next_])) add(tree_[next_]);
  }

  void end_backward() override {
    for (const Addition& each : tree_)
      if (!is_mine(each)) meet(each);
    GrainSum sum = world_.rank() == 0 ? std::move(sums_.at(0)) : tensors_.make();
    sums_.clear();
    for (GrainSum::Section& each : sum.sections) {
      tensor_device_->note_computed();
      waited([&] { world_.broadcast(each.buffer, 0, tensor_device_->options()).wait(); });
      if (world_.rank() == 0) stats_.bytes += each.buffer.bytes();
    }
    tensors_.give(std::move(sum), present_);
    ++stats_.exchanges;
    ++stats_.finished;
    if (counters_.empty()) return;
    if (world_.rank() == 0)
      for (std::size_t i = 0; i < counters_.size(); ++i) counters_[i].second.copy_(after_[i]);
    waited([&] { nn::synchronize_parameters(counters_, world_, 0, *tensor_device_); });
  }

 private:
  /// Returns true if this rank owns all grains of the addition.
  bool is_mine(const Addition& each) const { return each.left >= mine_.begin && each.last < mine_.begin + mine_.count; }

  void add(const Addition& each) {
    const auto right = sums_.find(each.right);
    sums_.at(each.left).add(right->second);
    tensors_.give_back(std::move(right->second));
    sums_.erase(right);
  }

  /// Performs an addition whose halves may be on two ranks: one sends, the other receives and adds.
  void meet(const Addition& each) {
    const int to = owners_[each.left], from = owners_[each.right], me = world_.rank();
    if (to != from && me == to) {
      GrainSum& sum = sums_.emplace(each.right, tensors_.make()).first->second;
      for (GrainSum::Section& part : sum.sections)
        waited([&] { world_.recv(part.buffer, from, 0, tensor_device_->options()).wait(); });
    }
    if (me == to) add(each);
    if (to == from || me != from) return;
    const auto sum = sums_.find(each.right);
    for (GrainSum::Section& part : sum->second.sections) {
      tensor_device_->note_computed();
      waited([&] { world_.send(part.buffer, to, 0, tensor_device_->options()).wait(); });
      stats_.bytes += part.buffer.bytes();
    }
    tensors_.give_back(std::move(sum->second));
    sums_.erase(sum);
  }

  template <class Call>
  void waited(Call&& call) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    stats_.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  const std::size_t grains_;
  Communicator world_;
  const std::shared_ptr<nn::TensorDevice> tensor_device_;
  GrainTensors tensors_;
  std::vector<int> owners_;  // the rank of each grain
  Range mine_;
  std::vector<nn::NamedTensor> counters_;  // buffers of integers
  std::vector<at::Tensor> before_, after_;
  StepShare share_;
  std::size_t present_ = 0;  // grains that have samples
  std::vector<Addition> tree_;
  std::size_t next_ = 0;                  // index in tree_: this rank has done its additions before it
  std::map<std::size_t, GrainSum> sums_;  // by the sum's first grain
};

}  // namespace

std::unique_ptr<Strategy> make_grains(std::size_t grains, Replica replica) {
  return std::make_unique<Grains>(grains, std::move(replica));
}

}  // namespace tutti::engine::exchange
