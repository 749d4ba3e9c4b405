#include "tests/worker/train/device/simulated_device.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>

namespace roll::train {
namespace {

constexpr at::DeviceType kType = at::DeviceType::PrivateUse1;

// Distance from an address of the CPU to the device's address of the same byte. The device's
// addresses are not canonical on x86-64, so each access raises a signal.
constexpr std::uintptr_t kHidden = std::uintptr_t{1} << 62U;

void* hidden(void* address) {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) + kHidden);
}

void* visible(const void* address) {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) - kHidden);
}

// Each block of memory begins with its size, in bytes that no tensor uses.
constexpr std::size_t kHeader = 64;
std::atomic<std::int64_t> allocated = 0, most_allocated = 0;

void release(void* address) {
    char* const block = static_cast<char*>(visible(address)) - kHeader;
    std::int64_t bytes = 0;
    std::memcpy(&bytes, block, sizeof bytes);
    allocated -= bytes;
    c10::free_cpu(block);
}

struct Memory final : c10::Allocator {
    c10::DataPtr allocate(std::size_t bytes) override {
        const at::Device device = simulated_device();
        if (bytes == 0) return {nullptr, device};
        char* const block = static_cast<char*>(c10::alloc_cpu(kHeader + bytes));
        const auto size = static_cast<std::int64_t>(bytes);
        std::memcpy(block, &size, sizeof size);
        most_allocated = std::max(most_allocated.load(), allocated += size);
        void* const address = block + kHeader;
        std::memset(address, 0xFF, bytes);  // NaN in each floating-point type
        return {hidden(address), hidden(address), &release, device};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override {
        std::memcpy(visible(to), visible(from), bytes);
    }
};

Memory memory;

// Returns a tensor of the CPU that shares the memory of a tensor of the device.
at::Tensor on_cpu(const at::Tensor& tensor) {
    const at::TensorOptions options = at::TensorOptions(tensor.scalar_type());
    if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
    return at::from_blob(visible(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(),
                         options);
}

bool is_on_device(const at::Tensor& tensor) {
    return tensor.defined() && tensor.device().type() == kType;
}

at::Tensor on_device(const at::Tensor& tensor) {
    if (!tensor.defined() || is_on_device(tensor)) return tensor;
    const at::Tensor copy = at::empty_strided(tensor.sizes(), tensor.strides(),
                                              tensor.options().device(simulated_device()));
    if (tensor.numel() > 0) on_cpu(copy).copy_(tensor);
    return copy;
}

// Calls `use` for each tensor in the value, and replaces the tensor by the result.
template <class Use>
void replace(c10::IValue& value, const Use& use) {
    if (value.isTensor()) {
        value = use(value.toTensor());
    } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(use(tensor));
        value = std::move(list);
    } else if (value.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> list;
        for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
            list.push_back(tensor ? std::optional(use(*tensor)) : tensor);
        value = std::move(list);
    }
}

// Gives `tensor` the memory and the sizes of a result for which its own memory was too small.
void replace_memory(const at::Tensor& tensor, const at::Tensor& result) {
    const at::Tensor copy = on_device(result);
    at::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(copy.storage());
    impl->set_sizes_and_strides(copy.sizes(), copy.strides());
}

bool is_written(const c10::Argument& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Runs an operator of the CPU on the device's memory.
void run_on_cpu(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/,
                torch::jit::Stack* stack) {
    const c10::FunctionSchema& schema = op.schema();
    const std::size_t count = schema.arguments().size(), begin = stack->size() - count;
    const std::vector<c10::IValue> given(stack->begin() + static_cast<std::ptrdiff_t>(begin),
                                         stack->end());
    bool has_device = false, has_cpu = false;
    for (std::size_t i = begin; i < stack->size(); ++i) {
        replace((*stack)[i], [&](const at::Tensor& tensor) {
            if (is_on_device(tensor)) has_device = true;
            if (tensor.defined() && tensor.is_cpu() && tensor.dim() > 0) has_cpu = true;
            return is_on_device(tensor) ? on_cpu(tensor) : tensor;
        });
        if ((*stack)[i].isDevice()) (*stack)[i] = at::Device(at::kCPU);
    }
    const bool takes_cpu_indices = schema.name() == "aten::index";
    TORCH_CHECK(!has_device || !has_cpu || takes_cpu_indices, schema.name(),
                " got tensors of the CPU and of the device");
    const std::vector<c10::IValue> passed(stack->begin() + static_cast<std::ptrdiff_t>(begin),
                                          stack->end());
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    for (std::size_t i = 0; i < count; ++i)
        if (is_written(schema.arguments()[i]) && given[i].isTensor() &&
            given[i].toTensor().sizes() != passed[i].toTensor().sizes())
            replace_memory(given[i].toTensor(), passed[i].toTensor());
    const std::size_t results = stack->size() - schema.returns().size();
    for (std::size_t r = 0; r < schema.returns().size(); ++r) {
        c10::IValue& result = (*stack)[results + r];
        const c10::AliasInfo* const alias = schema.returns()[r].alias_info();
        TORCH_CHECK(alias == nullptr || alias->isWrite(), schema.name(),
                    " returns a view, which the simulated device does not make");
        if (alias == nullptr) {
            replace(result, on_device);
            continue;
        }
        for (std::size_t i = 0; i < count; ++i)
            if (is_written(schema.arguments()[i]) &&
                schema.arguments()[i].alias_info()->beforeSets() == alias->beforeSets())
                result = given[i];
    }
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type,
                 std::optional<at::Layout> /*layout*/, std::optional<at::Device> /*device*/,
                 std::optional<bool> /*pinned*/, std::optional<at::MemoryFormat> format) {
    return at::detail::empty_generic(sizes, &memory,
                                     c10::DispatchKeySet(at::DispatchKey::PrivateUse1),
                                     type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<at::ScalarType> type, std::optional<at::Layout> /*layout*/,
                         std::optional<at::Device> /*device*/, std::optional<bool> /*pinned*/) {
    return at::detail::empty_strided_generic(sizes, strides, &memory,
                                             c10::DispatchKeySet(at::DispatchKey::PrivateUse1),
                                             type.value_or(at::kFloat));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool /*non_blocking*/) {
    const auto reach = [](const at::Tensor& tensor) {
        return is_on_device(tensor) ? on_cpu(tensor) : tensor;
    };
    reach(to).copy_(reach(from));
    return to;
}

// Only CUDA has this operator. dx = r (w dy) - r^3 x mean(w dy x), dw = sum(dy x r) over the rows.
std::tuple<at::Tensor, at::Tensor> fused_rms_norm_backward(
    const at::Tensor& dy_MC, const at::Tensor& x_MC, at::IntArrayRef /*sizes*/,
    const at::Tensor& rstd_M1, const std::optional<at::Tensor>& w_C, std::array<bool, 2> /*mask*/) {
    const at::Tensor normed_MC = x_MC * rstd_M1, scaled_MC = dy_MC * *w_C;
    const at::Tensor mean_M1 = (scaled_MC * normed_MC).mean(-1, /*keepdim=*/true);
    return {(scaled_MC - normed_MC * mean_M1) * rstd_M1, (dy_MC * normed_MC).sum(0)};
}

const bool is_registered = [] {
    c10::SetAllocator(kType, &memory);
    return true;
}();

}  // namespace

at::Device simulated_device() { return {kType, 0}; }

DeviceMemory simulated_memory() { return {allocated, most_allocated}; }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("empty.memory_format", &empty);
    library.impl("empty_strided", &empty_strided);
    library.impl("as_strided", &at::native::as_strided_tensorimpl);
    library.impl("view", &at::native::view);
    library.impl("_reshape_alias", &at::native::_reshape_alias);
    library.impl("_copy_from", &copy_from);
    library.impl("_fused_rms_norm_backward", &fused_rms_norm_backward);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, c10::impl::NoOpDeviceGuardImpl<at::DeviceType::PrivateUse1>)

}  // namespace roll::train
