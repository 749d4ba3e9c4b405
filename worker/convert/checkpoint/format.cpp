#include "worker/convert/checkpoint/format.hpp"

#include <array>

namespace roll::convert {
namespace {

// Names of the formats, in the order of the enum Format. The last format cannot be a target.
constexpr std::array kFormats = {"hf",           "bin",      "mca",  "torch_dist", "dcp",
                                 "fsdp_dtensor", "megatron", "nemo", "peft",       "deepspeed"};

}  // namespace

const char* name_of(Format format) { return kFormats[static_cast<std::size_t>(format)]; }

Result<Format> parse_format(const std::string& name) {
    std::string known;
    for (std::size_t i = 0; i + 1 < kFormats.size(); ++i) {
        if (name == kFormats[i]) return static_cast<Format>(i);
        known += (known.empty() ? "" : ", ") + std::string(kFormats[i]);
    }
    return fail(ErrorCode::InvalidArgument, "the format must be one of " + known + ", not " + name,
                "roll-convert --help");
}

}  // namespace roll::convert
