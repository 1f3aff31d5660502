// Modules on a fake device: gradients, parameters, and the reasons why a tensor cannot be reached.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nn/gradient_sync.hpp"
#include "nn/synchronize.hpp"
#include "tests/nn/small_net.hpp"
#include "tests/support/caught.hpp"
#include "tests/support/fake_tensor_device.hpp"

namespace tutti::nn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(OnADevice, BucketsLieThereAndEqualTheCpusBitForBit) {
  std::vector<std::vector<at::Tensor>> wanted(2);
  const auto steps = [](Communicator& world, std::shared_ptr<TensorDevice> tensor_device, const auto& after) {
    Net net;
    GradientSync sync(named_parameters(net), world, {.first_bytes = 256, .cap_bytes = 1200}, std::move(tensor_device));
    for (int step = 0; step < 4; ++step) {
      sync.zero_grad();
      loss_of(net, wave({4, 6}, step + 10 * world.rank())).backward();
      EXPECT_EQ(sync.stats().collectives, 3U * (static_cast<std::size_t>(step) + 1)) << "before finish()";
      sync.finish();
      after(step, gradients(net));
    }
    EXPECT_EQ(sync.stats().overlapped, 8U);
  };
  run(2, [&](Communicator& world) {
    steps(world, nullptr, [&](int, const auto& all) {
      if (world.rank() == 0) wanted[0].insert(wanted[0].end(), all.begin(), all.end());
    });
  });
  tutti::testing::FakeAccelerator& gpu = tutti::testing::use_fake_accelerator();
  gpu.stumble(true);
  run(2, [&](Communicator& world) {
    const auto tensor_device = tutti::testing::fake_tensor_device(gpu, world.rank() % 2);
    std::size_t seen = 0;
    steps(world, tensor_device, [&](int step, const std::vector<at::Tensor>& all) {
      for (const at::Tensor& each : all) EXPECT_TRUE(each.equal(wanted[0][seen++])) << step;
    });
    // One event for every gradient and every bucket, and one for each finish().
    EXPECT_EQ(dynamic_cast<tutti::testing::FakeCompute&>(tensor_device->compute()).recorded(), 4 * (6 + 3 + 1));
  });
  gpu.stumble(false);
}

TEST(OnADevice, AbsentGradientsAndNarrowTypes) {
  tutti::testing::FakeAccelerator& gpu = tutti::testing::use_fake_accelerator();
  run(2, [&](Communicator& world) {
    at::Tensor used = at::ones({5}, at::kHalf).requires_grad_(), here = at::ones({7}).requires_grad_(),
               nowhere = at::ones({3}).requires_grad_();
    GradientSync sync({{"used", used}, {"here", here}, {"nowhere", nowhere}}, world, {},
                      tutti::testing::fake_tensor_device(gpu, 0));
    const double factor = world.rank() + 1;
    (world.rank() == 0 ? used.to(at::kFloat).sum() * factor + here.sum() : used.to(at::kFloat).sum() * factor)
        .backward();
    sync.finish();
    EXPECT_TRUE(used.grad().to(at::kFloat).eq(1.5).all().item<bool>());
    ASSERT_TRUE(here.grad().defined());
    EXPECT_TRUE(here.grad().eq(0.5).all().item<bool>());
    EXPECT_FALSE(nowhere.grad().defined());
    world.barrier().wait();
  });
}

TEST(OnADevice, ModulesBecomeEqualAndAreAveraged) {
  tutti::testing::FakeAccelerator& gpu = tutti::testing::use_fake_accelerator();
  gpu.stumble(true);
  run(3, [&](Communicator& world) {
    const auto tensor_device = tutti::testing::fake_tensor_device(gpu, world.rank() % 2);
    Net net(world.rank() * 10), wanted(20);
    synchronize_parameters(named_state(net), world, 2, *tensor_device);
    for (std::size_t i = 0; i < net.parameters().size(); ++i)
      EXPECT_TRUE(net.parameters()[i].equal(wanted.parameters()[i])) << i;
    for (std::size_t i = 0; i < net.buffers().size(); ++i)
      EXPECT_TRUE(net.buffers()[i].equal(wanted.buffers()[i])) << i;
    check_replicas(net, world);
    net.fc1->weight.mutable_grad() = at::full_like(net.fc1->weight, world.rank() + 1.0);
    EXPECT_EQ(average_gradients(named_parameters(net), world, *tensor_device).averaged, 1U);
    EXPECT_TRUE(net.fc1->weight.grad().eq(2.0).all().item<bool>());
    world.barrier().wait();
  });
  gpu.stumble(false);
}

TEST(OnADevice, SaysWhyATensorCannotBeReached) {
  using tutti::testing::caught;
  tutti::testing::use_fake_accelerator();
  run(1, [&](Communicator& world) {
    EXPECT_TRUE(tensor_device_of(at::Device(at::kCPU), world)->on_cpu());
    EXPECT_THAT(caught([&] { static_cast<void>(tensor_device_of(at::Device(at::kMeta), world)); }).what(),
                HasSubstr("move the module to the CPU, or to a CUDA device"));
    if (!torch_has_cuda()) {
      EXPECT_EQ(torch_cuda_devices(), 0);
      EXPECT_THAT(caught([&] { static_cast<void>(tensor_device_of(at::Device(at::kCUDA, 0), world)); }).what(),
                  AllOf(HasSubstr("built without CUDA"), HasSubstr("-DTUTTI_TORCH")));
    }
    at::Tensor here = at::ones({2}).requires_grad_(), there = at::ones({2}, at::kMeta).requires_grad_();
    EXPECT_THAT(caught([&] {
                  GradientSync({{"here", here}, {"there", there}}, world);
                }).what(),
                HasSubstr("all on one device, which 'there' is not"));
  });
}

}  // namespace
}  // namespace tutti::nn
