#include "worker/convert/convert.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include <sys/statvfs.h>

#include "common/files.hpp"
#include "worker/convert/adapter.hpp"
#include "worker/convert/adapter_target.hpp"
#include "worker/convert/archives.hpp"
#include "worker/convert/diff.hpp"
#include "worker/convert/gather.hpp"
#include "worker/convert/lora.hpp"
#include "worker/convert/quantize.hpp"
#include "worker/convert/staging.hpp"
#include "worker/convert/target.hpp"
#include "worker/formats/nemo.hpp"
#include "worker/formats/tar.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> stopped() {
    return fail(ErrorCode::Unavailable, "the conversion was stopped");
}

// Returns the free bytes of the disk that holds the path, or its nearest existing parent; -1 if
// unknown.
std::int64_t disk_free(fs::path path) {
    std::error_code error;
    path = fs::absolute(path);
    while (!fs::exists(path, error) && path.has_relative_path()) path = path.parent_path();
    struct statvfs info {};
    if (::statvfs(path.c_str(), &info) != 0) return -1;
    const auto free = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
    return static_cast<std::int64_t>(std::min(free, 9e18));
}

// Returns the file name of the target if the target is a NeMo archive; empty for other targets.
std::string archive_of(const Request& request, Format to) {
    const bool archive = to == Format::Nemo && formats::is_nemo_archive(request.target);
    return archive ? request.target.filename().string() : "";
}

// Returns the peak disk use in bytes. For an archive, this counts the largest file twice, because
// files are copied into the archive one by one and then removed.
std::int64_t space_of(const Plan& plan, bool archive) {
    if (!archive) return plan.bytes;
    std::vector<std::int64_t> files(plan.files.size(), 0);
    for (const TargetTensor& target : plan.tensors)
        files[target.file] += tensor::byte_count(target.info.dtype, target.info.shape).value_or(0);
    return plan.bytes + *std::max_element(files.begin(), files.end());
}

Result<void> check_space(const fs::path& target, std::int64_t bytes) {
    const std::int64_t free = disk_free(target);
    if (free < 0 || static_cast<double>(free) >= static_cast<double>(bytes) * 1.01) return {};
    return fail(ErrorCode::Refused, fmt::format("{} needs {} bytes; the disk has {} free",
                                                target.string(), bytes, free));
}

// Returns the peak memory in bytes. Counts the largest tensors: for each, a thread needs a window
// (three windows if an adapter or scales change the tensor) and the pages that it reads.
std::int64_t memory_of(const Source& source, const Plan& plan, int threads) {
    std::int64_t largest = 0;
    for (const TargetTensor& target : plan.tensors) {
        const std::int64_t rows = target.info.shape.empty() ? 1 : target.info.shape[0];
        const std::int64_t total =
            tensor::byte_count(target.info.dtype, target.info.shape).value_or(0);
        std::int64_t bytes =
            std::min(std::max(kWindowBytes, total / std::max<std::int64_t>(rows, 1)), total);
        if (!source.deltas.empty() || !source.scales.empty()) bytes *= 3;
        largest = std::max(largest, bytes + total);
    }
    return largest * threads;
}

// Runs tasks on several threads. The first error of a task stops all threads.
class Workers {
  public:
    Workers(int threads, const Hooks& hooks) : threads_(threads), hooks_(hooks) {}

    // Runs task(0) ... task(count - 1), each on some thread.
    Result<void> run(std::size_t count, const std::function<Result<void>(std::size_t)>& task) {
        next_ = 0;
        const auto work = [&] {
            for (std::size_t i = next_++; i < count && !failed_; i = next_++)
                if (const auto done = task(i); !done) keep(done.error());
        };
        std::vector<std::thread> threads;
        const std::size_t others = std::min<std::size_t>(threads_, count);
        for (std::size_t i = 1; i < others; ++i) threads.emplace_back(work);
        work();
        for (std::thread& thread : threads) thread.join();
        if (error_) return tl::unexpected(*error_);
        return {};
    }

    // Fails if a hook asks to stop or a mapped file became unreadable. Call it before each window,
    // and progress() after it.
    Result<void> check_stop() {
        const std::lock_guard lock(mutex_);
        return hooks_.stopped() ? Result<void>(stopped()) : check_mapped_reads();
    }
    // Returns the result for a compared replica. If hooks_.differs is set, passes a difference to
    // it and returns success.
    Result<void> judge(const Result<void>& equal) {
        if (equal || !hooks_.differs || equal.error().code != ErrorCode::Corrupt) return equal;
        const std::lock_guard lock(mutex_);
        hooks_.differs(equal.error().message);
        return {};
    }
    void progress(std::int64_t bytes, std::int64_t total) {
        const std::lock_guard lock(mutex_);
        done_ += bytes;
        hooks_.progress(done_, total);
    }

  private:
    void keep(const Error& error) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = error;
        failed_ = true;
    }
    int threads_;
    const Hooks& hooks_;
    std::mutex mutex_;
    std::atomic<std::size_t> next_ = 0;
    std::atomic<bool> failed_ = false;
    std::optional<Error> error_;
    std::int64_t done_ = 0;
};

// The target's files while they are written. A file is created with its first tensor. The thread
// that writes the last tensor of a file also syncs the file, while the other threads continue. So
// few files are open at a time and the disk stays busy.
class OpenFiles {
  public:
    OpenFiles(const Plan& plan, const fs::path& directory, const Request& request)
        : plan_(plan),
          directory_(directory),
          reuse_(request.reuse),
          own_(own_files(plan, request.part)),
          files_(plan.files.size()) {
        for (std::size_t i = 0; i < files_.size(); ++i)
            files_[i].left = plan.files[i].tensors.size();
    }

    // Returns true if this process writes the file.
    bool are_ours(std::size_t file) const { return own_[file]; }

    Result<TargetWriter*> writer_of(std::size_t file) {
        const std::lock_guard lock(mutex_);
        if (files_[file].writer == nullptr) {
            ROLL_TRY(files_[file].writer, create_target(directory_, plan_.files[file], reuse_));
        }
        return files_[file].writer.get();
    }

    // Counts a written tensor of the file. Closes the file after the last tensor.
    Result<void> tensor_done(std::size_t file) {
        return --files_[file].left == 0 ? close(file) : Result<void>();
    }

    Result<void> write_empty_files() {
        for (std::size_t file = 0; file < files_.size(); ++file) {
            if (!own_[file] || !plan_.files[file].tensors.empty()) continue;
            ROLL_TRY_VOID(writer_of(file));
            ROLL_TRY_VOID(close(file));
        }
        return {};
    }

  private:
    struct File {
        std::unique_ptr<TargetWriter> writer;
        std::atomic<std::size_t> left = 0;
    };
    Result<void> close(std::size_t file) {
        ROLL_TRY_VOID(files_[file].writer->finish());
        files_[file].writer.reset();
        return {};
    }
    const Plan& plan_;
    const fs::path& directory_;
    const fs::path& reuse_;
    const std::vector<bool> own_;
    std::mutex mutex_;
    std::vector<File> files_;
};

Result<void> write_tensors(const Source& source, const Plan& plan, const fs::path& directory,
                           const Request& request, Workers& workers) {
    OpenFiles files(plan, directory, request);
    ROLL_TRY_VOID(workers.run(plan.tensors.size(), [&](std::size_t i) -> Result<void> {
        const TargetTensor& target = plan.tensors[i];
        if (!files.are_ours(target.file)) return {};
        ROLL_TRY(TargetWriter* const writer, files.writer_of(target.file));
        const Window write = [&](std::span<const std::byte> bytes) -> Result<void> {
            ROLL_TRY_VOID(workers.check_stop());
            ROLL_TRY_VOID(writer->append(target.ordinal, bytes));
            workers.progress(static_cast<std::int64_t>(bytes.size()), plan.bytes);
            return {};
        };
        ROLL_TRY_VOID(gather(source, target, write));
        return files.tensor_done(target.file);
    }));
    return files.write_empty_files();
}

Result<void> check_replicas(const Source& source, const Plan& plan, Share share, Workers& workers) {
    return workers.run(plan.comparisons.size(), [&](std::size_t i) -> Result<void> {
        if (!share.has(i)) return {};
        ROLL_TRY_VOID(workers.check_stop());
        return workers.judge(compare(source, plan.comparisons[i]));
    });
}

std::size_t count_reused(const Plan& plan, const fs::path& directory, const fs::path& reuse) {
    if (reuse.empty()) return 0;
    return static_cast<std::size_t>(
        std::count_if(plan.files.begin(), plan.files.end(), [&](const TargetFile& file) {
            std::error_code error;
            return fs::equivalent(directory / file.path, reuse / file.path, error);
        }));
}

int threads_of(const Request& request) {
    if (request.threads > 0) return request.threads;
    return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 4U));
}

Share share_of(const Part& part) { return {part.index, part.count}; }

// Opens the staged directory like any reader, and compares this process's share with the source.
Result<void> check_result(const Source& source, const Plan& plan, const fs::path& directory,
                          const Part& part, const families::Families& families,
                          const Hooks& hooks) {
    ROLL_TRY(const Source written, open_source(directory, families, {{}, source.strictness}));
    ROLL_TRY(Diff found, diff(source, written, true, hooks.stopped, share_of(part)));
    std::erase_if(found.only_first,
                  [&](const std::string& name) { return plan.left_out_hf.contains(name); });
    const bool in_blocks =
        std::any_of(plan.tensors.begin(), plan.tensors.end(),
                    [](const auto& one) { return one.making != Making::Copies; });
    if (in_blocks && part.leads()) ROLL_TRY_VOID(check_blocks(source, plan, written));
    std::erase_if(found.differences, [&](const Difference& one) {
        return written.scales.contains(written.model.number.at(one.name));
    });
    if (found.same()) return {};
    const std::string name = !found.differences.empty()  ? found.differences.front().name
                             : !found.only_first.empty() ? found.only_first.front()
                                                         : found.only_second.front();
    return fail(ErrorCode::Corrupt, "the written " + name + " differs from the source");
}

}  // namespace

Disagreement disagreement_of(const Source& source, const Plan& plan) {
    Disagreement all;
    for (const int number : source.absent)
        all.unexpected.push_back(source.model.tensors[static_cast<std::size_t>(number)].name);
    all.missing = source.surplus;
    all.left_out = plan.left_out;
    return as_told(source.strictness, std::move(all));
}

Result<void> carry_out(const Source& source, const Plan& plan, const fs::path& directory,
                       const Request& request, const Hooks& hooks) {
    if (request.part.alone()) ROLL_TRY_VOID(check_space(directory, plan.bytes));
    Workers workers(threads_of(request), hooks);
    ROLL_TRY_VOID(check_replicas(source, plan, share_of(request.part), workers));
    return write_tensors(source, plan, directory, request, workers);
}

namespace {

// Returns the hooks for one of several processes: all processes stop together, and the first
// reports the bytes of all.
Hooks shared(const Hooks& hooks, Meeting& meeting, const Part& part) {
    if (part.alone()) return hooks;
    Hooks all = hooks;
    all.stopped = [&] { return hooks.stopped() || !meeting.trouble(); };
    all.progress = [&](std::int64_t done, std::int64_t total) {
        meeting.say(done);
        hooks.progress(done + meeting.bytes(), total);
    };
    return all;
}

// Checks the bytes of the base and of all adapters. Of the base, checks only this process's share;
// of the adapters, which are small, everything.
Result<void> check_sources(const Request& request, const Hooks& hooks) {
    for (const fs::path& adapter : request.adapters)
        for (const AdapterPlace& place : find_adapters(adapter))
            ROLL_TRY_VOID(check_archives(place.directory, hooks.stopped));
    return check_archives(request.source, hooks.stopped, share_of(request.part));
}

// Fills the staged directory and verifies it. If there is one process, the waits return at once.
Result<void> fill_staging(const Source& source, const Plan& plan, const Request& request, Format to,
                          const families::Families& families, Meeting& meeting,
                          const Hooks& given) {
    const Part& part = request.part;
    const fs::path directory = staging_of(request.target);
    const std::string archive = archive_of(request, to);
    const Hooks hooks = shared(given, meeting, part);
    if (request.verify) ROLL_TRY_VOID(check_sources(request, hooks));
    ROLL_TRY_VOID(carry_out(source, plan, directory, request, hooks));
    meeting.say(Phase::Written);
    if (part.leads()) {
        ROLL_TRY_VOID(meeting.wait_for(Phase::Written, given.stopped));
        ROLL_TRY_VOID(write_companions(source, plan, request, to, directory));
        if (!archive.empty()) ROLL_TRY_VOID(formats::pack_tar(directory, archive, given.stopped));
        meeting.say(Phase::Whole);
    } else {
        ROLL_TRY_VOID(meeting.wait_for(Phase::Whole, given.stopped));
    }
    const fs::path written = archive.empty() ? directory : directory / archive;
    if (request.verify) ROLL_TRY_VOID(check_result(source, plan, written, part, families, hooks));
    meeting.say(Phase::Verified);
    if (part.leads()) ROLL_TRY_VOID(meeting.wait_for(Phase::Verified, given.stopped));
    return given.stopped() ? stopped() : Result<void>();
}

// Produces the target completely or not at all. If there are several processes, the first stages
// and publishes the target, and each stops when another has ended without a target.
Result<void> produce(const Source& source, const Plan& plan, const Request& request, Format to,
                     const families::Families& families, const Hooks& hooks, Report& report) {
    const std::string archive = archive_of(request, to);
    if (!archive.empty() && !request.part.alone())
        return fail(ErrorCode::InvalidArgument, "a .nemo archive cannot be written with --part");
    std::optional<Staging> staging;
    if (request.part.leads()) {
        ROLL_TRY_VOID(check_space(request.target, space_of(plan, !archive.empty())));
        ROLL_TRY(Staging begun, Staging::begin(request.target, request.overwrite));
        staging.emplace(std::move(begun));
    }
    ROLL_TRY(Meeting meeting,
             Meeting::join(staging_of(request.target), request.part, hooks.stopped));
    auto done = fill_staging(source, plan, request, to, families, meeting, hooks);
    if (!done && !hooks.stopped() && !meeting.trouble()) done = meeting.trouble();
    if (!done) {
        meeting.leave(done.error().message);
        return done;
    }
    ROLL_TRY_VOID(meeting.end());
    if (!staging) return {};
    report.reused = count_reused(plan, staging->directory(), request.reuse);
    return archive.empty() ? staging->publish() : staging->publish_file(archive);
}

}  // namespace

Result<Report> convert(const Request& request, const families::Families& families,
                       const Hooks& hooks) {
    ROLL_TRY_VOID(check_apart(request.source, request.target));
    ROLL_TRY(const Format from, detect_format(request.source));
    if (!request.reuse.empty() && !fs::is_directory(request.reuse))
        return fail(ErrorCode::NotFound, request.reuse.string() + " is not there");
    const bool has_config = from == Format::Hf || from == Format::Mca;
    if (has_config && request.adapter_source.empty() && !request.config.empty())
        return fail(ErrorCode::InvalidArgument,
                    request.source.string() + " is of format " + name_of(from) +
                        " and has a config; --config is only for checkpoints without a config");
    if (from == Format::Peft || !request.adapter_source.empty()) {
        if (!request.part.alone())
            return fail(ErrorCode::InvalidArgument, "adapters cannot be converted with --part");
        return convert_adapters(request, families, hooks);
    }
    ROLL_TRY(Source source, open_source(request.source, families,
                                        {request.config, request.strictness, request.state}));
    const Folding folding = request.unmerge ? Folding::Out : Folding::In;
    for (const fs::path& adapter : request.adapters)
        ROLL_TRY_VOID(attach_adapter(source, adapter, folding));
    const Format to = request.to.value_or(source.format == Format::Hf ? Format::Mca : Format::Hf);
    ROLL_TRY(std::vector<Stored> layout, target_layout(source, request, to));
    ROLL_TRY(Plan plan, make_plan(source, std::move(layout), request.cast()));
    complete_plan(source, request, to, plan);
    Report report{source.format,
                  to,
                  source.config.model_type,
                  request.target,
                  plan.tensors.size(),
                  plan.files.size(),
                  0,
                  plan.bytes,
                  plan.parameters,
                  plan.dtype,
                  source.dropped,
                  disagreement_of(source, plan),
                  request.dry_run ? to_text(source, plan) : ""};
    report.memory = memory_of(source, plan, threads_of(request));
    report.disk_free = disk_free(request.target);
    if (request.dry_run) {
        const bool archive = !archive_of(request, to).empty();
        const auto fits = check_space(request.target, space_of(plan, archive));
        if (!fits) report.refusal = fits.error();
        return report;
    }
    ROLL_TRY_VOID(produce(source, plan, request, to, families, hooks, report));
    return report;
}

Json to_json(const Error& error) {
    return {{"code", name_of(error.code)}, {"message", error.message}, {"hint", error.hint}};
}

Json to_json(const Report& report) {
    Json json{{"schema", "roll.convert/1"},
              {"from", name_of(report.from)},
              {"to", name_of(report.to)},
              {"model_type", report.model_type},
              {"target", report.target.string()},
              {"tensors", report.tensors},
              {"files", report.files},
              {"reused", report.reused},
              {"bytes", report.bytes},
              {"parameters", report.parameters},
              {"dtype", tensor::torch_name_of(report.dtype)},
              {"memory_bytes", report.memory},
              {"disk_free_bytes", report.disk_free}};
    json["dropped"] = Json::array();
    for (const Dropped& dropped : report.dropped)
        json["dropped"].push_back(
            {{"file", dropped.file}, {"tensor", dropped.name}, {"rule", dropped.rule}});
    json["unexpected"] = report.disagreement.unexpected;
    json["missing"] = report.disagreement.missing;
    json["left_out"] = report.disagreement.left_out;
    if (report.refusal) json["error"] = to_json(*report.refusal);
    if (!report.plan.empty()) json["plan"] = report.plan;
    return json;
}

}  // namespace roll::convert
