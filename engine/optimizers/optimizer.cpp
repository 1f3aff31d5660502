#include "engine/optimizers/optimizer.hpp"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/optimizers/rules.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

Error invalid(const std::string& text) { return Error(Code::invalid, text); }

std::string shape_of(const at::Tensor& tensor) {
  std::string text = std::string(c10::toString(tensor.scalar_type())) + " (";
  for (std::int64_t i = 0; i < tensor.dim(); ++i) text += (i > 0 ? ", " : "") + std::to_string(tensor.size(i));
  return text + ")";
}

}  // namespace

std::vector<ParameterGroup> group_parameters(const std::vector<nn::NamedTensor>& parameters,
                                             const GroupPreset& preset) {
  const auto is_vector = [&](const std::string& weight) {
    const auto found = std::ranges::find(parameters, weight, &nn::NamedTensor::first);
    return found != parameters.end() && found->second.dim() <= 1;
  };
  std::map<std::pair<double, double>, ParameterGroup> groups;
  for (const auto& [name, tensor] : parameters) {
    const bool bias = name.ends_with("bias");
    const bool norm =
        bias ? is_vector(name.substr(0, name.size() - 4) + "weight") : name.ends_with("weight") && tensor.dim() <= 1;
    const double lr = bias ? preset.bias_lr_factor : 1;
    const double decay = (bias && !preset.decay_bias) || (norm && !preset.decay_norm) ? 0 : 1;
    ParameterGroup& group = groups[{lr, decay}];
    group.lr_factor = lr;
    group.decay_factor = decay;
    group.parameters.emplace_back(name, tensor);
  }
  std::vector<ParameterGroup> list;
  for (auto& [factors, group] : groups) list.push_back(std::move(group));
  return list;
}

Optimizer::Optimizer(const std::vector<ParameterGroup>& groups, Options options) : options_(std::move(options)) {
  for (const OptionInfo& option : options_.choice().options)
    if (option.kind == OptionInfo::Kind::number) values_.emplace(option.key, options_.number(option.key));
  std::set<const void*> tensors;
  std::set<std::string> names;
  for (const ParameterGroup& group : groups)
    for (const auto& [name, tensor] : group.parameters) {
      if (!tensors.insert(tensor.unsafeGetTensorImpl()).second || !names.insert(name).second)
        throw invalid("the optimizer is given " + name + " twice: list each parameter once (nn::named_parameters())");
      Parameter& parameter = parameters_.emplace_back();
      parameter.name = name;
      parameter.tensor = tensor;
      parameter.lr_factor = group.lr_factor;
      parameter.decay_factor = group.decay_factor;
    }
}

double Optimizer::value(std::string_view key) const {
  const auto found = values_.find(key);
  if (found != values_.end()) return found->second;
  std::vector<std::string_view> keys;
  for (const auto& [each, number] : values_) keys.push_back(each);
  throw invalid(std::string(name()) + " has no number '" + std::string(key) + "'" + nearest_of(key, keys));
}

void Optimizer::set(std::string_view key, double number) {
  value(key);  // throws if there is no such number
  const OptionInfo& option = *std::ranges::find(options_.choice().options, key, &OptionInfo::key);
  if (!option.allows(number))
    refuse(std::string(name()) + ": " + std::string(key) + "=" + std::to_string(number) + ": expected a number " +
           option.range());
  values_.find(key)->second = number;
}

at::Tensor& Optimizer::scratch(Parameter& parameter, std::size_t which) {
  at::Tensor& mine = parameter.scratch[which];
  if (mine.defined()) return mine;
  const auto alike = [&](const at::Tensor& other) {
    return other.scalar_type() == parameter.tensor.scalar_type() && other.device() == parameter.tensor.device();
  };
  auto pool = std::ranges::find_if(pools_[which], alike);
  if (pool == pools_[which].end()) {
    std::int64_t most = 0;
    for (const Parameter& each : parameters_)
      if (alike(each.tensor)) most = std::max(most, each.tensor.numel());
    pool = pools_[which].insert(pool, at::empty({most}, parameter.tensor.options().requires_grad(false)));
  }
  mine = pool->narrow(0, 0, parameter.tensor.numel()).view(parameter.tensor.sizes());
  return mine;
}

const at::Tensor& Optimizer::with_decay(Parameter& parameter, const at::Tensor& gradient) {
  const double decay_now = decay(parameter);
  if (decay_now == 0) return gradient;
  return at::add_out(scratch(parameter, 0), gradient, parameter.tensor, decay_now);
}

void Optimizer::make_slots(Parameter& parameter) const {
  if (parameter.slots.empty())
    for (std::size_t i = slots(parameter).size(); i > 0; --i)
      parameter.slots.push_back(at::zeros_like(parameter.tensor));
}

void Optimizer::step() {
  const at::NoGradGuard no_grad;
  rate_ = value("lr");
  decay_ = value("weight_decay");
  begin_step();
  for (Parameter& parameter : parameters_) {
    const at::Tensor& gradient = parameter.tensor.grad();
    if (!gradient.defined()) continue;
    if (gradient.layout() != at::kStrided)
      throw invalid("the gradient of " + parameter.name + " is sparse: make it dense (an Embedding's sparse=false)");
    make_slots(parameter);
    ++parameter.step;
    update(parameter, gradient);
  }
  ++steps_;
}

OptimizerState Optimizer::state() const {
  OptimizerState state{.optimizer = std::string(name()), .steps = steps_, .tensors = {}};
  for (const Parameter& parameter : parameters_) {
    if (parameter.step == 0) continue;
    state.tensors.emplace_back(parameter.name + ".step", at::scalar_tensor(parameter.step, at::kLong));
    const std::vector<std::string> names = slots(parameter);
    for (std::size_t i = 0; i < names.size(); ++i)
      state.tensors.emplace_back(parameter.name + "." + names[i], parameter.slots[i]);
  }
  return state;
}

/// The state of one parameter, as found in an OptimizerState.
struct Optimizer::Loading {
  std::int64_t step = 0;
  std::vector<at::Tensor> slots;
  std::size_t taken = 0;  ///< how many tensors of the OptimizerState belong to this parameter
};

Optimizer::Loading Optimizer::loading(const OptimizerState& state, std::size_t index) const {
  const Parameter& parameter = parameters_[index];
  const auto find = [&](const std::string& what) {
    const auto found = std::ranges::find(state.tensors, parameter.name + "." + what, &nn::NamedTensor::first);
    return found == state.tensors.end() ? at::Tensor() : found->second;
  };
  Loading loading;
  const at::Tensor step = find("step");
  if (!step.defined()) return loading;
  loading.step = step.item<std::int64_t>();
  loading.taken = 1;
  for (const std::string& what : slots(parameter)) {
    const at::Tensor found = find(what);
    const std::string key = parameter.name + "." + what;
    if (!found.defined())
      throw invalid("the state of " + state.optimizer + " lacks " + key + ": it is of another version");
    if (found.sizes() != parameter.tensor.sizes() || found.scalar_type() != parameter.tensor.scalar_type())
      throw invalid("the state's " + key + " is " + shape_of(found) + ", and the parameter " +
                    shape_of(parameter.tensor) + ": take the state of this model");
    loading.slots.push_back(found);
    ++loading.taken;
  }
  return loading;
}

void Optimizer::load_state(const OptimizerState& state) {
  const at::NoGradGuard no_grad;
  if (state.optimizer != name())
    throw invalid("the state is of optimizer " + state.optimizer + ", and this is " + std::string(name()) +
                  ": choose the same");
  std::vector<Loading> all;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    all.push_back(loading(state, i));
    taken += all.back().taken;
  }
  if (taken != state.tensors.size())
    throw invalid("the state has " + std::to_string(state.tensors.size() - taken) +
                  " tensors of parameters that are not here: take the state of this model");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = parameters_[i];
    parameter.step = all[i].step;
    if (parameter.step == 0) {
      parameter.slots.clear();
      continue;
    }
    make_slots(parameter);
    for (std::size_t s = 0; s < parameter.slots.size(); ++s) parameter.slots[s].copy_(all[i].slots[s]);
  }
  steps_ = state.steps;
}

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const std::vector<ParameterGroup>& groups,
                                          const Options::Given& options) {
  const Options checked(choose("optimizer", optimizer_table(), name), options);
  for (const auto& make : {rules::make_descent, rules::make_adaptive})
    if (auto made = make(groups, checked)) return made;
  throw Error(Code::internal, "optimizer " + std::string(name) + " is in the table alone");
}

double gradient_norm(const std::vector<nn::NamedTensor>& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> norms;
  for (const auto& [name, tensor] : parameters)
    if (tensor.grad().defined()) norms.push_back(tensor.grad().norm().to(at::kDouble));
  return norms.empty() ? 0 : at::stack(norms).norm().item<double>();
}

double clip_gradient_norm(const std::vector<nn::NamedTensor>& parameters, double most, std::optional<double> known) {
  const at::NoGradGuard no_grad;
  const double norm = known ? *known : gradient_norm(parameters);
  if (std::isfinite(norm) && norm > most)
    for (const auto& [name, tensor] : parameters)
      if (tensor.grad().defined()) tensor.mutable_grad().mul_(most / norm);
  return norm;
}

}  // namespace tutti::engine
