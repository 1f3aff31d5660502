// Optimizer: updates named parameters from their gradients; its state is stored by the parameters' names.
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

#include "engine/config/tables.hpp"
#include "nn/module.hpp"

namespace tutti::engine {

/// Parameters that share two factors: one for the optimizer's learning rate, one for its weight decay.
struct ParameterGroup {
  std::vector<nn::NamedTensor> parameters;
  double lr_factor = 1;
  double decay_factor = 1;
};

/// Separate factors for biases and normalisation layers, which are recognised by name: a bias is named "...bias"; a
/// "...weight" of at most one dimension, and the bias beside it, belong to a normalisation layer.
struct GroupPreset {
  double bias_lr_factor = 1;
  bool decay_bias = true;
  bool decay_norm = true;
};

/// Divides the parameters into groups according to `preset`; each parameter is in exactly one group.
std::vector<ParameterGroup> group_parameters(const std::vector<nn::NamedTensor>& parameters, const GroupPreset& preset);

/// The state of an optimizer. Tensors are named "<parameter>.<slot>", as in "fc1.weight.momentum"; "<parameter>.step"
/// is the number of updates of the parameter. The tensors share the optimizer's memory: copy them to keep them beyond
/// the next step().
struct OptimizerState {
  std::string optimizer;   ///< name of the rule
  std::int64_t steps = 0;  ///< number of calls of step()
  std::vector<nn::NamedTensor> tensors;
};

/// An optimizer, created by make_optimizer(). It shares the parameters with the caller. Their device and dtype must not
/// change after the first step. State memory is allocated when a parameter has its first gradient. For one thread.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient, in place. A parameter without a gradient, and its state, are not
  /// changed. Throws Error{invalid} for a sparse gradient.
  void step();

  double learning_rate() const { return value("lr"); }
  void set_learning_rate(double rate) { set("lr", rate); }
  /// Reads or sets one of the rule's numbers; set() takes effect at the next step. Throws Error{invalid} for an unknown
  /// key or a value out of range.
  double value(std::string_view key) const;
  void set(std::string_view key, double value);

  std::string_view name() const noexcept { return options_.choice().name; }
  std::int64_t steps() const noexcept { return steps_; }

  OptimizerState state() const;
  /// Restores a state and copies its tensors. Later steps are bitwise equal to those of the saved optimizer. The
  /// learning rate and other numbers are not part of the state. Throws Error{invalid}, and changes nothing, if the
  /// state belongs to another rule or does not fit the parameters.
  void load_state(const OptimizerState& state);

 protected:
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    double lr_factor = 1, decay_factor = 1;
    std::int64_t step = 0;              ///< number of updates, including the current one
    std::vector<at::Tensor> slots;      ///< in the order of slots()
    std::array<at::Tensor, 2> scratch;  ///< views from scratch()
  };

  Optimizer(const std::vector<ParameterGroup>& groups, Options options);

  /// Names of the state tensors of a parameter, in the order of Parameter::slots. They are initialised to zero.
  virtual std::vector<std::string> slots(const Parameter& parameter) const = 0;
  /// Called once per step, before the first update; may read value().
  virtual void begin_step() {}
  virtual void update(Parameter& parameter, const at::Tensor& gradient) = 0;

  const Options& options() const noexcept { return options_; }
  double rate(const Parameter& parameter) const { return rate_ * parameter.lr_factor; }
  double decay(const Parameter& parameter) const { return decay_ * parameter.decay_factor; }
  /// Temporary memory in the parameter's shape. Parameters share this memory, so it is valid during one update only.
  at::Tensor& scratch(Parameter& parameter, std::size_t which);
  /// Returns the gradient plus weight decay, in scratch 0. Returns the gradient itself if the decay is 0.
  const at::Tensor& with_decay(Parameter& parameter, const at::Tensor& gradient);

 private:
  void make_slots(Parameter& parameter) const;
  struct Loading;
  Loading loading(const OptimizerState& state, std::size_t index) const;

  Options options_;
  std::map<std::string, double, std::less<>> values_;
  std::vector<Parameter> parameters_;
  std::array<std::vector<at::Tensor>, 2> pools_;  // memory for scratch(): one tensor per dtype and device
  std::int64_t steps_ = 0;
  double rate_ = 0, decay_ = 0;
};

/// Creates the optimizer with this name in optimizer_table(). Throws Error{invalid} for an unknown name or option, a
/// value out of range, or a parameter that is listed twice.
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const std::vector<ParameterGroup>& groups,
                                          const Options::Given& options = {});

/// Returns the Euclidean norm of all gradients together. Parameters without a gradient count as zero. Blocks until the
/// device has computed it.
double gradient_norm(const std::vector<nn::NamedTensor>& parameters);

/// Scales all gradients by a common factor so that their norm is at most `most` (Pascanu, Mikolov and Bengio 2013), and
/// returns the norm before scaling. If the norm is not finite, the gradients do not change. A caller that already knows
/// the norm passes it as `norm`, for example when the network is sharded over ranks.
double clip_gradient_norm(const std::vector<nn::NamedTensor>& parameters, double most, std::optional<double> norm = {});

}  // namespace tutti::engine
