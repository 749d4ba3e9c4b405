// Matches the tensors that a checkpoint must have with the tensors in its files. No tensor is lost
// or used twice.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <tl/expected.hpp>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"
#include "worker/formats/pickle.hpp"

namespace roll::convert {

// Returns a text such as "a, b, c and 4 more", so that an error message is one line even for a
// large model.
std::string listed(const std::vector<std::string>& names);

// Returns true if the name matches the pattern. "model.layers.{layer}.x" matches
// "model.layers.12.x". "a.{any}" matches all names that begin with "a.".
bool matches_pattern(std::string_view pattern, std::string_view name);

// Returns true if the family's `drop` lists the tensor.
bool is_dropped(const families::Family& family, const std::string& name);

// Converts `name`, a tensor's name in a HuggingFace directory, to the name in the family's rules,
// if the family lists a different spelling. Otherwise returns an empty string.
std::string other_spelling(const families::Family& family, const std::string& name);

// Adds to source.matching.dropped the keys of `dict` that begin with none of the prefixes in
// `kept`. In training files, these are keys such as "optimizer" and "rng_state".
void drop_run_state(Source& source, const std::string& file, const formats::Pickle& pickle,
                    formats::PickleId dict, std::initializer_list<std::string_view> kept);

// Matches found tensors with the expected tensors. Each expected tensor can be found once.
class Matcher {
  public:
    Matcher(std::vector<Stored> expected, Source& source);

    // Adds `view` to the source and returns true if a tensor with this name is expected at `where`.
    // Otherwise returns false. `found_in` is the file that contains the tensor.
    Result<bool> take(const Stored& where, const std::string& found_in, const std::string& name,
                      const tensor::StridedView& view);

    // Calls take() for each view, with the view's name. Returns false if at least one of the views
    // is not expected.
    Result<bool> take_all(const Stored& where, const std::vector<tensor::StridedView>& views);

    // Records a tensor that is not expected in any file.
    void add_unexpected(const std::string& file, const std::string& name);

    // Checks that all expected tensors were found, and that no other tensors were found. The
    // source's strictness decides which differences are errors.
    Result<void> finish();

  private:
    struct Unexpected {
        std::string file;
        std::string name;
    };
    std::vector<Unexpected> unexpected_;
    std::vector<Stored> expected_;
    std::map<std::tuple<std::string, std::string, std::string>, std::size_t> places_;
    Source& source_;
};

// Returns the error for a file with tensors that no rule of the source's family mentions. `names`
// are the names of these tensors. The message also lists `missing`, the model's tensors that were
// not found.
tl::unexpected<Error> no_rule_names(const Source& source, const std::filesystem::path& file,
                                    const std::vector<std::string>& names,
                                    const std::vector<std::string>& missing);

// Handles a tensor that no rule mentions. Depending on the source's strictness, fails or drops the
// tensor.
Result<void> drop_surplus(Source& source, const std::string& file, const std::string& name);

// Finds the HuggingFace tensors that are in no source tensor. Depending on the source's strictness,
// fails with Corrupt, or records these tensors as absent. The error message names them.
Result<void> check_nothing_missing(Source& source);

}  // namespace roll::convert
