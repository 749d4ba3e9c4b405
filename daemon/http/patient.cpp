#include "daemon/http/patient.hpp"

#include <future>
#include <thread>

#include <fmt/format.h>

namespace roll::http {

Result<Json> Patient::operator()(const std::string& op, const Json& args) const {
    const auto late = [&](const char* why) {
        return fail(ErrorCode::Unavailable,
                    fmt::format("{} was not read, because {}", args.value("output", ""), why),
                    "check the volume on roll-web's host, and try again");
    };
    if (*hanging_ >= kHangingMax)
        return late("roll-web waits for too many volumes that do not respond");
    ++*hanging_;
    const auto promise = std::make_shared<std::promise<Result<Json>>>();
    auto result = promise->get_future();
    std::thread([ask = ask_, hanging = hanging_, promise, op, args] {
        try {
            promise->set_value((*ask)(op, args));
        } catch (const std::exception& e) {
            promise->set_value(fail(ErrorCode::Failed, std::string("internal error: ") + e.what()));
        }
        --*hanging;
    }).detach();
    if (result.wait_for(patience_) != std::future_status::ready)
        return late("its volume does not respond");
    return result.get();
}

}  // namespace roll::http
