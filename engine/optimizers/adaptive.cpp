// Rules with second moments: Adam, AdamW, LAMB, AdaGrad, Adadelta, RMSprop; and Muon, which uses AdamW for vectors.
#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/sqrt.h>

#include <algorithm>
#include <cmath>

#include "engine/optimizers/rules.hpp"

namespace tutti::engine::rules {
namespace {

using Groups = std::vector<ParameterGroup>;

/// Base of rules with first and second moments of the gradient, m and v.
class Moments : public Optimizer {
 public:
  using Optimizer::Optimizer;

 protected:
  std::vector<std::string> slots(const Parameter&) const override { return {"exp_avg", "exp_avg_sq"}; }
  void begin_step() override {
    beta1_ = value("beta1");
    beta2_ = value("beta2");
    eps_ = value("eps");
  }
  void gather(Parameter& p, const at::Tensor& g) const {
    p.slots[0].mul_(beta1_).add_(g, 1 - beta1_);
    p.slots[1].mul_(beta2_).addcmul_(g, g, 1 - beta2_);
  }
  double correction1(const Parameter& p) const { return 1 - std::pow(beta1_, static_cast<double>(p.step)); }
  /// Returns sqrt(v / correction) + eps, in scratch 1.
  at::Tensor& divisor(Parameter& p, const at::Tensor& v) {
    const double correction = 1 - std::pow(beta2_, static_cast<double>(p.step));
    return at::sqrt_out(scratch(p, 1), v).div_(std::sqrt(correction)).add_(eps_);
  }
  void adamw(Parameter& p, const at::Tensor& gradient, double rate) {
    p.tensor.mul_(1 - rate * decay(p));
    gather(p, gradient);
    p.tensor.addcdiv_(p.slots[0], divisor(p, p.slots[1]), -rate / correction1(p));
  }

 private:
  double beta1_ = 0, beta2_ = 0, eps_ = 0;
};

/// Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019), AMSGrad (Reddi, Kale and Kumar 2018).
class Adam final : public Moments {
 public:
  Adam(const Groups& groups, const Options& options)
      : Moments(groups, options), decoupled_(name() == "adamw"), amsgrad_(options.flag("amsgrad")) {}

 private:
  std::vector<std::string> slots(const Parameter& p) const override {
    std::vector<std::string> names = Moments::slots(p);
    if (amsgrad_) names.emplace_back("max_exp_avg_sq");
    return names;
  }
  void update(Parameter& p, const at::Tensor& gradient) override {
    if (decoupled_) p.tensor.mul_(1 - rate(p) * decay(p));
    gather(p, decoupled_ ? gradient : with_decay(p, gradient));
    if (amsgrad_) at::maximum_out(p.slots[2], p.slots[2], p.slots[1]);
    p.tensor.addcdiv_(p.slots[0], divisor(p, p.slots[amsgrad_ ? 2 : 1]), -rate(p) / correction1(p));
  }

  const bool decoupled_, amsgrad_;
};

/// LAMB: u = Adam's update + d w, d the weight decay; w <- w - lr (|w| / |u|) u. The quotient is 1 if a norm is 0.
class Lamb final : public Moments {
 public:
  Lamb(const Groups& groups, const Options& options)
      : Moments(groups, options), vectors_(options.flag("adapt_vectors")) {}

 private:
  void update(Parameter& p, const at::Tensor& gradient) override {
    gather(p, gradient);
    at::Tensor& u = at::div_out(scratch(p, 0), p.slots[0], divisor(p, p.slots[1]));
    u.div_(correction1(p)).add_(p.tensor, decay(p));
    double trust = 1;
    if (vectors_ || p.tensor.dim() > 1) {
      const double weight = p.tensor.norm().item<double>(), change = u.norm().item<double>();
      if (weight > 0 && change > 0) trust = weight / change;
    }
    p.tensor.add_(u, -rate(p) * trust);
  }

  const bool vectors_;
};

/// AdaGrad (Duchi, Hazan and Singer 2011).
class Adagrad final : public Optimizer {
 public:
  Adagrad(const Groups& groups, const Options& options) : Optimizer(groups, options) {}

 private:
  std::vector<std::string> slots(const Parameter&) const override { return {"sum"}; }
  void begin_step() override {
    lr_decay_ = value("lr_decay");
    initial_ = value("initial");
    eps_ = value("eps");
  }
  void update(Parameter& p, const at::Tensor& gradient) override {
    const at::Tensor& g = with_decay(p, gradient);
    if (p.step == 1) p.slots[0].fill_(initial_);
    p.slots[0].addcmul_(g, g);
    const double now = rate(p) / (1 + static_cast<double>(p.step - 1) * lr_decay_);
    p.tensor.addcdiv_(g, at::sqrt_out(scratch(p, 1), p.slots[0]).add_(eps_), -now);
  }

  double lr_decay_ = 0, initial_ = 0, eps_ = 0;
};

/// Adadelta (Zeiler 2012).
class Adadelta final : public Optimizer {
 public:
  Adadelta(const Groups& groups, const Options& options) : Optimizer(groups, options) {}

 private:
  std::vector<std::string> slots(const Parameter&) const override { return {"square_avg", "acc_delta"}; }
  void begin_step() override {
    rho_ = value("rho");
    eps_ = value("eps");
  }
  void update(Parameter& p, const at::Tensor& gradient) override {
    const at::Tensor& g = with_decay(p, gradient);
    p.slots[0].mul_(rho_).addcmul_(g, g, 1 - rho_);
    // sqrt((acc_delta + eps) / (square_avg + eps)) g. Scratch 0 may hold g, so the numerator is computed first.
    at::Tensor& change = scratch(p, 1).copy_(p.slots[1]).add_(eps_).sqrt_().mul_(g);
    at::Tensor& deviation = scratch(p, 0).copy_(p.slots[0]).add_(eps_).sqrt_();
    change.div_(deviation);
    p.slots[1].mul_(rho_).addcmul_(change, change, 1 - rho_);
    p.tensor.add_(change, -rate(p));
  }

  double rho_ = 0, eps_ = 0;
};

/// RMSprop (Tieleman and Hinton 2012).
class RmsProp final : public Optimizer {
 public:
  RmsProp(const Groups& groups, const Options& options)
      : Optimizer(groups, options), remembers_(options.number("momentum") > 0), centered_(options.flag("centered")) {}

 private:
  std::vector<std::string> slots(const Parameter&) const override {
    std::vector<std::string> names{"square_avg"};
    if (remembers_) names.emplace_back("momentum");
    if (centered_) names.emplace_back("grad_avg");
    return names;
  }
  void begin_step() override {
    alpha_ = value("alpha");
    eps_ = value("eps");
    momentum_ = value("momentum");
    if (momentum_ > 0 && !remembers_)
      refuse("rmsprop was made with momentum=0 and has none to change: make it with momentum above 0");
  }
  void update(Parameter& p, const at::Tensor& gradient) override {
    const at::Tensor& g = with_decay(p, gradient);
    p.slots[0].mul_(alpha_).addcmul_(g, g, 1 - alpha_);
    at::Tensor& divisor = scratch(p, 1).copy_(p.slots[0]);
    if (centered_) {
      at::Tensor& mean = p.slots.back().mul_(alpha_).add_(g, 1 - alpha_);
      divisor.addcmul_(mean, mean, -1);
    }
    divisor.sqrt_().add_(eps_);
    if (remembers_)
      p.tensor.add_(p.slots[1].mul_(momentum_).addcdiv_(g, divisor), -rate(p));
    else
      p.tensor.addcdiv_(g, divisor, -rate(p));
  }

  const bool remembers_, centered_;
  double alpha_ = 0, eps_ = 0, momentum_ = 0;
};

/// Returns approximately the nearest orthogonal matrix (singular values near 1), by Newton-Schulz iteration with
/// Jordan's coefficients.
at::Tensor orthogonal(const at::Tensor& matrix, std::int64_t iterations) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = tall ? matrix.t() : matrix;
  x = x.div(std::max(x.norm().item<double>(), 1e-7));
  for (std::int64_t i = 0; i < iterations; ++i) {
    const at::Tensor square = x.mm(x.t());
    x = x.mul(a).add_(square.mul(b).add_(square.mm(square), c).mm(x));
  }
  return tall ? x.t() : x;
}

class Muon final : public Moments {
 public:
  Muon(const Groups& groups, const Options& options)
      : Moments(groups, options),
        nesterov_(options.flag("nesterov")),
        match_rms_(options.flag("match_rms")),
        iterations_(options.whole("iterations")) {
    std::string_view names = options.text("adam_names");
    while (!names.empty()) {
      const std::size_t end = std::min(names.find(','), names.size());
      if (end > 0) adam_names_.emplace_back(names.substr(0, end));
      names.remove_prefix(std::min(end + 1, names.size()));
    }
  }

 private:
  bool is_matrix(const Parameter& p) const {
    return p.tensor.dim() == 2 &&
           std::ranges::none_of(adam_names_, [&](const std::string& part) { return p.name.find(part) != p.name.npos; });
  }
  std::vector<std::string> slots(const Parameter& p) const override {
    return is_matrix(p) ? std::vector<std::string>{"momentum"} : Moments::slots(p);
  }
  void begin_step() override {
    Moments::begin_step();
    momentum_ = value("momentum");
    adam_factor_ = value("adam_lr_factor");
  }
  void update(Parameter& p, const at::Tensor& gradient) override {
    if (!is_matrix(p)) return adamw(p, gradient, rate(p) * adam_factor_);
    at::Tensor& v = p.slots[0].mul_(momentum_).add_(gradient, 1 - momentum_);
    const at::Tensor ahead = nesterov_ ? gradient.mul(1 - momentum_).add_(v, momentum_) : v;
    const auto rows = static_cast<double>(p.tensor.size(0)), columns = static_cast<double>(p.tensor.size(1));
    const double scale =
        match_rms_ ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns));
    p.tensor.mul_(1 - rate(p) * decay(p)).add_(orthogonal(ahead, iterations_), -rate(p) * scale);
  }

  const bool nesterov_, match_rms_;
  const std::int64_t iterations_;
  std::vector<std::string> adam_names_;
  double momentum_ = 0, adam_factor_ = 1;
};

}  // namespace

std::unique_ptr<Optimizer> make_adaptive(const Groups& groups, const Options& options) {
  const std::string_view name = options.choice().name;
  if (name == "adam" || name == "adamw") return std::make_unique<Adam>(groups, options);
  if (name == "lamb") return std::make_unique<Lamb>(groups, options);
  if (name == "adagrad") return std::make_unique<Adagrad>(groups, options);
  if (name == "adadelta") return std::make_unique<Adadelta>(groups, options);
  if (name == "rmsprop") return std::make_unique<RmsProp>(groups, options);
  if (name == "muon") return std::make_unique<Muon>(groups, options);
  return nullptr;
}

}  // namespace tutti::engine::rules
