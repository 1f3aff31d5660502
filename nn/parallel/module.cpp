#include "nn/parallel/module.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

namespace tutti::nn {
namespace {

at::Tensor brought_together(const ParameterPart& parameter, const at::Tensor& part) {
  const Box all = whole_box(parameter.sizes);
  if (parameter.group->size() == 1 || parameter.boxes.front() == all) return part.clone();
  const std::vector<Box> want(parameter.boxes.size(), all);
  const BoxPlan plan = plan_boxes(parameter.boxes, want, parameter.group->rank());
  return parameter.group->finish(plan, part, parameter.group->start(plan, part));
}

}  // namespace

at::Tensor ParallelModule::add(const std::string& parameter, const at::Tensor& whole, std::vector<Box> boxes,
                               const Group& group) {
  if (!whole.defined()) return register_parameter(parameter, at::Tensor(), false);
  const Box& mine = boxes.at(static_cast<std::size_t>(group->rank()));
  const at::Tensor part = slice(whole, whole_box(whole.sizes()), mine).detach().clone(at::MemoryFormat::Contiguous);
  at::Tensor made = register_parameter(parameter, part);
  parts_.push_back({parameter, made, whole.sizes().vec(), std::move(boxes), group});
  return made;
}

at::Tensor ParallelModule::add(const std::string& parameter, const at::Tensor& whole, std::int64_t dim, const Cut& cut,
                               const Group& group) {
  if (!whole.defined()) return add(parameter, whole, std::vector<Box>{}, group);
  std::vector<Box> boxes(static_cast<std::size_t>(group->size()), whole_box(whole.sizes()));
  for (int rank = 0; rank < group->size(); ++rank)
    boxes[static_cast<std::size_t>(rank)][static_cast<std::size_t>(dim)] = cut[rank];
  return add(parameter, whole, std::move(boxes), group);
}

at::Tensor ParallelModule::add(const std::string& parameter, const at::Tensor& whole, const Group& group) {
  if (!whole.defined()) return add(parameter, whole, std::vector<Box>{}, group);
  return add(parameter, whole, std::vector<Box>(static_cast<std::size_t>(group->size()), whole_box(whole.sizes())),
             group);
}

const ParameterPart& ParallelModule::find(const std::string& parameter) const {
  const auto found = std::ranges::find(parts_, parameter, &ParameterPart::name);
  if (found == parts_.end()) throw Error(Code::invalid, name() + " has no parameter '" + parameter + "'");
  return *found;
}

void ParallelModule::load(const std::string& parameter, const at::Tensor& whole) {
  const ParameterPart& mine = find(parameter);
  if (whole.sizes() != at::IntArrayRef(mine.sizes))
    throw Error(Code::invalid, name() + ": '" + parameter + "' is " + c10::str(at::IntArrayRef(mine.sizes)) +
                                   " in all, not " + c10::str(whole.sizes()));
  const torch::NoGradGuard no_grad;
  at::Tensor part = mine.part;
  part.copy_(slice(whole, whole_box(mine.sizes), mine.boxes[static_cast<std::size_t>(mine.group->rank())]));
}

at::Tensor ParallelModule::whole(const std::string& parameter) const {
  const ParameterPart& mine = find(parameter);
  return brought_together(mine, mine.part.detach());
}

at::Tensor ParallelModule::whole_gradient(const std::string& parameter) const {
  const ParameterPart& mine = find(parameter);
  return brought_together(mine, mine.part.grad().defined() ? mine.part.grad() : at::zeros_like(mine.part));
}

std::vector<ParameterPart> parameter_parts(const torch::nn::Module& module) {
  std::vector<ParameterPart> all;
  const auto take = [&](const torch::nn::Module& one, const std::string& place) {
    const auto* parallel = dynamic_cast<const ParallelModule*>(&one);
    if (parallel == nullptr) return;
    for (ParameterPart part : parallel->parts()) {
      part.name = place.empty() ? part.name : place + "." + part.name;
      all.push_back(std::move(part));
    }
  };
  take(module, "");
  for (const auto& child : module.named_modules("", false)) take(*child.value(), child.key());
  return all;
}

Draw::Draw(std::optional<std::uint64_t> seed, const Group& group) {
  if (!seed) {
    const at::Tensor mine = at::randint(std::int64_t{1} << 62, {1}, at::kLong);
    seed = static_cast<std::uint64_t>(group->broadcast(mine).item<std::int64_t>());
  }
  generator_ = at::make_generator<at::CPUGeneratorImpl>(*seed);
}

at::Tensor Draw::uniform(at::IntArrayRef sizes, std::int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(fan_in, 1)));
  return at::empty(sizes).uniform_(-bound, bound, generator_);
}

at::Tensor Draw::normal(at::IntArrayRef sizes) { return at::empty(sizes).normal_(0, 1, generator_); }

}  // namespace tutti::nn
