// Checks and measures the device of roll-rank (device_check) or of roll-rank-cuda
// (device_check_cuda --gpu), for packaging/gpu-check.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>

#include "common/files.hpp"
#include "common/json.hpp"
#include "common/processor.hpp"
#include "tests/worker/train/device/checks.hpp"
#include "tests/worker/train/device/trial.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {

namespace {

// Prints numbers that are not finite as strings, because JSON has none.
OrderedJson number(double value) {
    if (std::isfinite(value)) return value;
    return "not finite";
}

void print_row(const OrderedJson& row) {
    std::printf("%s\n", row.dump(-1, ' ', false, OrderedJson::error_handler_t::replace).c_str());
    std::fflush(stdout);
}

void check_operator(const ops::OperatorCase& each, ops::Trial trial) {
    const char* const type = at::toString(trial.type());
    try {
        const c10::InferenceMode no_autograd;
        at::manual_seed(11);
        each.run(trial);
    } catch (const c10::Error& error) {
        print_row({{"case", each.name},
                   {"type", type},
                   {"what", std::string("fails: ") + error.what_without_backtrace()},
                   {"error", "not finite"},
                   {"limit", 0}});
    }
    for (const ops::Figure& figure : trial.figures())
        print_row({{"case", each.name},
                   {"type", type},
                   {"what", figure.what},
                   {"error", number(figure.error)},
                   {"limit", figure.limit}});
}

}  // namespace

void print_figure(const std::string& name, const std::string& what, double error, double limit) {
    print_row({{"case", name}, {"what", what}, {"error", number(error)}, {"limit", limit}});
}

void check_operators(const Backend& backend, const std::string& only, bool large) {
    for (const ops::OperatorCase& each : ops::operator_cases()) {
        if (!only.empty() && each.name != only) continue;
        for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
            check_operator(each, {backend.device, type, large});
    }
}

namespace {

int run(const std::function<void(const Backend&)>& command, bool gpu) {
    try {
        protocol::Launch launch;
        if (gpu) launch.gpus = {0};
        command(take_backend(launch, 0));
        return 0;
    } catch (const RankFailure& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return e.status();
    } catch (const c10::Error& e) {
        std::fprintf(stderr, "%s\n", e.what_without_backtrace());
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
    }
    return 1;
}

int main(int argc, char** argv) {
    if (const Result<Processor> found = find_processor()) limit_libraries(*found);
    bool gpu = false, small = false;
    std::string only, scratch, document;
    int steps = 10, threads = 0;
    CLI::App app("Check and measure the device that Roll trains on");
    app.require_subcommand(1);
    app.add_flag("--gpu", gpu, "Use GPU 0; the program must be device_check_cuda");
    app.add_option("--threads", threads, "Number of CPU threads");
    CLI::App* probe = app.add_subcommand("probe", "Only take the device");
    CLI::App* operators = app.add_subcommand("operators", "Compare each operator with float64");
    operators->add_option("--only", only, "Name of an operator's case");
    operators->add_flag("--small", small, "Leave out large sizes");
    CLI::App* communicator = app.add_subcommand("communicator", "Check a group of one rank");
    communicator->add_option("SCRATCH", scratch, "Empty directory")->required();
    CLI::App* measure = app.add_subcommand("steps", "Measure training steps on random tokens");
    measure->add_option("SPEC", document, "A job's document, JSON")->required();
    measure->add_option("--steps", steps, "Number of measured steps")->check(CLI::PositiveNumber);
    CLI11_PARSE(app, argc, argv);
    if (threads > 0) at::set_num_threads(threads);
    return run(
        [&](const Backend& backend) {
            if (*probe) std::printf("%s\n", backend.device.str().c_str());
            if (*operators) check_operators(backend, only, !small);
            if (*communicator) check_communicator(backend, scratch);
            if (*measure) measure_steps(backend, need(read_file(document)), steps);
        },
        gpu);
}

}  // namespace
}  // namespace roll::train

int main(int argc, char** argv) {
    const int status = roll::train::main(argc, argv);
    std::fflush(nullptr);
    // Ends without destructors, as roll-rank does.
    std::_Exit(status);
}
