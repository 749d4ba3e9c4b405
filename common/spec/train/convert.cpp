#include "common/spec/train/convert.hpp"

#include "common/json.hpp"

namespace roll::spec {
namespace {

std::optional<bool> flag_of(const Json& value) {
    return value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt;
}

}  // namespace

Result<ConvertSpec> convert_spec(std::string_view document) {
    ROLL_TRY(const Json json, parse_json(document));
    const Json kind = json.is_object() ? json.value("kind", Json()) : Json();
    if (kind != "convert" && kind != "merge") {
        return fail(ErrorCode::InvalidArgument, "the document is not of kind convert or merge");
    }
    const bool merges = kind == "merge";
    JsonReader file(json, "job");
    JsonReader reader(file.raw(merges ? "merge" : "convert"), merges ? "merge" : "convert");
    ConvertSpec spec;
    if (merges) {
        spec.source = reader.get<std::string>("base");
        spec.adapters = reader.get<std::vector<std::string>>("adapters");
    } else {
        spec.source = reader.get_or<std::string>("source", "");
        spec.adapter = reader.get_or<std::string>("adapter", "");
        spec.merge = reader.get_or("merge", false);
        spec.optimizer = reader.get_or("optimizer", false);
        spec.optimizer_kind = reader.get_or("optimizer_kind", spec.optimizer_kind);
        spec.bucket_size = reader.get_or("bucket_size", spec.bucket_size);
        spec.grad_dtype = reader.get_or("grad_dtype", spec.grad_dtype);
        // Read source_job only so that finish() accepts the key. The value is not needed here,
        // because the launch file lists the checkpoints of the source job.
        reader.raw("source_job");
        spec.best = reader.get_or<std::string>("of", "last") == "best";
    }
    spec.target = reader.get<std::string>("target");
    spec.to = reader.get_or<std::string>("to", "");
    spec.config = reader.get_or<std::string>("config", "");
    spec.strictness = reader.get_or<std::string>("strictness", spec.strictness);
    spec.state = reader.get_or<std::string>("state", "");
    if (merges) spec.unmerge = reader.get_or("unmerge", false);
    spec.name = reader.get_or<std::string>("name", "");
    spec.dtype = reader.get_or<std::string>("dtype", "keep");
    spec.tp = reader.get_or("tp", 1);
    spec.pp = reader.get_or("pp", 1);
    spec.vpp = reader.get_or("vpp", 1);
    spec.ep = reader.get_or("ep", 1);
    spec.etp = reader.get_or("etp", 0);
    spec.layout = reader.get_or<std::string>("layout", "");
    spec.account_for_embedding = reader.get_or("account_for_embedding", false);
    spec.account_for_loss = reader.get_or("account_for_loss", false);
    spec.first_layers = reader.get_or("first_layers", 0);
    spec.last_layers = reader.get_or("last_layers", 0);
    spec.moe_grouped_gemm = flag_of(reader.raw("moe_grouped_gemm"));
    spec.transformer_impl = reader.get_or<std::string>("transformer_impl", "");
    spec.vocab_divisor = reader.get_or("make_vocab_size_divisible_by", spec.vocab_divisor);
    spec.mtp_layer_name = reader.get_or("mtp_layer_name", spec.mtp_layer_name);
    spec.megatron_version = reader.get_or("checkpoint_version", spec.megatron_version);
    spec.max_shard_size = reader.get_or("max_shard_size", spec.max_shard_size);
    spec.model_max_length = reader.get_or("model_max_length", spec.model_max_length);
    spec.reuse = reader.get_or<std::string>("reuse", "");
    spec.overwrite = reader.get_or("overwrite", false);
    ROLL_TRY_VOID(reader.finish());
    return spec;
}

std::string document_of(const ConvertSpec& spec) {
    const bool merges = !spec.adapters.empty();
    Json json{{"target", spec.target},
              {"dtype", spec.dtype},
              {"tp", spec.tp},
              {"pp", spec.pp},
              {"vpp", spec.vpp},
              {"ep", spec.ep},
              {"account_for_embedding", spec.account_for_embedding},
              {"account_for_loss", spec.account_for_loss},
              {"max_shard_size", spec.max_shard_size},
              {"overwrite", spec.overwrite}};
    if (spec.best) json["of"] = "best";
    if (spec.merge) json["merge"] = true;
    if (spec.optimizer) json["optimizer"] = true;
    if (spec.optimizer_kind != ConvertSpec{}.optimizer_kind)
        json["optimizer_kind"] = spec.optimizer_kind;
    if (spec.bucket_size > 0) json["bucket_size"] = spec.bucket_size;
    if (spec.grad_dtype != ConvertSpec{}.grad_dtype) json["grad_dtype"] = spec.grad_dtype;
    if (!spec.source.empty()) json[merges ? "base" : "source"] = spec.source;
    if (merges) json["adapters"] = spec.adapters;
    if (!spec.to.empty()) json["to"] = spec.to;
    if (!spec.adapter.empty()) json["adapter"] = spec.adapter;
    if (!spec.config.empty()) json["config"] = spec.config;
    if (spec.strictness != "raise_all") json["strictness"] = spec.strictness;
    if (!spec.state.empty()) json["state"] = spec.state;
    if (!spec.reuse.empty()) json["reuse"] = spec.reuse;
    if (spec.unmerge) json["unmerge"] = true;
    if (!spec.name.empty()) json["name"] = spec.name;
    if (spec.etp > 0) json["etp"] = spec.etp;
    if (spec.first_layers > 0) json["first_layers"] = spec.first_layers;
    if (spec.last_layers > 0) json["last_layers"] = spec.last_layers;
    if (spec.vocab_divisor > 0) json["make_vocab_size_divisible_by"] = spec.vocab_divisor;
    if (!spec.mtp_layer_name.empty()) json["mtp_layer_name"] = spec.mtp_layer_name;
    if (spec.megatron_version < 3) json["checkpoint_version"] = spec.megatron_version;
    if (!spec.layout.empty()) json["layout"] = spec.layout;
    if (spec.moe_grouped_gemm) json["moe_grouped_gemm"] = *spec.moe_grouped_gemm;
    if (!spec.transformer_impl.empty()) json["transformer_impl"] = spec.transformer_impl;
    if (spec.model_max_length > 0) json["model_max_length"] = spec.model_max_length;
    const char* const kind = merges ? "merge" : "convert";
    return Json{{"kind", kind}, {kind, json}}.dump();
}

}  // namespace roll::spec
