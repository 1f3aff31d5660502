// Optimizer: changes named parameters by their gradients, and keeps what it remembers under their names.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/optimizers/table.hpp"
#include "nn/module.hpp"

namespace tutti::engine {

/// Parameters that are treated alike. Factors multiply the optimizer's own learning rate and weight decay.
struct ParameterGroup {
  std::vector<nn::NamedTensor> parameters;
  double lr_factor = 1;
  double decay_factor = 1;
};

/// How biases and normalisation layers differ from other parameters. By name: a bias is called "...bias"; a "...weight"
/// of one dimension, and the bias beside it, are a normalisation layer's.
struct GroupPreset {
  double bias_lr_factor = 1;
  bool decay_bias = true;
  bool decay_norm = true;
};

/// The groups that `preset` makes of the parameters; each of them is in one group.
std::vector<ParameterGroup> group_parameters(const std::vector<nn::NamedTensor>& parameters, const GroupPreset& preset);

/// What an optimizer remembers, under "<parameter>.<what>", as in "fc1.weight.momentum" and "fc1.weight.step", the
/// number of its updates. Tensors share the optimizer's memory: copy them to keep them beyond its next step.
struct OptimizerState {
  std::string optimizer;   ///< the rule's name
  std::int64_t steps = 0;  ///< calls of step()
  std::vector<nn::NamedTensor> tensors;
};

/// Made by make_optimizer(). Shares the parameters, which must stay where they are (device, element type) from the
/// first step on. Memory is allocated with a parameter's first gradient. Threads: one at a time.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Changes every parameter that has a gradient, in place; one without is left alone, and so is what is remembered of
  /// it. Throws Error{invalid} for a sparse gradient.
  void step();

  double learning_rate() const { return value("lr"); }
  void set_learning_rate(double rate) { set("lr", rate); }
  /// Any of the rule's numbers, from the next step on. Throw Error{invalid} for a key that is not one of them.
  double value(std::string_view key) const;
  void set(std::string_view key, double value);

  std::string_view name() const noexcept { return options_.choice().name; }
  std::int64_t steps() const noexcept { return steps_; }

  OptimizerState state() const;
  /// Continues bit for bit from `state`, whose tensors are copied. Learning rate and other numbers are not part of it.
  /// Throws Error{invalid}, and changes nothing, where it is of another rule or does not fit the parameters.
  void load_state(const OptimizerState& state);

 protected:
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    double lr_factor = 1, decay_factor = 1;
    std::int64_t step = 0;              ///< updates, counting the one that is under way
    std::vector<at::Tensor> slots;      ///< as slots() names them
    std::array<at::Tensor, 2> scratch;  ///< see scratch()
  };

  Optimizer(const std::vector<ParameterGroup>& groups, Options options);

  /// Names of what is remembered of a parameter, in the order of Parameter::slots; each begins as zeros.
  virtual std::vector<std::string> slots(const Parameter& parameter) const = 0;
  /// Before the first update of a step: takes value()s.
  virtual void begin_step() {}
  virtual void update(Parameter& parameter, const at::Tensor& gradient) = 0;

  const Options& options() const noexcept { return options_; }
  double rate(const Parameter& parameter) const { return rate_ * parameter.lr_factor; }
  double decay(const Parameter& parameter) const { return decay_ * parameter.decay_factor; }
  /// Memory of the parameter's shape, which is another one's at the next update.
  at::Tensor& scratch(Parameter& parameter, std::size_t which);
  /// The gradient, or in scratch 0 the gradient with weight decay added.
  const at::Tensor& with_decay(Parameter& parameter, const at::Tensor& gradient);

 private:
  void make_slots(Parameter& parameter) const;
  struct Loading;
  Loading loading(const OptimizerState& state, std::size_t index) const;

  Options options_;
  std::map<std::string, double, std::less<>> values_;
  std::vector<Parameter> parameters_;
  std::array<std::vector<at::Tensor>, 2> pools_;  // under scratch(): one for each element type and device
  std::int64_t steps_ = 0;
  double rate_ = 0, decay_ = 0;
};

/// The optimizer of optimizer_table() with this name. Throws Error{invalid}: unknown name or option, values out of
/// range, a parameter that is listed twice.
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const std::vector<ParameterGroup>& groups,
                                          const Options::Given& options = {});

/// The Euclidean norm of all gradients together. Parameters without one count as zero. Waits for the device.
double gradient_norm(const std::vector<nn::NamedTensor>& parameters);

/// Scales all gradients by the same factor so that their norm is at most `most` (Pascanu, Mikolov and Bengio 2013).
/// Returns the norm that they had. Where that is not finite the gradients are left as they are: the caller judges.
/// `norm`: where the caller knows it, as of a network that lies in parts on several ranks.
double clip_gradient_norm(const std::vector<nn::NamedTensor>& parameters, double most, std::optional<double> norm = {});

}  // namespace tutti::engine
