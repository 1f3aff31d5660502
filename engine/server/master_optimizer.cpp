#include "engine/server/master_optimizer.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "collectives/parameter_server/serialization.hpp"
#include "collectives/parameter_server/sharding.hpp"
#include "engine/optimizers/optimizer.hpp"
#include "tutti/parameter_server.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

class MasterOptimizer {
 public:
  MasterOptimizer(const Config& config, const std::vector<nn::NamedTensor>& tensors, const StalenessPolicy& staleness)
      : config_(config), staleness_(staleness) {
    std::size_t at = 0;
    for (const auto& [name, tensor] : tensors) {
      const auto count = static_cast<std::size_t>(tensor.numel());
      layout_.push_back({name, {at, count}, tensor.sizes().vec(), tensor.scalar_type()});
      at += count;
    }
  }

  /// Saves the optimizer's state: the number of steps; and the name, type, sizes and bytes of each tensor.
  std::vector<std::byte> save() const {
    if (!optimizer_) return kept_;
    const OptimizerState state = optimizer_->state();
    Serializer archive;
    archive.put(state.steps);
    for (const auto& [name, tensor] : state.tensors) {
      const at::Tensor whole = tensor.contiguous();
      archive.put_text(name);
      archive.put(whole.scalar_type());
      archive.put_bytes(std::as_bytes(std::span(whole.sizes().data(), whole.sizes().size())));
      archive.put_bytes({static_cast<const std::byte*>(whole.data_ptr()), whole.nbytes()});
    }
    return archive.take();
  }

  /// Keeps the state. The next apply(), which knows the shard, makes the optimizer with it.
  void load(std::span<const std::byte> saved) {
    optimizer_.reset();
    here_.clear();
    kept_.assign(saved.begin(), saved.end());
  }

  void apply(const ShardView& shard, std::span<const Pushed> pushed) {
    const at::NoGradGuard no_grad;
    if (!optimizer_) make(shard);
    double rate = 0;
    std::vector<ConstBuffer> taken;
    std::vector<double> scales;
    for (const Pushed& one : pushed) {
      const double scale = staleness_.factor(one.staleness);
      if (scale == 0) continue;
      taken.push_back(one.data);
      scales.push_back(scale);
      rate = one.meta.factor;
    }
    if (taken.empty()) return;
    for (Here& one : here_) {
      at::Tensor tensor = one.tensor;
      tensor.set_data(view(shard.values.data, one));
      at::Tensor gradient = view(const_cast<std::byte*>(static_cast<const std::byte*>(taken[0].data)), one);
      if (taken.size() > 1 || scales[0] != 1) {  // a single push with factor 1 is used without a copy
        gradient = gradient.mul(scales[0]);
        for (std::size_t i = 1; i < taken.size(); ++i)
          gradient.add_(view(const_cast<std::byte*>(static_cast<const std::byte*>(taken[i].data)), one), scales[i]);
        gradient.div_(static_cast<double>(taken.size()));
      }
      tensor.mutable_grad() = gradient;
    }
    optimizer_->set_learning_rate(rate);
    optimizer_->step();
    for (Here& one : here_) one.tensor.mutable_grad() = at::Tensor();
  }

 private:
  struct Place {
    std::string name;
    tutti::Range range;  // in the whole buffer
    std::vector<std::int64_t> sizes;
    at::ScalarType type;
  };
  struct Here {
    at::Tensor tensor;
    std::size_t begin = 0;  // in the shard's values
    std::vector<std::int64_t> sizes;
    at::ScalarType type;
  };

  static at::Tensor view(void* values, const Here& one) {
    auto* const first = static_cast<std::byte*>(values) + one.begin * c10::elementSize(one.type);
    return at::from_blob(first, one.sizes, at::TensorOptions().dtype(one.type));
  }

  void make(const ShardView& shard) {
    std::vector<nn::NamedTensor> named;
    for (const Place& place : layout_) {
      const tutti::Range part = common(place.range, {shard.offset, shard.values.count});
      if (part.count == 0) continue;
      Here one{{}, part.offset - shard.offset, place.sizes, place.type};
      if (part.count != place.range.count) one.sizes = {static_cast<std::int64_t>(part.count)};
      one.tensor = view(shard.values.data, one);
      named.emplace_back(place.name, one.tensor);
      here_.push_back(std::move(one));
    }
    optimizer_ = make_optimizer(config_.optimizer.name,
                                group_parameters(named, {.bias_lr_factor = config_.optimizer.bias_lr_factor,
                                                         .decay_bias = config_.optimizer.decay_bias,
                                                         .decay_norm = config_.optimizer.decay_norm}),
                                config_.optimizer.options);
    if (!kept_.empty()) take_up();
  }

  void take_up() {
    Deserializer archive(kept_);
    OptimizerState state{
        .optimizer = std::string(optimizer_->name()), .steps = archive.take<std::int64_t>(), .tensors = {}};
    while (!archive.is_at_end()) {
      const std::string name = archive.take_text();
      const auto type = archive.take<at::ScalarType>();
      const ConstBytes sizes = archive.take_bytes();
      std::vector<std::int64_t> shape(sizes.size() / sizeof(std::int64_t));
      if (!sizes.empty()) std::memcpy(shape.data(), sizes.data(), sizes.size());
      const at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(type));
      const ConstBytes values = archive.take_bytes();
      if (values.size() != tensor.nbytes())
        throw Error(Code::protocol, "a master's optimizer is cut short in the dump");
      if (!values.empty()) std::memcpy(tensor.data_ptr(), values.data(), values.size());
      state.tensors.emplace_back(name, tensor);
    }
    optimizer_->load_state(state);
    kept_.clear();
  }

  const Config config_;
  const StalenessPolicy staleness_;
  std::vector<Place> layout_;
  std::vector<Here> here_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<std::byte> kept_;  // the loaded state, until apply() makes the optimizer
};

}  // namespace

ServerRule gradient_rule(const Config& config, const std::vector<nn::NamedTensor>& tensors,
                         const StalenessPolicy& staleness, int quorum, double grace) {
  auto master = std::make_shared<MasterOptimizer>(config, tensors, staleness);
  return {.apply = [master](const ShardView& shard, std::span<const Pushed> pushed) { master->apply(shard, pushed); },
          .quorum = quorum,
          .grace = grace,
          .save = [master](std::span<const Pushed>) { return master->save(); },
          .load = [master](std::span<const std::byte> saved) { master->load(saved); }};
}

}  // namespace tutti::engine
