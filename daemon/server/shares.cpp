#include "daemon/server/shares.hpp"

#include <algorithm>

namespace roll::server {

void Shares::add_to(std::vector<core::Input>& turn) {
    const std::size_t share =
        std::max<std::size_t>(1, inputs_ / std::max<std::size_t>(1, asked_.size()));
    for (Asked& asked : asked_) {
        std::vector<core::Input>& inputs = asked.many.inputs;
        asked.first = turn.size();
        asked.end = std::min(asked.done + share, inputs.size());
        for (std::size_t i = asked.done; i < asked.end; ++i) turn.push_back(std::move(inputs[i]));
    }
}

std::vector<Many> Shares::settle(const engine::Turn& turn) {
    std::vector<Many> settled;
    for (auto asked = asked_.begin(); asked != asked_.end();) {
        Many& many = asked->many;
        for (std::size_t i = asked->first; asked->done < asked->end; ++asked->done, ++i) {
            const auto& reply = turn.replies[i];
            if (!reply && many.answer) many.answer = tl::unexpected(reply.error());
        }
        const bool over = asked->done == many.inputs.size();
        if (over) settled.push_back(std::move(many));
        asked = over ? asked_.erase(asked) : std::next(asked);
    }
    return settled;
}

}  // namespace roll::server
