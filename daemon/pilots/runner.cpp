#include "daemon/pilots/runner.hpp"

#include <algorithm>
#include <mutex>
#include <thread>

#include <boost/asio/post.hpp>

#include "daemon/slurm/run.hpp"

namespace roll::pilots {
namespace {

constexpr auto kDeadline = std::chrono::seconds(90);
// Deadline of an scontrol command about nodes. A later answer would be useless: by then, the silent
// worker is declared lost.
constexpr auto kNodesDeadline = std::chrono::seconds(10);

std::string one_line(std::string text) {
    while (!text.empty() && text.back() == '\n') text.pop_back();
    std::ranges::replace(text, '\n', ' ');
    return text.substr(0, 500);
}

std::string trouble_of(const io::Finished& done, const char* program,
                       std::chrono::seconds deadline = kDeadline) {
    if (done.timed_out)
        return std::string(program) + " gave no answer in " + std::to_string(deadline.count()) +
               " s";
    const std::string said = one_line(done.errors);
    return said.empty()
               ? std::string(program) + " ended with exit code " + std::to_string(done.exit_code)
               : said;
}

Outcome run_one(const Submit& errand, const slurm::Site& site) {
    const auto done = slurm::run(slurm::submit_command(errand.queue, errand.key, site), kDeadline);
    Submitted result;
    result.allocation = errand.allocation;
    result.result = slurm::judge_submission(done.timed_out, done.exit_code, done.errors);
    if (result.result != slurm::Submission::Accepted) {
        result.reason = trouble_of(done, "sbatch");
        return result;
    }
    auto job = slurm::parse_submitted(done.output);
    if (job) {
        result.slurm_job = *std::move(job);
    } else {
        result.result = slurm::Submission::Unknown;
        result.reason = job.error().message;
    }
    return result;
}

Outcome run_one(const Poll&, const slurm::Site& site) {
    const auto done = slurm::run(slurm::queue_command(site), kDeadline);
    if (done.timed_out || done.exit_code != 0)
        return Polled{fail(ErrorCode::Unavailable, trouble_of(done, "squeue"))};
    return Polled{slurm::parse_queue(done.output)};
}

// Runs scancel. A job that has already ended is not an error.
Outcome run_one(const Cancel& errand, const slurm::Site& site) {
    const auto done =
        slurm::run(slurm::cancel_command(errand.slurm_job, errand.key, site), kDeadline);
    const bool over = done.errors.find("Invalid job id") != std::string::npos ||
                      done.errors.find("already completing") != std::string::npos;
    const bool ok = !done.timed_out && (done.exit_code == 0 || over);
    return Cancelled{errand.key, ok ? "" : trouble_of(done, "scancel")};
}

// Runs scontrol for some nodes. scontrol exits with 1 if it does not know one of the nodes, but
// still reports the other nodes.
Outcome run_one(const AskNodes& errand, const slurm::Site& site) {
    const auto done = slurm::run(slurm::nodes_command(errand.nodes, site), kNodesDeadline);
    const bool told = done.exit_code == 0 || done.output.find(" not found\n") != std::string::npos;
    if (done.timed_out || !told)
        return NodesTold{
            fail(ErrorCode::Unavailable, trouble_of(done, "scontrol", kNodesDeadline))};
    return NodesTold{slurm::parse_nodes(done.output)};
}

}  // namespace

Outcome run_errand(const Errand& errand, const slurm::Site& site) {
    return std::visit([&](const auto& e) { return run_one(e, site); }, errand);
}

// Collects the outcomes of the threads. The threads share this object, which may outlive the
// runner.
struct Runner::Home {
    std::mutex mutex;
    boost::asio::io_context* io = nullptr;  // nullptr once the runner is destroyed
    std::function<void(Outcome)> done;
};

Runner::Runner(boost::asio::io_context& io, slurm::Site site, std::function<void(Outcome)> done)
    : site_(std::move(site)),
      home_(std::make_shared<Home>()) {
    home_->io = &io;
    home_->done = std::move(done);
}

Runner::~Runner() {
    const std::lock_guard lock(home_->mutex);
    home_->io = nullptr;
}

void Runner::start(Errand errand) {
    std::thread([home = home_, site = site_, errand = std::move(errand)] {
        Outcome outcome = run_errand(errand, site);
        const std::lock_guard lock(home->mutex);
        if (home->io == nullptr) return;
        boost::asio::post(*home->io, [home, outcome = std::move(outcome)]() mutable {
            if (home->io != nullptr) home->done(std::move(outcome));
        });
    }).detach();
}

}  // namespace roll::pilots
