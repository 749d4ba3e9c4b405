#include "worker/convert/checkpoint/matcher.hpp"

#include <algorithm>
#include <set>

namespace roll::convert {
namespace {

std::string place_of(const Stored& stored) {
    return stored.file + (stored.section.empty() ? "" : " " + stored.section);
}

std::string lacks(const std::vector<std::string>& missing) {
    return listed(missing) + (missing.size() == 1 ? " is missing" : " are missing");
}

}  // namespace

std::string listed(const std::vector<std::string>& names) {
    constexpr std::size_t kShown = 5;
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
        text += (i == 0 ? "" : ", ") + names[i];
    if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
    return text;
}

bool matches_pattern(std::string_view pattern, std::string_view name) {
    while (!pattern.empty()) {
        if (pattern == "{any}") return true;
        if (!pattern.starts_with("{layer}")) {
            if (name.empty() || name.front() != pattern.front()) return false;
            pattern.remove_prefix(1);
            name.remove_prefix(1);
            continue;
        }
        pattern.remove_prefix(7);
        std::size_t digits = 0;
        while (digits < name.size() && name[digits] >= '0' && name[digits] <= '9') ++digits;
        if (digits == 0) return false;
        name.remove_prefix(digits);
    }
    return name.empty();
}

void drop_run_state(Source& source, const std::string& file, const formats::Pickle& pickle,
                    formats::PickleId dict, std::initializer_list<std::string_view> kept) {
    const std::vector<formats::PickleId>* entries = pickle.entries_of(dict);
    if (entries == nullptr) return;
    for (std::size_t i = 0; i + 1 < entries->size(); i += 2) {
        const formats::PickleNode& key = pickle.at((*entries)[i]);
        const bool is_kept = std::any_of(kept.begin(), kept.end(), [&](std::string_view word) {
            return key.text.starts_with(word);
        });
        if (key.kind == formats::PickleKind::Text && !is_kept)
            source.matching.dropped.push_back({file, key.text, "training state, not a weight"});
    }
}

bool is_dropped(const families::Family& family, const std::string& name) {
    return std::any_of(family.drop.begin(), family.drop.end(),
                       [&](const auto& pattern) { return matches_pattern(pattern, name); });
}

std::string other_spelling(const families::Family& family, const std::string& name) {
    for (const auto& [found, named] : family.spellings)
        if (name.starts_with(found)) return named + name.substr(found.size());
    return "";
}

Matcher::Matcher(std::vector<Stored> expected, Source& source)
    : expected_(std::move(expected)),
      source_(source) {
    for (std::size_t i = 0; i < expected_.size(); ++i)
        places_[{expected_[i].file, expected_[i].section, expected_[i].name}] = i;
}

Result<bool> Matcher::take(const Stored& where, const std::string& found_in,
                           const std::string& name, const tensor::StridedView& view) {
    const auto found = places_.find({where.file, where.section, name});
    if (found == places_.end()) return false;
    Stored& stored = expected_[found->second];
    if (view.info.shape != stored.shape)
        return fail(
            ErrorCode::Corrupt,
            (stored.file.empty() ? (source_.directory / found_in).string() : place_of(stored)) +
                ": " + name + " has shape " + tensor::to_string(view.info.shape) +
                "; the config says " + tensor::to_string(stored.shape));
    stored.file = found_in;
    source_.tensors.push_back({std::move(stored), view});
    places_.erase(found);
    return true;
}

Result<bool> Matcher::take_all(const Stored& where, const std::vector<tensor::StridedView>& views) {
    bool all = !views.empty();
    for (const tensor::StridedView& view : views) {
        ROLL_TRY(const bool taken, take(where, where.file, view.info.name, view));
        all &= taken;
    }
    return all;
}

void Matcher::add_unexpected(const std::string& file, const std::string& name) {
    unexpected_.push_back({file, name});
}

Result<void> Matcher::finish() {
    std::vector<std::string> missing;
    std::string place;
    for (const auto& [at, index] : places_) {
        const Stored& stored = expected_[index];
        if (stored.optional) continue;
        if (missing.empty())
            place = stored.file.empty() ? source_.directory.string() : place_of(stored);
        missing.push_back(stored.name);
    }
    if (!unexpected_.empty() && !allows_missing(source_.matching.strictness)) {
        std::vector<std::string> names;
        for (const Unexpected& one : unexpected_) names.push_back(one.name);
        return no_rule_names(source_, source_.directory / unexpected_.front().file, names, missing);
    }
    if (!missing.empty() && !allows_unexpected(source_.matching.strictness))
        return fail(ErrorCode::Corrupt, place + ": " + lacks(missing));
    for (const Unexpected& one : unexpected_)
        ROLL_TRY_VOID(drop_surplus(source_, one.file, one.name));
    return missing.empty() ? Result<void>() : check_nothing_missing(source_);
}

tl::unexpected<Error> no_rule_names(const Source& source, const std::filesystem::path& file,
                                    const std::vector<std::string>& names,
                                    const std::vector<std::string>& missing) {
    return fail(
        ErrorCode::InvalidArgument,
        file.string() + ": no rule of family " + source.family->name + " names " + listed(names) +
            (missing.empty() ? "" : "; " + lacks(missing)),
        "add a rule to the family's file (docs/families.md); Roll never drops a tensor silently");
}

Result<void> drop_surplus(Source& source, const std::string& file, const std::string& name) {
    if (!allows_missing(source.matching.strictness))
        return no_rule_names(source, source.directory / file, {name}, {});
    source.matching.dropped.push_back({file, name, "no rule of the family names this tensor"});
    source.matching.surplus.push_back(file + " " + name);
    return {};
}

Result<void> check_nothing_missing(Source& source) {
    std::set<int> there;
    for (const SourceTensor& one : source.tensors)
        for (const Piece& piece : one.stored.pieces) there.insert(piece.hf);
    std::vector<std::string> missing;
    for (std::size_t i = 0; i < source.model.tensors.size(); ++i)
        if (!there.contains(static_cast<int>(i))) {
            missing.push_back(source.model.tensors[i].name);
            source.matching.absent.insert(static_cast<int>(i));
        }
    if (missing.empty() || allows_unexpected(source.matching.strictness)) return {};
    return fail(ErrorCode::Corrupt, source.directory.string() + ": " + lacks(missing));
}

}  // namespace roll::convert
