#include "worker/train/save/poisoned.hpp"

#include <algorithm>

#include "common/files.hpp"
#include "common/json.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/process/launch.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPoisonedFile = "poisoned.json";
constexpr const char* kPoisonedSchema = "roll.poisoned/1";

Result<std::vector<Poisoned>> decode_poisoned(std::string_view text) {
    ROLL_TRY(const Json json, parse_json(text));
    JsonReader reader(json, kPoisonedFile);
    const auto schema = reader.get<std::string>("schema");
    const Json list = reader.raw("checkpoints");
    ROLL_TRY_VOID(reader.finish_lenient());
    if (schema != kPoisonedSchema || !list.is_array())
        return fail(ErrorCode::Corrupt, "its format is not " + std::string(kPoisonedSchema));
    std::vector<Poisoned> found;
    for (const Json& one : list) {
        JsonReader entry(one, "checkpoints");
        const auto from_step = entry.get<std::int64_t>("from_step");
        const auto by = parse_token(entry.get<std::string>("by"));
        ROLL_TRY_VOID(entry.finish_lenient());
        if (!by)
            return fail(ErrorCode::Corrupt,
                        "an entry of `checkpoints` has no valid attempt in `by`");
        found.push_back({from_step, *by});
    }
    return found;
}

std::vector<Poisoned> read(const fs::path& output) {
    const fs::path file = output / kPoisonedFile;
    const auto text = read_file(file);
    if (!text && text.error().code == ErrorCode::NotFound) return {};
    auto found = decode_poisoned(need(text));
    if (!found)
        throw RankFailure(2, file.string() + ": " + found.error().message +
                                 "; delete this file to allow every checkpoint again");
    return *std::move(found);
}

}  // namespace

void add_poisoned(const fs::path& output, const Poisoned& poisoned) {
    std::vector<Poisoned> all = read(output);
    all.push_back(poisoned);
    OrderedJson list = OrderedJson::array();
    for (const Poisoned& one : all)
        list.push_back({{"from_step", one.from_step}, {"by", to_string(one.by)}});
    const OrderedJson json = {{"schema", kPoisonedSchema}, {"checkpoints", list}};
    need(write_file_atomically(output / kPoisonedFile, json.dump() + "\n"));
}

bool is_poisoned(const fs::path& checkpoint) {
    const auto name = checkpoint::parse_final_name(checkpoint.filename().string());
    return name && std::ranges::any_of(read(output_of(checkpoint)), [&](const Poisoned& one) {
               return name->step >= one.from_step && name->writer <= one.by;
           });
}

checkpoint::Choice choose_sound(const std::vector<fs::path>& newest_first,
                                const checkpoint::Verify& verify) {
    std::vector<fs::path> sound, poisoned;
    for (const fs::path& directory : newest_first)
        (is_poisoned(directory) ? poisoned : sound).push_back(directory);
    checkpoint::Choice choice = checkpoint::choose_newest(sound, checkpoint::For::Resume, verify);
    for (const fs::path& directory : poisoned) {
        choice.skipped.push_back(directory);
        choice.damaged.push_back(directory);
        choice.reasons.push_back("the checkpoint " + directory.string() +
                                 " is skipped: it was written after the loss began to rise, and "
                                 "the loss or gradient of a later step was not finite or too "
                                 "high");
    }
    return choice;
}

}  // namespace roll::train
