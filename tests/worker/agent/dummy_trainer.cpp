#include "tests/worker/agent/dummy_trainer.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include <unistd.h>

#include "common/files.hpp"
#include "common/json.hpp"
#include "common/protocol/rank.hpp"
#include "worker/agent/process/guard.hpp"

namespace roll::agent {
namespace {

void say(const std::string& line) {
    const std::string whole = line + '\n';
    if (::write(protocol::kReportDescriptor, whole.data(), whole.size()) < 0) ::_exit(99);
}

[[noreturn]] void hang() {
    for (;;) ::pause();
}

// Waits for a line on stdin that contains both texts. Exits with 98 at the end of stdin.
void await(const std::string& first, const std::string& second) {
    std::string line;
    while (std::getline(std::cin, line))
        if (line.find(first) != std::string::npos && line.find(second) != std::string::npos) return;
    ::_exit(98);
}

void stage(const protocol::Launch& launch, const std::string& step) {
    const std::string directory =
        launch.output + "/checkpoints/.step-" + step + "." + to_string(launch.attempt.token);
    std::filesystem::create_directories(directory);
    say(protocol::encode(protocol::CheckpointStaged{std::stoll(step), directory}));
}

void leave_child() {
    if (::fork() != 0) return;
    ::setsid();
    hang();
}

void perform(const protocol::Launch& launch, const std::string& action) {
    std::istringstream words(action);
    std::string what;
    std::string argument;
    words >> what;
    std::getline(words >> std::ws, argument);
    if (what == "ready") say(protocol::encode(protocol::Ready{}));
    if (what == "progress") say(protocol::encode(protocol::Progress{R"({"step":1})"}));
    if (what == "junk") say("this is no report\n{\"t\":\"nonsense\"}\n" + std::string(200000, 'x'));
    if (what == "fail") say(protocol::encode(protocol::Failed{argument}));
    if (what == "stage") stage(launch, argument);
    if (what == "recorded") await("recorded", argument);
    if (what == "stop") await("stop", "");
    if (what == "child") leave_child();
    if (what == "deaf") ::signal(SIGTERM, SIG_IGN);
    if (what == "touch") std::ofstream(argument) << "here\n";
    if (what == "exit") ::_exit(std::stoi(argument));
    if (what == "signal") ::raise(std::stoi(argument));
    if (what == "hang") hang();
}

int train(const std::vector<std::string>& arguments) {
    const auto launch = protocol::decode_launch(read_file(arguments.at(2)).value());
    if (!launch) return 97;
    std::cout << "rank " << arguments.at(4) << " of " << launch->world_size() << std::endl;
    const Json document = Json::parse(launch->document);
    const std::string own = "rank-" + arguments.at(4);
    for (const auto& action : document.at(document.contains(own) ? own : "rank"))
        perform(*launch, action.get<std::string>());
    return 0;
}

}  // namespace

int run_as_dummy(const std::vector<std::string>& arguments) {
    if (arguments.size() == 2 && arguments[1] == "--guard") return run_guard();
    if (arguments[0].ends_with("/roll-rank")) return train(arguments);
    return -1;
}

}  // namespace roll::agent
