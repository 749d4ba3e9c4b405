// Measures the engine's turns for two arrays, without a ledger. The second array depends on the
// first. Prints the numbers and checks no limits.
//
// array_bench [TASKS]   number of jobs in each array, at most 10,000
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "common/spec/schema/array.hpp"
#include "daemon/engine/engine.hpp"

namespace {

using namespace roll;

const Time kNow{std::chrono::hours(1)};

class Bench {
  public:
    explicit Bench(int tasks) : tasks_(tasks) {
        std::vector<core::Input> inputs = {core::Started{}};
        for (int i = 0; i < 8; ++i) {
            const std::string node = "n" + std::to_string(i);
            inputs.push_back(core::WorkerHello{node, node + "-1", 32, 0});
        }
        step(inputs);
        longest_ = 0;
        submit("first", {});
        submit("second", {{spec::After::Condition::Ok, JobId{1}}});
        say("submitted");
    }

    void run() {
        while (!engine_.state().index.open.empty()) {
            std::vector<core::Input> inputs;
            for (const JobId id : engine_.state().index.running) {
                const core::Attempt& attempt = *engine_.state().jobs.at(id).attempt;
                const WorkerId worker = attempt.places.front().worker;
                const AttemptKey key{id, attempt.token};
                inputs.push_back(core::MemberStarted{worker, key});
                inputs.push_back(core::MemberExited{worker, key, core::Outcome::Done, 0, ""});
            }
            step(inputs);
        }
        say("run");
    }

    // Cancels the array as rolld does: kShare jobs in each turn, beginning with the last job.
    void cancel() {
        for (int last = tasks_; last > 0; last -= kShare) {
            std::vector<core::Input> inputs;
            for (int id = last; id > 0 && id > last - kShare; --id)
                inputs.push_back(core::Cancel{JobId{static_cast<std::uint64_t>(id)}, ""});
            step(inputs);
        }
        say("cancelled");
    }

  private:
    static constexpr int kShare = 256;

    void submit(const std::string& key, std::vector<spec::After> after) {
        spec::JobSpec spec;
        spec.name = "array";
        spec.output = "/runs/{index}";
        spec.document = std::string(600, 'x');
        spec.array = spec::Array{.indices = "0-" + std::to_string(tasks_ - 1)};
        spec.after = std::move(after);
        step(std::vector<core::Input>{core::Submit{key, "ann", std::move(spec)}});
    }

    void step(const std::vector<core::Input>& inputs) {
        const auto begin = std::chrono::steady_clock::now();
        (void)engine_.step(inputs, kNow);
        const std::chrono::duration<double, std::milli> took =
            std::chrono::steady_clock::now() - begin;
        longest_ = std::max(longest_, took.count());
        all_ += took.count();
        ++turns_;
    }

    void say(const char* what) {
        std::printf("2 x %d jobs %s: %.0f ms in %d turns, the longest %.1f ms\n", tasks_, what,
                    all_, turns_, longest_);
        all_ = longest_ = 0;
        turns_ = 0;
    }

    int tasks_;
    engine::Engine engine_{core::State{},
                           {[](std::span<const core::Event>, Time) { return Result<void>(); },
                            [] { return Result<core::State>(); }}};
    double all_ = 0, longest_ = 0;
    int turns_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    const int tasks = argc > 1 ? std::atoi(argv[1]) : spec::kArrayTasksMax;
    Bench(tasks).run();
    Bench(tasks).cancel();
}
