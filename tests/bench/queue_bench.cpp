// A client of a running rolld. It uses the local socket, as rollctl does on rolld's machine; `fill`
// and `drain` use ZeroMQ with CURVE, as from another machine. Prints the numbers; has no limits.
//
//   queue_bench DIR fsync SECONDS            syncs 4 KiB at a time to the disk of DIR
//   queue_bench DIR submit COUNT CLIENTS     submits jobs that stay held; each client has one
//   request
//                                            under way
//   queue_bench DIR fill COUNT               submits jobs that can start, 64 requests under way
//   queue_bench DIR ask COUNT OP ARGS        asks OP again and again
//   queue_bench DIR reply COUNT OP ARGS      asks OP and prints the reply
//   queue_bench DIR dispatch COUNT PROGRAM   runs first_instruction as a job, again and again
//   queue_bench DIR drain COUNT [OUTPUTS]    runs jobs of /bin/true until all have ended; their
//                                            outputs are in OUTPUTS, by default below DIR
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/io/client.hpp"
#include "common/protocol/client.hpp"
#include "common/spec/job/job_json.hpp"

namespace {

using namespace roll;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Returns percentiles of the samples, which are in milliseconds, as text.
std::string percentiles(std::vector<double> samples) {
    if (samples.empty()) return "no samples";
    std::ranges::sort(samples);
    const auto at = [&](double share) {
        return samples[static_cast<std::size_t>(share * static_cast<double>(samples.size() - 1))];
    };
    char text[120];
    std::snprintf(text, sizeof text, "p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, most %.2f ms", at(0.5),
                  at(0.9), at(0.99), at(1.0));
    return text;
}

Json submission(const std::string& key, const spec::JobSpec& spec) {
    return {{"key", key}, {"spec", spec::json_of(spec)}};
}

spec::JobSpec command(const std::string& root, std::vector<std::string> words) {
    spec::JobSpec spec;
    spec.name = "bench";
    spec.output = root + "/bench/bench-{id}";
    spec.document = Json{{"name", "bench"}, {"kind", "command"}, {"command", words}}.dump();
    return spec;
}

// Returns an idempotency key that no other run uses.
std::string new_key(int number) {
    static const std::string run = std::to_string(Clock::now().time_since_epoch().count());
    return run + "-" + std::to_string(number);
}

Result<void> fsync_rate(const std::string& root, int seconds) {
    const std::string path = root + "/bench-fsync";
    const int fd = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) return fail(ErrorCode::Failed, "cannot open " + path);
    const std::string page(4096, 'x');
    const auto begin = Clock::now();
    int count = 0;
    for (; Clock::now() < begin + std::chrono::seconds(seconds); ++count) {
        if (::write(fd, page.data(), page.size()) < 0 || ::fdatasync(fd) != 0) break;
    }
    std::printf("disk: %.0f syncs a second\n", count / seconds_since(begin));
    ::close(fd);
    ::unlink(path.c_str());
    return {};
}

Result<void> submit(const std::string& root, int count, int clients) {
    std::vector<std::vector<double>> samples(static_cast<std::size_t>(clients));
    std::vector<std::thread> threads;
    const auto begin = Clock::now();
    for (int c = 0; c < clients; ++c) {
        threads.emplace_back([&, c] {
            auto client = io::Client::connect(io::StateDirectory(root));
            spec::JobSpec spec = command(root, {"/bin/true"});
            spec.hold = true;
            Json args = submission("", spec);
            for (int i = c; client && i < count; i += clients) {
                args["key"] = new_key(i);
                const auto asked = Clock::now();
                const auto reply = client->ask("submit", args, 60s);
                if (!reply) std::fprintf(stderr, "%s\n", reply.error().message.c_str());
                samples[static_cast<std::size_t>(c)].push_back(seconds_since(asked) * 1e3);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    const double seconds = seconds_since(begin);
    std::vector<double> all;
    for (const auto& some : samples) all.insert(all.end(), some.begin(), some.end());
    std::printf("submit, %d clients: %.0f a second; %s\n", clients, count / seconds,
                percentiles(std::move(all)).c_str());
    return {};
}

// Submits jobs on one connection, with many requests under way at a time.
Result<void> fill(const std::string& root, int count, const spec::JobSpec& spec) {
    const io::StateDirectory directory(root);
    ROLL_TRY(const std::string endpoint, directory.read_endpoint());
    ROLL_TRY(const io::CurveKeys keys, io::load_curve_keys(directory.keys(), "client"));
    ROLL_TRY(const std::string server, io::load_public_key(directory.keys() / "server.pub"));
    io::ZmqContext context;
    io::ZmqSocket socket(context, io::ZmqType::Dealer);
    socket.set_curve_client(keys, server);
    ROLL_TRY_VOID(socket.connect(endpoint));
    const auto begin = Clock::now();
    for (int sent = 0, done = 0; done < count;) {
        for (; sent < count && sent - done < 64; ++sent) {
            const auto id = static_cast<std::uint64_t>(sent + 1);
            const protocol::Request request{id, "submit", submission(new_key(sent), spec)};
            socket.send({protocol::encode(request)});
        }
        if (!socket.wait_input(60s)) return fail(ErrorCode::Unavailable, "rolld is silent");
        while (const auto message = socket.receive()) {
            const std::string& frame = message->frames.back();
            const auto reply = protocol::decode_reply(frame, protocol::request_id(frame));
            if (!reply) return tl::unexpected(reply.error());
            ++done;
        }
    }
    std::printf("submit, 64 under way: %.0f a second\n", count / seconds_since(begin));
    return {};
}

Result<void> ask(const std::string& root, int count, const std::string& op, const Json& args) {
    ROLL_TRY(io::Client client, io::Client::connect(io::StateDirectory(root)));
    std::vector<double> samples;
    for (int i = 0; i < count; ++i) {
        const auto asked = Clock::now();
        ROLL_TRY(const Json reply, client.ask(op, args, 120s));
        samples.push_back(seconds_since(asked) * 1e3);
    }
    std::printf("%s %s: %s\n", op.c_str(), dump(args).c_str(),
                percentiles(std::move(samples)).c_str());
    return {};
}

// Measures the time from the acknowledgement of a job to the first instruction of its program. The
// program writes that instant into a FIFO.
Result<void> dispatch(const std::string& root, int count, const std::string& program) {
    ROLL_TRY(io::Client client, io::Client::connect(io::StateDirectory(root)));
    const std::string fifo = root + "/bench-fifo";
    ::unlink(fifo.c_str());
    if (::mkfifo(fifo.c_str(), 0600) != 0) return fail(ErrorCode::Failed, "cannot make " + fifo);
    const int fd = ::open(fifo.c_str(), O_RDWR | O_CLOEXEC);
    const spec::JobSpec spec = command(root, {program, fifo});
    std::vector<double> samples;
    std::vector<double> whole;
    for (int i = 0; i < count; ++i) {
        const auto asked = Clock::now();
        ROLL_TRY(const Json reply, client.ask("submit", submission(new_key(i), spec)));
        const auto acknowledged = Clock::now();
        std::int64_t began = 0;
        if (::read(fd, &began, sizeof began) != sizeof began) break;
        const Clock::time_point start{std::chrono::nanoseconds(began)};
        samples.push_back(std::chrono::duration<double>(start - acknowledged).count() * 1e3);
        whole.push_back(std::chrono::duration<double>(start - asked).count() * 1e3);
        std::this_thread::sleep_for(30ms);  // wait until all processes are idle again
    }
    ::close(fd);
    ::unlink(fifo.c_str());
    std::printf("acknowledged to first instruction: %s\n", percentiles(std::move(samples)).c_str());
    std::printf("asked to first instruction: %s\n", percentiles(std::move(whole)).c_str());
    return {};
}

// Measures how fast the disk makes directories, because each drained job makes one.
void print_folder_rate(const std::string& root) {
    constexpr int kCount = 500;
    const auto begin = Clock::now();
    for (int i = 0; i < kCount; ++i) ::mkdir((root + "/folder-" + std::to_string(i)).c_str(), 0777);
    std::printf("disk: %.0f folders a second\n", kCount / seconds_since(begin));
}

Result<void> drain(const std::string& root, int count, const std::string& outputs) {
    print_folder_rate(outputs);
    const auto begin = Clock::now();
    ROLL_TRY_VOID(fill(root, count, command(outputs, {"/bin/true"})));
    ROLL_TRY(io::Client client, io::Client::connect(io::StateDirectory(root)));
    for (;;) {
        ROLL_TRY(const Json reply, client.ask("jobs", {{"limit", 1}}, 60s));
        if (reply["jobs"].empty()) break;
        std::this_thread::sleep_for(20ms);
    }
    std::printf("drain: %.0f jobs a second\n", count / seconds_since(begin));
    return {};
}

Result<void> print_reply(const std::string& root, const std::string& op, const Json& args) {
    ROLL_TRY(io::Client client, io::Client::connect(io::StateDirectory(root)));
    ROLL_TRY(const Json reply, client.ask(op, args, 60s));
    std::printf("%s\n", dump(reply).c_str());
    return {};
}

Result<void> run(const std::vector<std::string>& words) {
    const std::string& root = words[0];
    const int count = std::atoi(words[2].c_str());
    const std::string what = words[1];
    if (what == "fsync") return fsync_rate(root, count);
    if (what == "submit" && words.size() > 3)
        return submit(root, count, std::atoi(words[3].c_str()));
    if (what == "fill") return fill(root, count, command(root, {"/bin/true"}));
    if ((what == "ask" || what == "reply") && words.size() > 4) {
        ROLL_TRY(const Json args, parse_json(words[4]));
        return what == "ask" ? ask(root, count, words[3], args) : print_reply(root, words[3], args);
    }
    if (what == "dispatch" && words.size() > 3) return dispatch(root, count, words[3]);
    if (what == "drain") return drain(root, count, words.size() > 3 ? words[3] : root);
    return fail(ErrorCode::InvalidArgument, "unknown: " + what);
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() < 3) {
        std::fprintf(stderr,
                     "usage: queue_bench DIR fsync|submit|fill|ask|reply|dispatch|drain ...\n");
        return 2;
    }
    const auto done = run(words);
    if (!done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
    return done ? 0 : 1;
}
