// Writes a rank's part of each checkpoint in the background. Between two steps, the rank copies the
// bytes of its part to a ring buffer in host memory. While training continues, a thread hashes
// these bytes and writes them to files. If the bytes do not fit in the ring buffer, training waits
// until the thread has written enough bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "worker/checkpoint/background.hpp"
#include "worker/checkpoint/byte_pipe.hpp"
#include "worker/checkpoint/part.hpp"
#include "worker/train/save/part_plan.hpp"
#include "worker/train/save/streamed_file.hpp"

namespace roll::train {

class PartWriter {
  public:
    // `plan`: what this rank writes. `rank`: this rank's number in the job. `buffer`: the largest
    // size of the ring buffer in bytes. `step` and `model` must outlive this object.
    PartWriter(TrainStep& step, const ModelSetup& model, PartPlan plan, int rank,
               std::int64_t buffer);

    const PartPlan& plan() const { return plan_; }

    // Returns the number of bytes that this rank writes to files, including its part of the index.
    std::int64_t bytes() const { return bytes_; }

    // Starts to allocate the pages of the ring buffer in the background, so that the first save
    // need not wait for the pages. Does nothing while a part is being written.
    void allocate_buffer();

    // Starts to write the part to the staged directory. Returns when training may change the model.
    // All ranks of the job must call start(). Requires !is_running().
    void start(const std::filesystem::path& staged, const checkpoint::Name& name);

    // Makes the next start() write nothing. The part then fails as on a full disk. Only for tests
    // of a job's reaction to a full disk (train.faults).
    void fail_next() { fails_next_ = true; }

    bool is_running() const { return running_; }
    // Returns true if the running part is on disk or has failed.
    bool is_done();
    void wait();  // blocks until is_done() is true
    // Returns true if writing the part has failed. Requires is_done().
    bool has_failed() const { return !*outcome_; }
    // Returns the result and clears the running part. Requires is_done().
    Result<void> take();

  private:
    void produce();
    void send(const StreamedFile& file, at::ScalarType type, std::int64_t elements,
              const std::function<void(const at::Tensor& to, std::int64_t begin)>& copy);
    void send_weights(const WeightFile& weights, const StreamedFile* file, const FileShare* share);
    void send_own_weight(const Content& content);
    void send_state(const Content& content);
    bool has_averaged_adapter() const;
    void send_adapter(const StreamedFile* file, bool averaged);

    TrainStep& step_;
    const ModelSetup& model_;
    int rank_;
    PartPlan plan_;
    // Files in the order in which they are written, and this rank's share of each file. The files
    // with weights come first. A rank may have a share of a file that it does not own.
    std::vector<StreamedFile> files_;
    std::vector<FileShare> shares_;
    std::vector<bool> writes_;  // for each file of weights, whether this rank has a share of it
    std::vector<std::size_t> factors_;  // for each tensor of the adapter, the index of its factor
    std::int64_t bytes_ = 0;
    at::Tensor ring_;
    std::optional<checkpoint::BytePipe> pipe_;
    bool running_ = false, fails_next_ = false;
    std::optional<Result<std::string>> outcome_;
    checkpoint::Background background_;
};

}  // namespace roll::train
