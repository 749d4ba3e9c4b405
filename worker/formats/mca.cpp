#include "worker/formats/mca.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "common/files.hpp"

namespace roll::formats {
namespace {

constexpr const char* kConfigFile = "mca_config.json";
constexpr const char* kTrackerFile = "latest_checkpointed_iteration.txt";

constexpr LayoutNames kMcaNames{.where = "mca_config.json: ",
                                .first_layers = "num_layers_in_first_pipeline_stage",
                                .last_layers = "num_layers_in_last_pipeline_stage"};

// Reads a parallel size; returns `otherwise` if the size is null or absent.
Result<int> size_of(const Json& json, const char* where, const char* key, int otherwise = 1) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) return otherwise;
    if (!found->is_number_integer() || found->get<std::int64_t>() < 1 ||
        found->get<std::int64_t>() > kRanksMax)
        return fail(ErrorCode::Corrupt,
                    std::string(where) + key + " is " + found->dump() + "; it must be 1 to 4096");
    return found->get<int>();
}

std::string text_of(const Json& json, const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

bool is_true(const Json& args, const char* key) {
    const auto found = args.find(key);
    return found != args.end() && found->is_boolean() && found->get<bool>();
}

Result<McaLayout> read_layout(const Json& args, const LayoutNames& names) {
    McaLayout layout;
    ROLL_TRY(layout.tp, size_of(args, names.where, names.tp));
    ROLL_TRY(layout.pp, size_of(args, names.where, "pipeline_model_parallel_size"));
    ROLL_TRY(layout.vpp, size_of(args, names.where, "virtual_pipeline_model_parallel_size"));
    ROLL_TRY(layout.ep, size_of(args, names.where, "expert_model_parallel_size"));
    ROLL_TRY(layout.etp, size_of(args, names.where, "expert_tensor_parallel_size", 0));
    if (layout.etp == layout.tp) layout.etp = 0;
    layout.account_for_embedding = is_true(args, "account_for_embedding_in_pipeline_split");
    layout.account_for_loss = is_true(args, "account_for_loss_in_pipeline_split");
    ROLL_TRY(layout.first_layers, size_of(args, names.where, names.first_layers, 0));
    ROLL_TRY(layout.last_layers, size_of(args, names.where, names.last_layers, 0));
    layout.pipeline = text_of(args, "pipeline_model_parallel_layout");
    return layout;
}

void set_layout(Json& args, const McaConfig& config, tensor::DType dtype,
                const LayoutNames& names) {
    const McaLayout& layout = config.layout;
    args[names.tp] = layout.tp;
    args["pipeline_model_parallel_size"] = layout.pp;
    // Write null for vpp 1, because ROLL looks for the key "model0" if the value is a number.
    args["virtual_pipeline_model_parallel_size"] = layout.vpp > 1 ? Json(layout.vpp) : Json();
    args["expert_model_parallel_size"] = layout.ep;
    args["expert_tensor_parallel_size"] = layout.expert_tp();
    args["account_for_embedding_in_pipeline_split"] = layout.account_for_embedding;
    args["account_for_loss_in_pipeline_split"] = layout.account_for_loss;
    args["pipeline_model_parallel_layout"] =
        layout.pipeline.empty() ? Json() : Json(layout.pipeline);
    args[names.first_layers] = layout.first_layers > 0 ? Json(layout.first_layers) : Json();
    args[names.last_layers] = layout.last_layers > 0 ? Json(layout.last_layers) : Json();
    args["transformer_impl"] = config.local_names ? "local" : "transformer_engine";
    args["moe_grouped_gemm"] = config.grouped_experts;
    args["bf16"] = dtype == tensor::DType::BF16;
    args["fp16"] = dtype == tensor::DType::F16;
}

Result<McaConfig> parse_mca_config(std::string_view text) {
    auto json = parse_json(text);
    if (!json) return fail(ErrorCode::Corrupt, kConfigFile + (": " + json.error().message));
    if (!json->is_object())
        return fail(ErrorCode::Corrupt,
                    "mca_config.json must be a JSON object; copy the file again");
    McaConfig config;
    config.model_type = text_of(*json, "hf_model_type");
    const auto hf_config = parse_json(text_of(*json, "hf_config_json"));
    if (!hf_config || !hf_config->is_object())
        return fail(ErrorCode::Corrupt,
                    "mca_config.json has no key hf_config_json; copy the file again");
    config.hf_config = *hf_config;
    if (config.model_type.empty()) config.model_type = text_of(*hf_config, "model_type");
    if (config.model_type.empty())
        return fail(ErrorCode::Corrupt,
                    "mca_config.json has no key hf_model_type; copy the file again");
    ROLL_TRY(config.layout, read_layout(*json, kMcaNames));
    config.grouped_experts = is_true(*json, "moe_grouped_gemm");
    config.local_names = text_of(*json, "transformer_impl") == "local";
    config.native = *std::move(json);
    return config;
}

Result<McaConfig> read_mca_config(const std::filesystem::path& directory) {
    ROLL_TRY(const std::string text, read_regular_file(directory / kConfigFile));
    auto config = parse_mca_config(text);
    if (!config)
        return fail(config.error().code, directory.string() + ": " + config.error().message);
    return config;
}

std::string mca_config_text(const McaConfig& config, tensor::DType dtype) {
    const McaLayout& layout = config.layout;
    Json json = config.native;
    json["hf_model_type"] = config.model_type;
    json["hf_config_json"] = config.hf_config.dump(2) + "\n";
    if (!json.contains("name_or_path")) json["name_or_path"] = "";
    set_layout(json, config, dtype, kMcaNames);
    json["moe_parallel_folding"] = layout.expert_tp() != layout.tp;
    json["context_parallel_size"] = 1;
    return json.dump(2, ' ', true) + "\n";
}

Result<void> write_mca_root(const std::filesystem::path& directory, const McaConfig& config,
                            tensor::DType dtype) {
    ROLL_TRY_VOID(write_file_atomically(directory / kConfigFile, mca_config_text(config, dtype)));
    return write_file_atomically(directory / kTrackerFile, "1");
}

bool mca_has_rank(const McaLayout& layout, const McaRank& rank) {
    // The tensor-parallel rank tp occurs in the processes tp + k * TP for all k. Their
    // expert-parallel ranks are (tp / ETP + k * TP / ETP) % EP. These are exactly the ranks ep for
    // which ep - tp / ETP is divisible by gcd(TP / ETP, EP).
    const int etp = layout.expert_tp();
    return (rank.ep - rank.tp / etp) % std::gcd(layout.tp / etp, layout.ep) == 0;
}

std::string mca_rank_file(const McaLayout& layout, const McaRank& rank) {
    std::string name = fmt::format("mp_rank_{:02}", rank.tp);
    if (layout.pp > 1) name += fmt::format("_{:03}", rank.pp);
    if (layout.ep > 1) name += fmt::format("_{:03}", rank.ep);
    return "iter_0000001/" + name + "/model_optim_rng.pt";
}

std::string mca_chunk_key(const McaLayout& layout, int chunk) {
    return layout.vpp > 1 ? "model" + std::to_string(chunk) : "model";
}

Result<std::filesystem::path> mca_iteration_directory(const std::filesystem::path& directory) {
    const auto tracker = read_regular_file(directory / kTrackerFile);
    if (!tracker) return directory / "iter_0000001";
    std::string word = *tracker;
    while (!word.empty() && (word.back() == '\n' || word.back() == ' ')) word.pop_back();
    if (word == "release") return directory / "release";
    const bool number =
        !word.empty() && word.size() <= 7 &&
        std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!number)
        return fail(ErrorCode::Corrupt,
                    (directory / kTrackerFile).string() + " says " + dump(word.substr(0, 40)) +
                        "; it must contain the number of an iteration or the word release");
    return directory / fmt::format("iter_{:07}", std::stoi(word));
}

}  // namespace roll::formats
