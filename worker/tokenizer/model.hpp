// The `model` of a tokenizer file. It encodes one word. Immutable; several threads may encode, each
// with its own ModelWork.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "worker/tokenizer/bpe.hpp"
#include "worker/tokenizer/unigram.hpp"

namespace roll::tokenizer {

struct ModelWork {
    BpeWork bpe;
    UnigramWork unigram;
};

class Model {
  public:
    // Parses the model. Fails with InvalidArgument if its kind is unsupported; the message names
    // the kind. Fails with Corrupt if there is no model.
    static Result<Model> parse(const Json& json, bool byte_level);

    void encode(std::string_view word, ModelWork& work, std::vector<std::uint32_t>& out) const {
        if (const Bpe* bpe = std::get_if<Bpe>(&kind_)) return bpe->encode(word, work.bpe, out);
        std::get<Unigram>(kind_).encode(word, work.unigram, out);
    }

    std::optional<std::uint32_t> id_of(std::string_view token) const {
        return std::visit([&](const auto& kind) { return kind.id_of(token); }, kind_);
    }
    const std::string* token_of(std::uint32_t id) const {
        return std::visit([&](const auto& kind) { return kind.token_of(id); }, kind_);
    }
    std::uint32_t ids_end() const {
        return std::visit([](const auto& kind) { return kind.ids_end(); }, kind_);
    }
    std::size_t size() const {
        return std::visit([](const auto& kind) { return kind.size(); }, kind_);
    }

  private:
    explicit Model(std::variant<Bpe, Unigram> kind) : kind_(std::move(kind)) {}
    std::variant<Bpe, Unigram> kind_;
};

}  // namespace roll::tokenizer
