// Fuzzes files of torch.save. Archive members must be inside the archive, and tensors inside their
// storage. Reads every byte of each view. The arguments of a run must be numbers that a layout may
// have.
#include "worker/formats/zip.hpp"

#include "common/check.hpp"
#include "tests/fuzz/input.hpp"
#include "worker/formats/megatron.hpp"
#include "worker/formats/torch_file.hpp"

namespace {

using roll::tensor::StridedView;

// Reads the first and the last element that the strides reach.
void touch(const StridedView& view) {
    std::int64_t last = 0;
    for (std::size_t dim = 0; dim < view.strides.size(); ++dim) {
        if (view.info.shape[dim] == 0) return;
        last += (view.info.shape[dim] - 1) * view.strides[dim];
    }
    const volatile std::byte* const bytes = view.first;
    const std::int64_t size = roll::tensor::bits_of(view.info.dtype) / 8;
    (void)bytes[0];
    (void)bytes[(last + 1) * size - 1];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto bytes = roll::fuzz::bytes_of(data, size);
    if (const auto members = roll::formats::parse_zip(bytes)) {
        for (const roll::formats::ZipMember& member : *members) {
            const auto content = bytes.subspan(static_cast<std::size_t>(member.begin),
                                               static_cast<std::size_t>(member.size));
            roll::formats::crc32_of(0, content);
        }
    }
    const auto file = roll::formats::TorchFile::parse("fuzz.pt", bytes);
    if (!file) return 0;
    if (const auto state = roll::formats::read_megatron_state(*file)) {
        ROLL_CHECK(state->layout.tp > 0 && state->layout.pp > 0);
        roll::formats::native_of_args(state->args);
    }
    const roll::formats::PickleId root = file->pickle().root();
    for (const char* section : {"", "model", "model0"}) {
        const auto* found = file->pickle().find(root, section);
        const auto dict = file->state_dict(found == nullptr ? root : *found);
        if (!dict) continue;
        for (const StridedView& view : dict->tensors) touch(view);
    }
    return 0;
}
