#include "engine/models/parallel/blocks.hpp"

#include <ATen/Functions.h>

#include <utility>

#include "tutti/status.hpp"

namespace tutti::engine {

/// Chains with the same input.
class ParallelBlocks::Branches final : public torch::nn::Module {
 public:
  using Kind = models::BlockPlan::Kind;

  Branches(const models::BlockPlan& plan, const Between& input, const Layout& layout, const SplitChoices& choices)
      : kind_(plan.kind), output_(input) {
    for (const std::vector<Layer>& layers : plan.chains) {
      const bool is_residual = kind_ == Kind::residual;
      names_.push_back(is_residual ? (chains_.empty() ? "body" : "shortcut")
                                   : "way" + std::to_string(chains_.size() + 1));
      chains_.push_back(
          register_module(names_.back(), std::make_shared<ParallelChain>(input, layers, 0, layout, choices)));
    }
    output_ = chains_.front()->output();
    for (std::size_t i = 1; i < chains_.size(); ++i) {
      const Between other = chains_[i]->output();
      if (other.tiling != output_.tiling || other.in_tiles != output_.in_tiles)
        throw Error(Code::internal, plan.name + ": its ways end in different tiles over mesh " + layout.mesh);
      if (kind_ == Kind::side_by_side) output_.channels += other.channels;
    }
  }

  Flow forward(const Flow& flow) {
    nn::Tile made = *chains_.front()->pass(flow).tile;
    if (kind_ == Kind::residual) {
      const at::Tensor other = chains_.size() > 1 ? chains_[1]->pass(flow).tile->values : flow.tile->values;
      return Flow{nn::Tile{at::relu(made.values + other), made.tiling}, {}};
    }
    std::vector<at::Tensor> parts{made.values};
    for (std::size_t i = 1; i < chains_.size(); ++i) parts.push_back(chains_[i]->pass(flow).tile->values);
    return Flow{nn::Tile{at::cat(parts, 1), made.tiling}, {}};
  }

  const Between& output() const noexcept { return output_; }
  const std::vector<std::string>& names() const noexcept { return names_; }
  const std::vector<ChainPtr>& chains() const noexcept { return chains_; }

 private:
  Kind kind_;
  Between output_;
  std::vector<std::string> names_;
  std::vector<ChainPtr> chains_;
};

ParallelBlocks::ParallelBlocks(const models::Request& request, const Layout& layout, const SplitChoices& choices) {
  const std::string name(request.options.choice().name);
  if (!choices.layers.empty())
    throw Error(Code::unsupported, "model=" + name + " over mesh " + layout.mesh +
                                       ": parallel.layers is for chains of layers; leave it out");
  std::optional<Between> between;
  for (const models::BlockPlan& plan : models::blocks_of(request)) {
    if (plan.kind != models::BlockPlan::Kind::chain) {
      const auto block = register_module(plan.name, std::make_shared<Branches>(plan, *between, layout, choices));
      for (std::size_t i = 0; i < block->chains().size(); ++i)
        note(plan.name + "." + block->names()[i] + ".", *block->chains()[i]);
      between = block->output();
      steps_.push_back([block](const Flow& flow) { return block->forward(flow); });
      continue;
    }
    const ChainPtr chain =
        between ? std::make_shared<ParallelChain>(*between, plan.chains[0], request.classes, layout, choices)
                : std::make_shared<ParallelChain>(request.input, plan.chains[0], request.classes, layout, choices);
    register_module(plan.name, chain);
    note(plan.name + ".", *chain);
    if (plan.name != "head") between = chain->output();
    steps_.push_back([chain](const Flow& flow) { return chain->pass(flow); });
  }
}

void ParallelBlocks::note(const std::string& place, const ParallelChain& chain) {
  for (LayerCost cost : chain.costs()) {
    cost.layer.insert(0, place);
    costs_.push_back(std::move(cost));
  }
}

at::Tensor ParallelBlocks::forward(const at::Tensor& batch) {
  Flow flow{std::nullopt, batch};
  for (const auto& step : steps_) flow = step(flow);
  return flow.values;
}

}  // namespace tutti::engine
