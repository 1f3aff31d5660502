// A table of convolutions and pools over pictures in tiles, drawn at random with a fixed seed: outputs, gradients of
// inputs and gradients of weights equal those on one rank to 1e-12. TUTTI_SPACE_CASES sets how many cases are played
// for each grid.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>

#include "nn/parallel/convolution.hpp"
#include "tests/nn/parallel_ranks.hpp"

namespace tutti::nn {
namespace {

std::string text_of(const Sizes& sizes) { return c10::str(at::IntArrayRef(sizes)); }

enum class Layer { convolution, transposed, max, average, l2 };

struct Case {
  Layer layer;
  std::int64_t samples, in, out, groups;
  Sizes extents, kernel, stride, padding, dilation, output_padding;
  bool ceil, count_include_pad;
  Tiling tiling;

  std::string text() const {
    return "layer " + std::to_string(static_cast<int>(layer)) + " groups " + std::to_string(groups) + " extents " +
           text_of(extents) + " kernel " + text_of(kernel) + " stride " + text_of(stride) + " padding " +
           text_of(padding) + " dilation " + text_of(dilation) + " output padding " + text_of(output_padding) +
           (ceil ? " ceil" : "") + (count_include_pad ? "" : " without padding") + " on " +
           c10::str(c10::ArrayRef<int>(tiling.grid()));
  }
  bool has_weights() const { return layer == Layer::convolution || layer == Layer::transposed; }
};

/// Returns even tiles, or tiles with random bounds, some of which may be empty.
Cut draw_cut(std::int64_t extent, int parts, const std::function<std::int64_t(std::int64_t, std::int64_t)>& draw) {
  if (draw(0, 2) > 0) return Cut::even(extent, parts);
  std::vector<std::int64_t> bounds{0, extent};
  for (int i = 1; i < parts; ++i) bounds.push_back(draw(0, extent));
  std::ranges::sort(bounds);
  return Cut(bounds);
}

Case draw_case(std::mt19937& source, const std::vector<int>& grid) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(source() % static_cast<std::uint32_t>(high - low + 1));
  };
  const auto kind = draw(0, 7);
  const Layer layer = kind < 3 ? Layer::convolution : kind < 5 ? Layer::transposed : static_cast<Layer>(kind - 3);
  const std::int64_t groups = draw(1, 2), deep = grid.size() == 3 ? 3 : 5;
  Case made{layer, draw(1, 2), groups * draw(1, 2), groups * draw(1, 2), groups,    {}, {}, {}, {},
            {},    {},         draw(0, 1) == 1,     draw(0, 1) == 1,     Tiling({})};
  std::vector<Cut> cuts;
  for (const int parts : grid) {
    const std::int64_t size = grid.size() == 3 ? draw(1, 4) : draw(1, 7);
    const bool may_dilate = made.has_weights() || layer == Layer::max;
    made.kernel.push_back(size);
    made.stride.push_back(draw(1, 4));
    made.dilation.push_back(may_dilate ? draw(1, 3) : 1);
    made.padding.push_back(made.has_weights() ? draw(0, 3) : std::min<std::int64_t>(draw(0, 3), size / 2));
    made.output_padding.push_back(
        layer == Layer::transposed ? draw(0, std::max(made.stride.back(), made.dilation.back()) - 1) : 0);
    const std::int64_t reach = (size - 1) * made.dilation.back() + 1;
    // The least extent that has at least one output.
    std::int64_t least = std::max<std::int64_t>(reach - 2 * made.padding.back(), 1);
    if (made.ceil && (layer == Layer::max || layer == Layer::average) &&
        grid.size() < 3)  // may reach beyond the picture
      least = std::max<std::int64_t>(least - made.stride.back() + 1, 1);
    if (layer == Layer::transposed)
      least = 1 + std::max<std::int64_t>(2 * made.padding.back() - reach + made.stride.back(), 0) / made.stride.back();
    if (layer == Layer::max) least = std::max(least, made.dilation.back());
    if (grid.size() == 3 && (layer == Layer::average || layer == Layer::l2))
      least = std::max(least, size);  // a limit of LibTorch
    made.extents.push_back(least + draw(0, deep + parts));
    cuts.push_back(draw_cut(made.extents.back(), parts, draw));
  }
  made.tiling = Tiling(cuts);
  return made;
}

/// The results on one rank.
struct Wanted {
  at::Tensor input, weight, bias, gradient;  // given; `gradient` is that of the output
  at::Tensor output, d_input, d_weight, d_bias;
};

at::Tensor pooled(const Case& one, const at::Tensor& x) {
  const Sizes none;
  const bool include = one.count_include_pad;
  if (one.layer == Layer::max) {
    if (one.extents.size() == 1) return at::max_pool1d(x, one.kernel, one.stride, one.padding, one.dilation, one.ceil);
    if (one.extents.size() == 2) return at::max_pool2d(x, one.kernel, one.stride, one.padding, one.dilation, one.ceil);
    return at::max_pool3d(x, one.kernel, one.stride, one.padding, one.dilation, one.ceil);
  }
  const bool is_l2 = one.layer == Layer::l2;
  const at::Tensor in = is_l2 ? x * x : x;
  at::Tensor mean;
  if (one.extents.size() == 1)
    mean = at::avg_pool1d(in, one.kernel, one.stride, one.padding, one.ceil, is_l2 || include);
  else if (one.extents.size() == 2)
    mean = at::avg_pool2d(in, one.kernel, one.stride, one.padding, one.ceil, is_l2 || include,
                          is_l2 ? c10::optional<std::int64_t>(1) : c10::nullopt);
  else
    mean = at::avg_pool3d(in, one.kernel, one.stride, one.padding, one.ceil, is_l2 || include,
                          is_l2 ? c10::optional<std::int64_t>(1) : c10::nullopt);
  if (!is_l2) return mean;
  return one.extents.size() == 1 ? (mean * one.kernel[0]).sqrt() : mean.sqrt();
}

Wanted in_one_place(const Case& one, double salt) {
  Wanted w;
  Sizes shape{one.samples, one.in};
  shape.insert(shape.end(), one.extents.begin(), one.extents.end());
  w.input = wave(shape, salt).requires_grad_();
  at::Tensor output;
  if (one.has_weights()) {
    const bool turned = one.layer == Layer::transposed;
    Sizes weights = turned ? Sizes{one.in, one.out / one.groups} : Sizes{one.out, one.in / one.groups};
    weights.insert(weights.end(), one.kernel.begin(), one.kernel.end());
    w.weight = wave(weights, salt + 1).requires_grad_();
    w.bias = wave({one.out}, salt + 2).requires_grad_();
    output = at::convolution(w.input, w.weight, w.bias, one.stride, one.padding, one.dilation, turned,
                             one.output_padding, one.groups);
  } else {
    output = pooled(one, w.input);
  }
  w.gradient = wave(output.sizes(), salt + 3);
  output.backward(w.gradient);
  w.output = output.detach(), w.d_input = w.input.grad();
  if (one.has_weights()) w.d_weight = w.weight.grad(), w.d_bias = w.bias.grad();
  return w;
}

Tile forward_in_tiles(const Case& one, const Wanted& wanted, const Space& space, const Tile& tile,
                      std::optional<SpaceConv>& conv) {
  if (one.has_weights()) {
    SpaceConvOptions options{
        .kernel = one.kernel, .stride = one.stride, .padding = one.padding, .dilation = one.dilation};
    options.groups = one.groups, options.transposed = one.layer == Layer::transposed;
    options.output_padding = one.output_padding, options.seed = 1;
    options.overlap = !one.ceil || one.count_include_pad;  // random: convolutions ignore these two
    conv = SpaceConv(one.in, one.out, space, options);
    (*conv)->to(at::kDouble);
    (*conv)->load("weight", wanted.weight.detach());
    (*conv)->load("bias", wanted.bias.detach());
    return (*conv)->forward(tile);
  }
  SpacePoolOptions options{
      .kernel = one.kernel, .stride = one.stride, .padding = one.padding, .dilation = one.dilation};
  options.ceil = one.ceil && one.layer != Layer::l2, options.count_include_pad = one.count_include_pad;
  const Pool pool = one.layer == Layer::max ? Pool::max : one.layer == Layer::average ? Pool::average : Pool::l2;
  return SpacePool(pool, space, options)->forward(tile);
}

bool is_near(const at::Tensor& got, const at::Tensor& wanted) {
  if (got.sizes() != wanted.sizes()) return false;
  if (wanted.numel() == 0) return true;
  return (got - wanted).abs().max().item<double>() <= 1e-12 * std::max(1.0, wanted.abs().max().item<double>());
}

/// Returns what is wrong with this rank's parts of the results; empty if they are right.
std::string play(const Case& one, const Wanted& wanted, const Space& space) {
  const at::Tensor x = space.cut(wanted.input.detach(), one.tiling).values.clone().requires_grad_();
  std::optional<SpaceConv> conv;
  const Tile y = forward_in_tiles(one, wanted, space, {x, one.tiling}, conv);
  const auto part = [&](const at::Tensor& whole, const Tiling& tiling) {
    return slice(whole, tiling.whole(), space.box(tiling));
  };
  std::string wrong;
  if (y.tiling.extents() != wanted.output.sizes().slice(2).vec()) return "the size of outputs";
  if (!is_near(y.values, part(wanted.output, y.tiling))) wrong += " outputs";
  y.values.backward(part(wanted.gradient, y.tiling).contiguous());
  if (!is_near(x.grad(), part(wanted.d_input, one.tiling))) wrong += " input's gradient";
  if (conv && !is_near((*conv)->weight.grad(), wanted.d_weight)) wrong += " weight's gradient";
  if (conv && !is_near((*conv)->bias.grad(), wanted.d_bias)) wrong += " bias' gradient";
  return wrong;
}

class Table : public ::testing::TestWithParam<std::vector<int>> {};

TEST_P(Table, EqualsOnePlace) {
  const std::vector<int>& grid = GetParam();
  const char* const wish = std::getenv("TUTTI_SPACE_CASES");
  const int count = wish != nullptr ? std::atoi(wish) : 170;  // 2040 cases in all grids
  std::mt19937 source(
      static_cast<std::uint32_t>(grid.size() * 100 + static_cast<std::size_t>(grid[0] * 10 + grid.back())));
  std::vector<std::pair<Case, Wanted>> cases;
  std::set<std::int64_t> kernels, strides, dilations, paddings;
  for (int i = 0; i < count; ++i) {
    Case one = draw_case(source, grid);
    if (one.layer == Layer::l2) one.ceil = false;
    kernels.insert(one.kernel[0]), strides.insert(one.stride[0]);
    dilations.insert(one.dilation[0]), paddings.insert(one.padding[0]);
    Wanted wanted = in_one_place(one, i);
    cases.emplace_back(std::move(one), std::move(wanted));
  }
  EXPECT_EQ(kernels.size(), grid.size() == 3 ? 4U : 7U);
  EXPECT_TRUE(strides.size() == 4 && dilations.size() == 3 && paddings.size() == 4);
  const Tiling all = Tiling::even(std::vector<std::int64_t>(grid.size(), 1), grid);
  run_inproc(all.parts(), [&](Communicator& world) {
    const Space space(group_of(world), grid);
    for (const auto& [one, wanted] : cases)
      EXPECT_EQ(play(one, wanted, space), "") << one.text() << ", rank " << world.rank();
  });
}

INSTANTIATE_TEST_SUITE_P(Grids, Table,
                         ::testing::Values(std::vector{2}, std::vector{3}, std::vector{5}, std::vector{1, 2},
                                           std::vector{2, 1}, std::vector{2, 2}, std::vector{2, 3}, std::vector{3, 2},
                                           std::vector{3, 3}, std::vector{1, 1, 2}, std::vector{2, 1, 2},
                                           std::vector{2, 2, 2}),
                         [](const auto& one) {
                           std::string text;
                           for (const int parts : one.param) text += (text.empty() ? "" : "x") + std::to_string(parts);
                           return text;
                         });

}  // namespace
}  // namespace tutti::nn
