// A configuration of another program, and the results of its translation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"
#include "common/spec/train/preference.hpp"

namespace roll::cli {

// A key of the configuration, and the keys of the job file that it sets.
struct ForeignKey {
    std::string key;
    std::vector<std::string> sets;  // paths of keys of the job file, such as "train.optimizer.lr"
};

struct Foreign {
    // Keys of the configuration that set keys of the job file, in the order of trainer.json
    std::vector<ForeignKey> honoured;
    // Defaults of the foreign program, for keys that the configuration does not set
    std::vector<ForeignKey> defaults;
    std::vector<std::string> no_effect;  // texts "KEY: REASON" for keys without an effect
    std::vector<std::string> remarks;    // differences in meaning that the user should know about
    // The `path` of each problem is a key of the configuration.
    std::vector<spec::Problem> problems;
    std::int64_t sequences_per_replica = 0;  // micro-batch size x gradient accumulation; 0: unknown
};

// Sets a key of a document by its path, such as "train.optimizer.lr".
void set_path(Json& document, const std::string& path, Json value);

// The state of a translation: the keys of the configuration, the job file made from them, and the
// problems found.
struct Config {
    const Json& keys;
    const std::string& directory;
    Json& document;
    Foreign& foreign;

    // Adds a problem. Several rules may read the same key, so does nothing if the problem was
    // already added.
    void refuse(const std::string& key, const std::string& message) const;
    void set(const std::string& path, Json value) const {
        set_path(document, path, std::move(value));
    }
    // Sets a key of the job file to the default value of the foreign program.
    void set_default(const std::string& key, const std::string& path, Json value) const {
        set(path, std::move(value));
        foreign.defaults.push_back({key, {path}});
    }
    bool has(const std::string& key) const { return keys.contains(key); }
    // Returns the objective of the job file; an empty text if the objective is not set.
    std::string objective() const {
        return document.contains("objective") ? spec::objective_name(document["objective"]) : "";
    }

    // Return the value of a key; nullopt if the key is missing. If the value has a wrong type, add
    // a problem and return nullopt.
    std::optional<double> number(const std::string& key) const {
        if (!has(key)) return std::nullopt;
        if (keys[key].is_number()) return keys[key].get<double>();
        refuse(key, fmt::format("is {}; allowed: a number", dump(keys[key])));
        return std::nullopt;
    }
    std::optional<std::string> text(const std::string& key) const {
        if (!has(key)) return std::nullopt;
        if (keys[key].is_string()) return keys[key].get<std::string>();
        refuse(key, fmt::format("is {}; allowed: text", dump(keys[key])));
        return std::nullopt;
    }
    bool flag(const std::string& key) const {
        if (!has(key)) return false;
        if (!keys[key].is_boolean())
            refuse(key, fmt::format("is {}; allowed: true or false", dump(keys[key])));
        return keys[key] == true;
    }
    // Returns the JSON object in the file at `path`. If the file has no JSON object, adds a problem
    // with `key`, whose value is the path, and returns nullopt.
    std::optional<Json> object_in(const std::string& path, const std::string& key) const;
    // Returns the names in a list, or in a text in which commas separate names. If the list has a
    // value that is not a text, adds a problem.
    std::vector<std::string> names(const std::string& key) const;
    // Returns the numbers in a list, or in a text in which commas separate numbers. Adds a problem
    // if a value is not a number.
    std::vector<double> numbers(const std::string& key) const;
    std::string absolute(const std::string& path) const {
        return (std::filesystem::path(directory) / path).lexically_normal();
    }
};

}  // namespace roll::cli
