#include "worker/train/save/first_error.hpp"

#include <algorithm>
#include <cstring>

#include <ATen/ATen.h>

namespace roll::train {
namespace {

// largest number of elements of an encoded error: the error code, and the bytes of the message and
// the hint
constexpr std::int64_t kMessage = 2048;
constexpr char kHintFollows = '\x1f';  // separates the message from the hint

}  // namespace

std::optional<RankError> first_error(Communicator& world, const Result<void>& own) {
    const at::Tensor failed = at::zeros({}, at::kDouble);
    if (!own) failed.fill_(1);
    sum_over(world, failed, {Site::Agreement});
    if (failed.item<double>() == 0) return std::nullopt;
    // One row for each rank: the error code plus 1 (0: no error), then the bytes of the text
    const at::Tensor row = at::zeros({kMessage}, at::kDouble);
    if (!own) {
        const std::string text = own.error().message + kHintFollows + own.error().hint;
        row[0] = static_cast<double>(own.error().code) + 1;
        for (std::int64_t i = 1; i < std::min(kMessage, std::ssize(text) + 1); ++i)
            row[i] = static_cast<double>(
                static_cast<unsigned char>(text[static_cast<std::size_t>(i - 1)]));
    }
    const at::Tensor all = gather_over(world, row, {Site::Agreement});
    for (int rank = 0; rank < world.size(); ++rank) {
        const double* const told = all[rank].const_data_ptr<double>();
        if (told[0] == 0) continue;
        std::string text;
        for (std::int64_t i = 1; i < kMessage && told[i] != 0; ++i)
            text += static_cast<char>(static_cast<unsigned char>(told[i]));
        const std::size_t end = text.find(kHintFollows);
        const std::string hint = end == std::string::npos ? "" : text.substr(end + 1);
        return RankError{rank, {static_cast<ErrorCode>(told[0] - 1), text.substr(0, end), hint}};
    }
    return std::nullopt;
}

}  // namespace roll::train
