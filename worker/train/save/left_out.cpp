#include "worker/train/save/left_out.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "common/files.hpp"
#include "common/json.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/save/continuation.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLeftOutFile = "left_out.json";
constexpr const char* kLeftOutSchema = "roll.left_out/1";

Result<checkpoint::State> decode_left_out(std::string_view text) {
    ROLL_TRY(const Json json, parse_json(text));
    JsonReader reader(json, kLeftOutFile);
    checkpoint::State state;
    const auto schema = reader.get<std::string>("schema");
    state.seed = reader.get<std::uint64_t>("seed");
    state.seq_length = reader.get<std::int64_t>("seq_length");
    state.train_tokens = reader.get<std::int64_t>("train_tokens");
    state.data = reader.get_or("data", state.data);
    state.order = reader.get_or("order", state.order);
    state.left_out = reader.get<std::vector<std::int64_t>>("samples");
    ROLL_TRY_VOID(reader.finish_lenient());
    if (schema != kLeftOutSchema)
        return fail(ErrorCode::Corrupt, "its format is not " + std::string(kLeftOutSchema));
    return state;
}

}  // namespace

void join(std::vector<std::int64_t>& samples, const std::vector<std::int64_t>& more) {
    samples.insert(samples.end(), more.begin(), more.end());
    std::sort(samples.begin(), samples.end());
    samples.erase(std::unique(samples.begin(), samples.end()), samples.end());
}

std::vector<std::int64_t> read_left_out(const fs::path& output, const checkpoint::State& like) {
    const fs::path file = output / kLeftOutFile;
    const auto text = read_file(file);
    if (!text && text.error().code == ErrorCode::NotFound) return {};
    const auto state = decode_left_out(need(text));
    if (!state)
        throw RankFailure(2, file.string() + ": " + state.error().message +
                                 "; delete this file to train on all samples");
    return same_data(*state, like) ? state->left_out : std::vector<std::int64_t>();
}

void write_left_out(const fs::path& output, const checkpoint::State& state) {
    const OrderedJson json = {{"schema", kLeftOutSchema},
                              {"seed", state.seed},
                              {"seq_length", state.seq_length},
                              {"train_tokens", state.train_tokens},
                              {"data", state.data},
                              {"order", state.order},
                              {"samples", state.left_out}};
    need(write_file_atomically(output / kLeftOutFile, json.dump() + "\n"));
}

void share(std::vector<std::int64_t>& samples, Communicator& world) {
    const at::Tensor size = at::zeros({}, at::kDouble);
    if (world.rank() == 0) size.fill_(std::ssize(samples));
    broadcast_from(0, world, size, {Site::Agreement});
    const at::Tensor all = at::zeros({size.item<std::int64_t>()}, at::kDouble);
    if (world.rank() == 0) std::copy(samples.begin(), samples.end(), all.data_ptr<double>());
    broadcast_from(0, world, all, {Site::Agreement});
    const auto* first = all.const_data_ptr<double>();
    samples.assign(first, first + all.numel());
}

}  // namespace roll::train
