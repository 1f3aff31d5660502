// Rules without second moments: SGD, momentum, Nesterov, LARS, Lion. In formulas, d is the weight decay.
#include "engine/optimizers/rules.hpp"

namespace tutti::engine::rules {
namespace {

class Sgd final : public Optimizer {
 public:
  Sgd(const std::vector<ParameterGroup>& groups, const Options& options) : Optimizer(groups, options) {}

 private:
  std::vector<std::string> slots(const Parameter&) const override { return {}; }
  void update(Parameter& p, const at::Tensor& gradient) override { p.tensor.add_(with_decay(p, gradient), -rate(p)); }
};

/// Heavy ball: v <- momentum v + (1 - dampening) g, w <- w - lr v; initially v = g. Nesterov: w <- w - lr (g + momentum
/// v).
class Momentum final : public Optimizer {
 public:
  Momentum(const std::vector<ParameterGroup>& groups, const Options& options)
      : Optimizer(groups, options), nesterov_(name() == "nesterov") {}

 private:
  std::vector<std::string> slots(const Parameter&) const override { return {"momentum"}; }
  void begin_step() override {
    momentum_ = value("momentum");
    dampening_ = nesterov_ ? 0 : value("dampening");
  }
  void update(Parameter& p, const at::Tensor& gradient) override {
    const at::Tensor& g = with_decay(p, gradient);
    at::Tensor& v = p.slots[0];
    v.mul_(momentum_).add_(g, p.step == 1 ? 1 : 1 - dampening_);
    if (nesterov_) p.tensor.add_(g, -rate(p));
    p.tensor.add_(v, nesterov_ ? -rate(p) * momentum_ : -rate(p));
  }

  const bool nesterov_;
  double momentum_ = 0, dampening_ = 0;
};

/// LARS: v <- momentum v + lr l (g + d w), w <- w - v. Per layer, l = trust |w| / (|g| + d |w|); l = 1 if a norm is 0.
class Lars final : public Optimizer {
 public:
  Lars(const std::vector<ParameterGroup>& groups, const Options& options)
      : Optimizer(groups, options), vectors_(options.flag("adapt_vectors")) {}

 private:
  std::vector<std::string> slots(const Parameter&) const override { return {"momentum"}; }
  void begin_step() override {
    momentum_ = value("momentum");
    trust_ = value("trust");
  }
  void update(Parameter& p, const at::Tensor& gradient) override {
    double local = 1;
    if (vectors_ || p.tensor.dim() > 1) {
      const double weight = p.tensor.norm().item<double>(), slope = gradient.norm().item<double>();
      if (weight > 0 && slope > 0) local = trust_ * weight / (slope + decay(p) * weight);
    }
    p.slots[0].mul_(momentum_).add_(with_decay(p, gradient), rate(p) * local);
    p.tensor.sub_(p.slots[0]);
  }

  const bool vectors_;
  double momentum_ = 0, trust_ = 0;
};

/// Lion: w <- w - lr (sign(beta1 m + (1 - beta1) g) + d w), then m <- beta2 m + (1 - beta2) g.
class Lion final : public Optimizer {
 public:
  Lion(const std::vector<ParameterGroup>& groups, const Options& options) : Optimizer(groups, options) {}

 private:
  std::vector<std::string> slots(const Parameter&) const override { return {"momentum"}; }
  void begin_step() override {
    beta1_ = value("beta1");
    beta2_ = value("beta2");
  }
  void update(Parameter& p, const at::Tensor& gradient) override {
    at::Tensor& direction = scratch(p, 0);
    direction.copy_(p.slots[0]).mul_(beta1_).add_(gradient, 1 - beta1_).sign_();
    p.tensor.mul_(1 - rate(p) * decay(p)).add_(direction, -rate(p));
    p.slots[0].mul_(beta2_).add_(gradient, 1 - beta2_);
  }

  double beta1_ = 0, beta2_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_descent(const std::vector<ParameterGroup>& groups, const Options& options) {
  const std::string_view name = options.choice().name;
  if (name == "sgd") return std::make_unique<Sgd>(groups, options);
  if (name == "momentum" || name == "nesterov") return std::make_unique<Momentum>(groups, options);
  if (name == "lars") return std::make_unique<Lars>(groups, options);
  if (name == "lion") return std::make_unique<Lion>(groups, options);
  return nullptr;
}

}  // namespace tutti::engine::rules
