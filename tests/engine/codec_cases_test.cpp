// Codecs against numbers computed by hand, error bounds and sizes.
#include <gtest/gtest.h>

#include "nn/compression.hpp"
#include "tests/engine/play.hpp"

namespace tutti::engine {
namespace {

at::Tensor wire_of(const nn::Encoding& encoding, const at::Tensor& values) {
  const at::Tensor wire =
      at::zeros({encoding.bytes(values.numel(), static_cast<std::int64_t>(values.element_size()))}, at::kByte);
  encoding.encode(values, wire);
  return wire;
}

at::Tensor through(const nn::Encoding& encoding, const at::Tensor& values) {
  return encoding.decode(wire_of(encoding, values), values.numel(), values.scalar_type());
}

TEST(Encodings, RoundAsTheirFormatsSay) {
  expect_near(values_of(through(*nn::int8_encoding(4), vector_of({1.27, -.64, .005}))), {1.27, -.64, 0});
  expect_near(values_of(through(*nn::e3m0_encoding(4), vector_of({4, 2.9, -.7, .02}))), {4, 2, -.5, 0});
  expect_near(values_of(through(*nn::two_bit_encoding(2), vector_of({4, -1}))), {4, -4.0 / 3});
  expect_near(values_of(through(*nn::chunk_top_k_encoding({.kept = 2, .chunk = 4, .two_bit = true}),
                                vector_of({4, -1, .5, 0}))),
              {4, -4.0 / 3, 0, 0});
  expect_near(values_of(through(*nn::sign_encoding(4), vector_of({1, -2, 3, 0}))), {2, -2, 2, 0});
  expect_near(values_of(through(*nn::vote_encoding(), vector_of({1, -2, 3, 0, 7, -1}))), {1, -1, 1, 0, 1, -1});
}

at::Tensor uneven(std::int64_t count, at::ScalarType type) {
  return (torch::sin(torch::arange(count, torch::kDouble) * 1.7) *
          torch::exp(torch::arange(count, torch::kDouble) * -.01))
      .to(type);
}

/// For each value, the largest magnitude in its chunk.
at::Tensor largest_of(const at::Tensor& values, std::int64_t chunk) {
  const at::Tensor most = values.clone();
  for (std::int64_t at = 0; at < values.numel(); at += chunk) {
    const std::int64_t size = std::min(chunk, values.numel() - at);
    most.narrow(0, at, size).fill_(values.narrow(0, at, size).abs().max());
  }
  return most;
}

TEST(Encodings, KeepTheirBoundsAndTheirSizes) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const std::int64_t count : {1, 5, 64, 1000}) {
      const at::Tensor values = uneven(count, type), wide = values.to(at::kDouble);
      const at::Tensor most = largest_of(wide, 64);
      const std::int64_t rows = (count + 63) / 64, width = type == at::kDouble ? 8 : 4;
      const double slack = type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-6 : 1e-2;
      const auto check = [&](const nn::Encoding& encoding, const at::Tensor& bound, std::int64_t bytes) {
        const at::Tensor off = (through(encoding, values).to(at::kDouble) - wide).abs();
        EXPECT_TRUE((off <= bound + most * slack).all().item<bool>()) << encoding.describe() << " of " << count;
        EXPECT_EQ(encoding.bytes(count, static_cast<std::int64_t>(values.element_size())), (bytes + 7) / 8 * 8)
            << encoding.describe();
      };
      check(*nn::int8_encoding(64), most / 254, rows * width + rows * 64);
      check(*nn::e3m0_encoding(64), at::maximum(wide.abs() / 3, most / 128), rows * width + rows * 32);
      check(*nn::two_bit_encoding(64), most / 3, rows * width + rows * 16);
      check(*nn::sign_encoding(64), most, rows * width + (rows * 64 + 4) / 5);
      check(*nn::chunk_top_k_encoding({.kept = 64, .chunk = 64}), most * 0, rows * 64 * (width + 1));
      check(*nn::chunk_top_k_encoding({.kept = 64, .chunk = 64, .dct = true}),
            most * (type == at::kDouble ? 1e-12 : 1e-5), rows * 64 * (width + 1));
      check(*nn::chunk_top_k_encoding({.kept = 3, .chunk = 1000}), most.max().expand_as(most),
            (count + 999) / 1000 * 3 * (width + 2));
    }
}

TEST(DeMo, DividesByThoseThatSentACoefficient) {
  const auto encoding = nn::chunk_top_k_encoding({.kept = 1, .chunk = 2, .dct = true});
  const at::Tensor a = vector_of({3, 1}), b = vector_of({1, -3});
  expect_near(values_of(a - through(*encoding, a)), {1, -1});
  expect_near(values_of(b - through(*encoding, b)), {-1, -1});
  const at::Tensor wires = at::stack({wire_of(*encoding, a), wire_of(*encoding, b)});
  const at::Tensor merged = encoding->merge(wires, 2, at::kDouble);
  expect_near(values_of(merged), {4, 0});
  expect_near(values_of(merged.round().sign()), {1, 0});
}

TEST(PowerSgd, IsExactByHand) {
  tutti::testing::run_ranks(2, tutti::testing::test_settings("shm"), [](Communicator& world) {
    nn::SyncStats stats;
    nn::Exchange exchange(world, std::make_shared<nn::TensorDevice>(), stats);
    const at::Tensor flat = exchange.allocate({4}, at::kDouble), matrix = flat.view({2, 2});
    const auto codec = nn::power_sgd_compression({.rank = 1, .least_saving = 0})
                           ->codec({.gradients = flat, .parts = {{"w", matrix}}}, exchange);
    at::Tensor left;
    for (auto& [name, tensor] : codec->state()) {
      if (name == "w.q") tensor.fill_(1);
      if (name == "w.error") left = tensor;
    }
    matrix[0][world.rank()] = 2;
    codec->start(exchange);
    do exchange.wait();
    while (!codec->advance(exchange));
    expect_near(values_of(matrix), {1, 1, 0, 0});
    const double sign = world.rank() == 0 ? 1 : -1;
    expect_near(values_of(left), {sign, -sign, 0, 0});
  });
}

}  // namespace
}  // namespace tutti::engine
