// A device for tests that hides its memory from the CPU, as a GPU does. Its tensors have the device
// type PrivateUse1, so is_cpu() is false, and the trainer runs its code for GPUs.
//
// The address of a tensor is not a valid address: a signal ends a program that reads or writes it
// without LibTorch. An operator that gets tensors of the CPU and of the device throws c10::Error,
// as on a GPU, except for copies and for tensors with a single number. New memory is filled with
// NaN. The device computes with LibTorch's operators for CPUs. What it does not show: streams,
// kernels of CUDA and their rounding, and NCCL.
#pragma once

#include <ATen/core/Tensor.h>

#include "worker/train/process/memory.hpp"

namespace roll::train {

// Returns the device. It exists from the start of a program that is linked with this file.
at::Device simulated_device();

// Returns the bytes of the tensors on the device.
DeviceMemory simulated_memory();

}  // namespace roll::train
