// Translates a conversion's request to a job spec and back. `rollctl convert --submit` queues the
// job, and roll-convert runs it.
#pragma once

#include <optional>
#include <string>

#include "common/spec/train/convert.hpp"
#include "worker/convert/read/open.hpp"
#include "worker/convert/write/output.hpp"

namespace roll::convert {

// The request for one conversion: the input, the output, and the way in which the conversion runs.
struct Request : Input, Output, Run {};

// Parses "keep" (nullopt), "fp32", "bf16", "fp16" or "fp8". Fails with InvalidArgument for other
// names.
Result<std::optional<tensor::DType>> parse_dtype_name(const std::string& name);
std::string dtype_word(std::optional<tensor::DType> dtype);  // the inverse of parse_dtype_name()

// Parses "fp32", "bf16" or "fp16". Fails with InvalidArgument for other names.
Result<tensor::DType> parse_grad_dtype(const std::string& name);

// Returns the job spec for a request. Omits threads, --verify and --dry-run, because a job uses the
// threads of its slots and always verifies the target.
spec::ConvertSpec spec_of(const Request& request);

// Returns the request for a job spec. If the spec has no source, the request has no source. Fails
// with InvalidArgument if a format or type is unknown; the message names the format or type.
Result<Request> request_of(const spec::ConvertSpec& spec);

}  // namespace roll::convert
