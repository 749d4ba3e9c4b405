#include "worker/convert/write/carry_out.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include <sys/statvfs.h>

#include "common/files.hpp"
#include "worker/convert/plan/gather.hpp"
#include "worker/convert/write/target.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

Result<void> stopped() { return fail(ErrorCode::Unavailable, "the conversion was stopped"); }

// Runs tasks on several threads. The first task that fails stops all threads.
class Workers {
  public:
    Workers(int threads, const Hooks& hooks) : threads_(threads), hooks_(hooks) {}

    // Runs task(0), ..., task(count - 1). Each task runs on one of the threads.
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

    // Fails if a hook requests a stop, or if a mapped file became unreadable. Call check_stop()
    // before each comparison and before each write. Call progress() after each write.
    Result<void> check_stop() {
        const std::lock_guard lock(mutex_);
        return hooks_.stopped() ? stopped() : check_mapped_reads();
    }
    // Decides whether the result `equal` of comparing two replicas is an error. If the replicas
    // differ and hooks_.differs is set, reports the difference to hooks_.differs and returns
    // success. Otherwise, returns `equal`.
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
// that writes its last tensor syncs it, while the other threads continue. As a result, only a few
// files are open at a time, and the disk stays busy.
class OpenFiles {
  public:
    OpenFiles(const Plan& plan, const fs::path& directory, const Run& run)
        : plan_(plan),
          directory_(directory),
          reuse_(run.reuse),
          own_(own_files(plan, run.part)),
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

    // Counts a tensor of the file as written. Closes the file after its last tensor.
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
                           const Run& run, Workers& workers) {
    OpenFiles files(plan, directory, run);
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

}  // namespace

std::int64_t disk_free(fs::path path) {
    std::error_code error;
    path = fs::absolute(path);
    while (!fs::exists(path, error) && path.has_relative_path()) path = path.parent_path();
    struct statvfs info {};
    if (::statvfs(path.c_str(), &info) != 0) return -1;
    const auto free = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
    return static_cast<std::int64_t>(std::min(free, 9e18));
}

Result<void> check_space(const fs::path& target, std::int64_t bytes) {
    const std::int64_t free = disk_free(target);
    if (free < 0 || static_cast<double>(free) >= static_cast<double>(bytes) * 1.01) return {};
    return fail(ErrorCode::Refused, fmt::format("{} needs {} bytes, but the disk has only {} bytes "
                                                "free; free space or choose another target",
                                                target.string(), bytes, free));
}

int threads_of(const Run& run) {
    if (run.threads > 0) return run.threads;
    return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 4U));
}

Share share_of(const Part& part) { return {part.index, part.count}; }

Result<void> carry_out(const Source& source, const Plan& plan, const fs::path& directory,
                       const Run& run, const Hooks& hooks) {
    if (run.part.alone()) ROLL_TRY_VOID(check_space(directory, plan.bytes));
    Workers workers(threads_of(run), hooks);
    ROLL_TRY_VOID(check_replicas(source, plan, share_of(run.part), workers));
    return write_tensors(source, plan, directory, run, workers);
}

}  // namespace roll::convert
