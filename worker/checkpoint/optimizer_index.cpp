#include "worker/checkpoint/optimizer_index.hpp"

#include <fmt/format.h>

#include "common/damage.hpp"
#include "common/files.hpp"
#include "common/json.hpp"
#include "worker/checkpoint/state.hpp"

namespace roll::checkpoint {
namespace {

constexpr const char* kIndexSchema = "roll.optimizer_index/1";

bool is_inside(const StoredBox& box, const Sizes& shape) {
    const std::size_t dims = shape.size();
    if (box.begin.size() != dims || box.size.size() != dims || box.local.size() != dims)
        return false;
    for (std::size_t i = 0; i < dims; ++i)
        if (box.begin[i] < 0 || box.size[i] < 0 || box.local[i] < 0 ||
            box.begin[i] > shape[i] - box.size[i])
            return false;
    return true;
}

Result<StoredParameter> decode_parameter(const Json& json, const std::string& name) {
    JsonReader reader(json, name);
    StoredParameter parameter{reader.get<Sizes>("shape"), {}};
    const Json& boxes = reader.raw("boxes");
    ROLL_TRY_VOID(reader.finish());
    if (!boxes.is_array()) return fail(ErrorCode::Corrupt, name + ": `boxes` must be a list");
    for (const Json& box : boxes) {
        JsonReader one(box, name);
        StoredBox stored{one.get<std::string>("file"), one.get<Sizes>("begin"),
                         one.get<Sizes>("size"), one.get<Sizes>("local")};
        ROLL_TRY_VOID(one.finish());
        const bool leaves = stored.file.find('/') != std::string::npos;
        if (leaves || !is_inside(stored, parameter.shape))
            return fail(ErrorCode::Corrupt,
                        name +
                            ": a block in `boxes` reaches outside the parameter, or names a file "
                            "outside roll/optimizer");
        parameter.boxes.push_back(std::move(stored));
    }
    return parameter;
}

}  // namespace

std::string encode(const OptimizerIndex& index) {
    OrderedJson parameters = OrderedJson::object();
    for (const auto& [name, parameter] : index.parameters) {
        OrderedJson boxes = OrderedJson::array();
        for (const StoredBox& box : parameter.boxes)
            boxes.push_back({{"file", box.file},
                             {"begin", box.begin},
                             {"size", box.size},
                             {"local", box.local}});
        parameters[name] = {{"shape", parameter.shape}, {"boxes", std::move(boxes)}};
    }
    const OrderedJson json = {{"schema", kIndexSchema},
                              {"updates", index.updates},
                              {"optimizer", index.optimizer},
                              {"parameters", std::move(parameters)}};
    return json.dump() + "\n";
}

Result<OptimizerIndex> decode_optimizer_index(std::string_view text) {
    ROLL_TRY(const Json json, parse_json(text));
    JsonReader reader(json, "optimizer index");
    const auto schema = reader.get<std::string>("schema");
    OptimizerIndex index;
    index.updates = reader.get<std::int64_t>("updates");
    index.optimizer = reader.get_or("optimizer", index.optimizer);
    const Json& parameters = reader.raw("parameters");
    ROLL_TRY_VOID(reader.finish_lenient());
    if (schema != kIndexSchema || !parameters.is_object())
        return fail(ErrorCode::Corrupt,
                    "the optimizer index does not have the format " + std::string(kIndexSchema));
    for (const auto& [name, json_of_one] : parameters.items()) {
        ROLL_TRY(StoredParameter parameter, decode_parameter(json_of_one, name));
        index.parameters[name] = std::move(parameter);
    }
    return index;
}

Result<OptimizerIndex> read_optimizer_index(const std::filesystem::path& checkpoint) {
    const std::filesystem::path path = checkpoint / kOptimizerIndexFile;
    ROLL_TRY(const std::string text, read_file(path));
    auto index = decode_optimizer_index(text);
    if (!index)
        return fail(ErrorCode::Corrupt, path.string() + ": " + index.error().message, kCopyAgain);
    return index;
}

std::string optimizer_file(int rank) { return fmt::format("rank-{:05}.safetensors", rank); }

bool is_optimizer_state(std::string_view path) {
    const std::string folder = std::string(kOptimizerFolder) + "/";
    return path == kOptimizerFile || path.starts_with(folder);
}

}  // namespace roll::checkpoint
