// A convert job in full: what roll-convert and `rollctl convert` do.
#pragma once

#include <string>
#include <string_view>

#include "common/error.hpp"

namespace roll::spec {

struct ConvertSpec {
    std::string source;          // absolute directory; empty: the checkpoint that the launch names
    std::string target;          // absolute directory
    std::string to;              // "hf", "mca"; empty: an HF source becomes MCA, anything else HF
    std::string dtype = "keep";  // keep, fp32, bf16, fp16
    bool overwrite = false;
};

Result<ConvertSpec> convert_spec(std::string_view document);

}  // namespace roll::spec
