#include "worker/convert/request.hpp"

#include <array>
#include <utility>

namespace roll::convert {
namespace {

tl::unexpected<Error> invalid(std::string what) {
    return fail(ErrorCode::InvalidArgument, std::move(what), "roll-convert --help");
}

constexpr std::array kDtypes{
    std::pair{"fp32", tensor::DType::F32}, std::pair{"bf16", tensor::DType::BF16},
    std::pair{"fp16", tensor::DType::F16}, std::pair{"fp8", tensor::DType::F8E4M3}};

}  // namespace

Result<std::optional<tensor::DType>> parse_dtype_name(const std::string& name) {
    if (name == "keep") return std::nullopt;
    for (const auto& [known, dtype] : kDtypes)
        if (name == known) return dtype;
    return invalid("the type must be keep, fp32, bf16, fp16 or fp8, not " + name);
}

std::string dtype_word(std::optional<tensor::DType> dtype) {
    for (const auto& [known, value] : kDtypes)
        if (dtype == value) return known;
    return "keep";
}

Result<tensor::DType> parse_grad_dtype(const std::string& name) {
    for (const auto& [known, dtype] : kDtypes)
        if (name == known && tensor::is_castable(dtype)) return dtype;
    return invalid("the type of gradients must be fp32, bf16 or fp16, not " + name);
}

spec::ConvertSpec spec_of(const Request& request) {
    spec::ConvertSpec spec;
    spec.source = request.source;
    for (const std::filesystem::path& adapter : request.adapters) spec.adapters.push_back(adapter);
    spec.target = request.target;
    if (request.to) spec.to = name_of(*request.to);
    spec.config = request.config;
    spec.adapter = request.adapter_source;
    spec.strictness = name_of(request.strictness);
    spec.state = request.state;
    spec.optimizer = request.optimizer;
    spec.optimizer_kind = request.optimizer_kind;
    spec.bucket_size = request.bucket_size;
    spec.grad_dtype = dtype_word(request.grad_dtype);
    spec.unmerge = request.unmerge;
    if (request.name != Request{}.name) spec.name = request.name;
    spec.dtype = dtype_word(request.dtype);
    const formats::McaLayout& layout = request.layout;
    spec.tp = layout.tp;
    spec.pp = layout.pp;
    spec.vpp = layout.vpp;
    spec.ep = layout.ep;
    spec.etp = layout.etp;
    spec.layout = layout.pipeline;
    spec.account_for_embedding = layout.account_for_embedding;
    spec.account_for_loss = layout.account_for_loss;
    spec.first_layers = layout.first_layers;
    spec.last_layers = layout.last_layers;
    spec.moe_grouped_gemm = request.grouped_experts;
    if (request.local_names)
        spec.transformer_impl = *request.local_names ? "local" : "transformer_engine";
    spec.vocab_divisor = request.vocab_divisor;
    spec.megatron_version = request.megatron_version;
    if (request.newer_mtp_names) spec.mtp_layer_name = "mtp_model_layer";
    spec.max_shard_size = request.shard_bytes;
    spec.model_max_length = request.model_max_length.value_or(0);
    spec.reuse = request.reuse;
    spec.overwrite = request.overwrite;
    return spec;
}

namespace {

formats::McaLayout layout_of(const spec::ConvertSpec& spec) {
    formats::McaLayout layout;
    layout.tp = spec.tp, layout.pp = spec.pp, layout.vpp = spec.vpp;
    layout.ep = spec.ep, layout.etp = spec.etp;
    layout.account_for_embedding = spec.account_for_embedding;
    layout.account_for_loss = spec.account_for_loss;
    layout.first_layers = spec.first_layers, layout.last_layers = spec.last_layers;
    layout.pipeline = spec.layout;
    return layout;
}

}  // namespace

Result<Request> request_of(const spec::ConvertSpec& spec) {
    Request request;
    request.source = spec.source;
    for (const std::string& adapter : spec.adapters) request.adapters.emplace_back(adapter);
    request.target = spec.target;
    if (!spec.to.empty()) {
        ROLL_TRY(request.to, parse_format(spec.to));
    }
    request.config = spec.config;
    request.adapter_source = spec.adapter;
    ROLL_TRY(request.strictness, parse_strictness(spec.strictness));
    request.state = spec.state;
    request.optimizer = spec.optimizer;
    request.optimizer_kind = spec.optimizer_kind;
    request.bucket_size = spec.bucket_size;
    ROLL_TRY(request.grad_dtype, parse_grad_dtype(spec.grad_dtype));
    request.unmerge = spec.unmerge;
    if (!spec.name.empty()) request.name = spec.name;
    ROLL_TRY(request.dtype, parse_dtype_name(spec.dtype));
    request.layout = layout_of(spec);
    request.grouped_experts = spec.moe_grouped_gemm;
    if (!spec.transformer_impl.empty()) request.local_names = spec.transformer_impl == "local";
    request.vocab_divisor = spec.vocab_divisor;
    request.megatron_version = spec.megatron_version;
    request.newer_mtp_names = spec.mtp_layer_name == "mtp_model_layer";
    request.shard_bytes = spec.max_shard_size;
    if (spec.model_max_length > 0) request.model_max_length = spec.model_max_length;
    request.reuse = spec.reuse;
    request.overwrite = spec.overwrite;
    request.verify = true;
    return request;
}

}  // namespace roll::convert
