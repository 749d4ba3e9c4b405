// Tests the simulated device itself: what it hides, refuses and computes.
#include "tests/worker/train/device/simulated_device.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

namespace roll::train {
namespace {

TEST(SimulatedDevice, ComputesAsTheCpuDoes) {
    const at::Tensor a = at::arange(12, at::kDouble).view({3, 4}), b = at::sin(a);
    const at::Tensor x = a.to(simulated_device()), y = b.to(simulated_device());
    EXPECT_FALSE(x.is_cpu());
    EXPECT_TRUE(at::mm(x, y.t()).cpu().equal(at::mm(a, b.t())));
    EXPECT_TRUE(x.narrow(1, 1, 2).mul_(2).cpu().equal(a.narrow(1, 1, 2) * 2));
    EXPECT_TRUE(x.select(1, 1).cpu().equal(a.select(1, 1) * 2));
    EXPECT_TRUE(at::cat({x, y}).sum(0).cpu().equal(
        at::cat({a.clone().index_copy_(1, at::tensor({1, 2}, at::kLong), a.narrow(1, 1, 2) * 2), b})
            .sum(0)));
    EXPECT_TRUE(at::arange(5, x.options()).cpu().equal(at::arange(5, a.options())));
    EXPECT_EQ(x[0][3].item<double>(), 3);
}

TEST(SimulatedDevice, NewMemoryIsNotANumber) {
    const at::Tensor fresh =
        at::empty({3}, at::TensorOptions(at::kFloat).device(simulated_device()));
    EXPECT_TRUE(fresh.isnan().all().item<bool>());
}

TEST(SimulatedDevice, RefusesTensorsOfTwoDevices) {
    const at::Tensor a = at::ones({3}), x = a.to(simulated_device());
    EXPECT_THROW(x.add(a), c10::Error);
    EXPECT_TRUE(x.add(at::scalar_tensor(2)).cpu().equal(a + 2));
}

bool is_killed(int status) { return WIFSIGNALED(status); }

TEST(SimulatedDeviceDeathTest, ItsMemoryHasNoAddressOfTheCpu) {
    const at::Tensor x = at::ones({3}, at::TensorOptions(at::kFloat).device(simulated_device()));
    const volatile float* const address = x.const_data_ptr<float>();
    EXPECT_EXIT(static_cast<void>(*address), is_killed, "");
}

}  // namespace
}  // namespace roll::train
