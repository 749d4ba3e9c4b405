#include "worker/checkpoint/background.hpp"

#include <chrono>
#include <exception>

#include "common/check.hpp"

namespace roll::checkpoint {

Background::~Background() {
    if (busy()) outcome_.wait();
}

void Background::start(Work work) {
    ROLL_CHECK(!busy());
    outcome_ = std::async(std::launch::async, [work = std::move(work)]() -> Result<std::string> {
        try {
            return work();
        } catch (const std::exception& e) {
            return fail(ErrorCode::Failed, e.what());
        }
    });
}

std::optional<Result<std::string>> Background::poll() {
    if (!busy() || outcome_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
        return std::nullopt;
    return wait();
}

std::optional<Result<std::string>> Background::wait() {
    if (!busy()) return std::nullopt;
    return outcome_.get();
}

}  // namespace roll::checkpoint
