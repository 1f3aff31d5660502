// Rules of optimizers: every rule is compared with torch::optim's, or with its formula written out here.
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <functional>

#include "engine/optimizers/optimizer.hpp"
#include "tests/engine/gradients.hpp"

namespace tutti::engine {
namespace {

/// Returns the largest difference in 20 steps between the optimizer `name` and `other`, which gets the same gradients.
template <class Step>
double divergence(const char* name, const Options::Given& options, const Named& others, Step&& other) {
  const Named mine = parameters(others[0].second.size(0), others[0].second.size(1));
  EXPECT_EQ(difference(mine, others), 0);
  const auto optimizer = make_optimizer(name, {{.parameters = mine}}, options);
  double most = 0;
  for (int step = 0; step < 20; ++step) {
    set_gradients(mine, step);
    set_gradients(others, step);
    optimizer->step();
    other();
    most = std::max(most, difference(mine, others));
  }
  EXPECT_GT(difference(mine, parameters(others[0].second.size(0), others[0].second.size(1))), 1e-3) << "it moved";
  return most;
}

template <class Theirs, class TheirOptions>
void expect_parity(const char* name, const Options::Given& options, const TheirOptions& their_options) {
  const Named others = parameters();
  Theirs theirs({others[0].second, others[1].second}, their_options);
  EXPECT_LE(divergence(name, options, others, [&] { theirs.step(); }), 1e-12) << name;
}

TEST(OptimizerRules, SgdIsTorchs) {
  using namespace torch::optim;
  expect_parity<SGD>("sgd", {}, SGDOptions(0.01));
  expect_parity<SGD>("sgd", {{"lr", "0.2"}, {"weight_decay", "0.1"}}, SGDOptions(0.2).weight_decay(0.1));
  expect_parity<SGD>("momentum", {}, SGDOptions(0.01).momentum(0.9));
  expect_parity<SGD>("momentum", {{"dampening", "0.3"}, {"weight_decay", "0.1"}},
                     SGDOptions(0.01).momentum(0.9).dampening(0.3).weight_decay(0.1));
  expect_parity<SGD>("nesterov", {{"weight_decay", "0.1"}},
                     SGDOptions(0.01).momentum(0.9).nesterov(true).weight_decay(0.1));
}

TEST(OptimizerRules, AdamIsTorchs) {
  using namespace torch::optim;
  expect_parity<Adam>("adam", {}, AdamOptions());
  expect_parity<Adam>("adam", {{"lr", "0.1"}, {"beta1", "0.8"}, {"weight_decay", "0.1"}},
                      AdamOptions(0.1).betas(std::make_tuple(0.8, 0.999)).weight_decay(0.1));
  expect_parity<Adam>("adam", {{"lr", "0.1"}, {"amsgrad", "true"}}, AdamOptions(0.1).amsgrad(true));
  expect_parity<AdamW>("adamw", {}, AdamWOptions());
  expect_parity<AdamW>("adamw", {{"lr", "0.1"}, {"eps", "0.001"}, {"amsgrad", "true"}},
                       AdamWOptions(0.1).eps(1e-3).amsgrad(true));
}

TEST(OptimizerRules, AdagradAndRmspropAreTorchs) {
  using namespace torch::optim;
  expect_parity<Adagrad>("adagrad", {}, AdagradOptions());
  expect_parity<Adagrad>("adagrad", {{"lr_decay", "0.1"}, {"initial", "0.5"}, {"weight_decay", "0.1"}},
                         AdagradOptions().lr_decay(0.1).initial_accumulator_value(0.5).weight_decay(0.1));
  expect_parity<RMSprop>("rmsprop", {}, RMSpropOptions());
  expect_parity<RMSprop>("rmsprop", {{"momentum", "0.9"}, {"centered", "true"}, {"weight_decay", "0.1"}},
                         RMSpropOptions().momentum(0.9).centered(true).weight_decay(0.1));
}

// mpi_learn's master optimizers with its options, computed one number at a time.
TEST(OptimizerRules, MpiLearnsMastersAreAmongThem) {
  using Rule = std::function<double(double g, int t, double& a, double& b)>;
  const auto expect = [](const char* name, const Options::Given& options, const Rule& rule) {
    const Named mine{{"w", torch::full({1}, 0.5, torch::kDouble).set_requires_grad(true)}};
    const auto optimizer = make_optimizer(name, {{.parameters = mine}}, options);
    double w = 0.5, a = 0, b = 0;
    for (int t = 1; t <= 20; ++t) {
      const double g = std::sin(3 * w + t) + 0.1;
      mine[0].second.mutable_grad() = torch::full({1}, g, torch::kDouble);
      optimizer->step();
      w -= rule(g, t, a, b);
      EXPECT_NEAR(mine[0].second.item<double>(), w, 1e-6) << name << " step " << t;
    }
  };
  expect("sgd", {}, [](double g, int, double&, double&) { return 0.01 * g; });
  expect("adadelta", {{"rho", "0.95"}, {"eps", "1e-8"}}, [](double g, int, double& g2, double& d2) {
    g2 = 0.95 * g2 + 0.05 * g * g;
    const double change = std::sqrt(d2 + 1e-8) / std::sqrt(g2 + 1e-8) * g;
    d2 = 0.95 * d2 + 0.05 * change * change;
    return change;
  });
  expect("rmsprop", {{"lr", "0.001"}, {"alpha", "0.9"}}, [](double g, int, double& g2, double&) {
    g2 = 0.9 * g2 + 0.1 * g * g;
    return 0.001 / std::sqrt(g2 + 1e-8) * g;
  });
  expect("adam", {}, [](double g, int t, double& m, double& v) {
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    return 0.001 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t)) * m / (std::sqrt(v) + 1e-8);
  });
}

// torch.optim.Adadelta, which C++ does not have: s <- rho s + (1-rho) g^2; u = sqrt((d+eps)/(s+eps)) g.
TEST(OptimizerRules, AdadeltaIsItsFormula) {
  for (const double decay : {0.0, 0.1}) {
    const Named w = parameters();
    std::vector<at::Tensor> s(2), d(2);
    const auto step = [&] {
      const at::NoGradGuard no_grad;
      for (std::size_t i = 0; i < 2; ++i) {
        const at::Tensor g = w[i].second.grad() + decay * w[i].second;
        s[i] = 0.1 * g * g + (s[i].defined() ? 0.9 * s[i] : torch::zeros_like(g));
        if (!d[i].defined()) d[i] = torch::zeros_like(g);
        const at::Tensor u = ((d[i] + 1e-6) / (s[i] + 1e-6)).sqrt() * g;
        d[i] = 0.9 * d[i] + 0.1 * u * u;
        w[i].second.sub_(u);
      }
    };
    EXPECT_LE(divergence("adadelta", {{"weight_decay", std::to_string(decay)}}, w, step), 1e-12);
  }
}

TEST(OptimizerRules, LarsIsItsFormula) {
  for (const bool vectors : {true, false}) {
    const Named w = parameters();
    std::vector<at::Tensor> v{torch::zeros_like(w[0].second), torch::zeros_like(w[1].second)};
    const auto step = [&] {
      const at::NoGradGuard no_grad;
      for (std::size_t i = 0; i < 2; ++i) {
        const at::Tensor x = w[i].second, g = x.grad();
        const double norm = x.norm().item<double>();
        const double local = i == 0 || vectors ? 0.01 * norm / (g.norm().item<double>() + 0.05 * norm) : 1;
        v[i] = 0.9 * v[i] + 0.5 * local * (g + 0.05 * x);
        x.sub_(v[i]);
      }
    };
    EXPECT_LE(
        divergence(
            "lars",
            {{"lr", "0.5"}, {"trust", "0.01"}, {"weight_decay", "0.05"}, {"adapt_vectors", vectors ? "true" : "false"}},
            w, step),
        1e-12);
  }
}

TEST(OptimizerRules, LambIsItsFormula) {
  const Named w = parameters();
  std::vector<at::Tensor> m{torch::zeros_like(w[0].second), torch::zeros_like(w[1].second)}, v = {m[0] * 0, m[1] * 0};
  int t = 0;
  const auto step = [&] {
    const at::NoGradGuard no_grad;
    ++t;
    for (std::size_t i = 0; i < 2; ++i) {
      const at::Tensor x = w[i].second, g = x.grad();
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      const at::Tensor u = m[i] / (1 - std::pow(0.9, t)) / ((v[i] / (1 - std::pow(0.999, t))).sqrt() + 1e-6) + 0.01 * x;
      x.sub_(0.05 * x.norm() / u.norm() * u);
    }
  };
  EXPECT_LE(divergence("lamb", {{"lr", "0.05"}}, w, step), 1e-12);
}

TEST(OptimizerRules, LionIsItsFormula) {
  const Named w = parameters();
  std::vector<at::Tensor> m{torch::zeros_like(w[0].second), torch::zeros_like(w[1].second)};
  const auto step = [&] {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < 2; ++i) {
      const at::Tensor x = w[i].second, g = x.grad();
      x.sub_(0.01 * ((0.9 * m[i] + 0.1 * g).sign() + 0.2 * x));
      m[i] = 0.99 * m[i] + 0.01 * g;
    }
  };
  EXPECT_LE(divergence("lion", {{"lr", "0.01"}, {"weight_decay", "0.2"}}, w, step), 1e-12);
}

// The iteration keeps singular vectors, and applies a s + b s^3 + c s^5 to each singular value.
TEST(OptimizerRules, MuonIsItsFormula) {
  for (const auto& [rows, columns] : {std::pair{3, 5}, {6, 2}}) {
    const Named w = parameters(rows, columns);
    at::Tensor buffer = torch::zeros_like(w[0].second);
    torch::optim::AdamW rest(
        {w[1].second}, torch::optim::AdamWOptions(0.02).betas(std::make_tuple(0.9, 0.95)).eps(1e-10).weight_decay(0.1));
    const auto step = [&] {
      rest.step();
      const at::NoGradGuard no_grad;
      const at::Tensor x = w[0].second, g = x.grad();
      buffer = 0.95 * buffer + 0.05 * g;
      auto [u, s, vh] = torch::linalg_svd(0.05 * g + 0.95 * buffer, false);
      s = s / s.norm();
      for (int i = 0; i < 5; ++i) s = 3.4445 * s - 4.775 * s.pow(3) + 2.0315 * s.pow(5);
      x.mul_(1 - 0.02 * 0.1);
      x.sub_(0.02 * std::sqrt(std::max(1.0, double(rows) / columns)) * torch::mm(u * s, vh));
    };
    EXPECT_LE(divergence("muon", {{"lr", "0.02"}}, w, step), 1e-10);
  }
  torch::manual_seed(1);
  const Named head{{"head.weight", torch::randn({2, 2}).set_requires_grad(true)}};
  const auto optimizer = make_optimizer("muon", {{.parameters = head}});
  set_gradients(head, 0);
  optimizer->step();
  EXPECT_EQ(optimizer->state().tensors[1].first, "head.weight.exp_avg");
}

}  // namespace
}  // namespace tutti::engine
