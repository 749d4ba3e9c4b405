#include "worker/train/save/part_writer.hpp"

#include <algorithm>
#include <cstring>

#include <ATen/ATen.h>

#include "worker/checkpoint/optimizer_index.hpp"
#include "worker/train/model/lazy_zeros.hpp"
#include "worker/train/optim/rules.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/save/adapter_files.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// Number of a tensor's elements that are added to the checksum at a time
constexpr std::int64_t kCrcElements = 1 << 18;

// Returns true if each data-parallel rank has only its own rows of the main weights.
bool is_spread(const TrainStep& step, const Parameters& p) {
    return step.shares_weights() || (p.is_shared && !p.flat_weight.is_same(p.flat_main));
}

std::vector<formats::TorchSection> sections_of(const WeightFile& weights) {
    std::vector<formats::TorchSection> sections;
    for (std::size_t i = 0; i < weights.keys.size(); ++i) {
        sections.push_back({weights.keys[i], {}});
        for (const Content& content : weights.contents[i])
            sections.back().tensors.push_back(content.info);
    }
    return sections;
}

Result<std::string> write_files(const fs::path& staged, int rank, const checkpoint::Name& name,
                                const std::vector<StreamedFile>& files,
                                const std::vector<FileShare>& shares,
                                checkpoint::OptimizerIndex boxes, checkpoint::BytePipe& pipe) {
    checkpoint::Part part{name, {}, std::move(boxes)};
    std::vector<tensor::OutputFile> written;
    for (std::size_t i = 0; i < files.size(); ++i) {
        auto one = write_streamed(staged, files[i], shares[i], pipe);
        if (!one) {
            pipe.stop();
            return tl::unexpected(one.error());
        }
        if (one->entry) part.files.push_back(std::move(*one->entry));
        written.push_back(std::move(one->file));
    }
    // Wait for the disk only here, after all bytes are read from the pipe. An earlier wait would
    // delay training, which waits until all its bytes are in the pipe.
    for (tensor::OutputFile& file : written) ROLL_TRY_VOID(file.finish());
    ROLL_TRY_VOID(checkpoint::write_part(staged, rank, part));
    return std::string();
}

}  // namespace

PartWriter::PartWriter(TrainStep& step, const ModelSetup& model, PartPlan plan, int rank,
                       std::int64_t buffer)
    : step_(step),
      model_(model),
      rank_(rank),
      plan_(std::move(plan)) {
    for (const WeightFile& weights : plan_.weights) {
        StreamedFile file = need(torch_stream(weights.path, sections_of(weights)));
        const FileShare share =
            share_of(file, weights.shares, step.groups().dp.rank(), weights.own);
        writes_.push_back(written_bytes(file, share) > 0);
        if (!writes_.back()) continue;
        files_.push_back(std::move(file));
        shares_.push_back(share);
    }
    if (model.config.lora.is_set() && rank == 0) {
        AdapterImage image = adapter_image(step, model);
        factors_ = std::move(image.factors);
        files_.push_back(need(safetensors_stream(image.path, image.infos)));
        if (has_averaged_adapter())
            files_.push_back(need(safetensors_stream(
                std::string(checkpoint::kAveragedAdapter) + "/" + image.path, image.infos)));
    }
    if (!plan_.states.empty()) {
        std::vector<tensor::TensorInfo> infos;
        for (const Content& content : plan_.states) infos.push_back(content.info);
        files_.push_back(need(safetensors_stream(plan_.states_path, infos)));
    }
    if (!plan_.blocks.empty()) {
        std::vector<tensor::TensorInfo> infos;
        for (const DistBlock& block : plan_.blocks) infos.push_back(block.content.info);
        files_.push_back(need(distcp_stream(plan_.blocks_path, infos)));
    }
    shares_.resize(files_.size());
    std::int64_t content = 0;
    for (std::size_t i = 0; i < files_.size(); ++i) {
        bytes_ += written_bytes(files_[i], shares_[i]);
        for (std::size_t tensor = 0; tensor < files_[i].sizes.size(); ++tensor)
            if (is_streamed(files_[i], shares_[i], tensor)) content += files_[i].sizes[tensor];
    }
    bytes_ += std::ssize(checkpoint::encode(plan_.boxes));
    // a multiple of every element size
    constexpr std::int64_t kUnit = 64;
    const std::int64_t size = std::clamp(content, kUnit, std::max(buffer, kUnit));
    ring_ = lazy_zeros((size + kUnit - 1) / kUnit * kUnit, at::kByte);
    pipe_.emplace(std::span(reinterpret_cast<std::byte*>(ring_.data_ptr()), ring_.nbytes()));
}

void PartWriter::start(const fs::path& staged, const checkpoint::Name& name) {
    pipe_->reset();
    outcome_.reset();
    running_ = true;
    checkpoint::OptimizerIndex boxes = plan_.boxes;
    boxes.updates = step_.optimizers().front().state().steps;
    boxes.optimizer = spec::name_of(step_.optimizers().front().kind());
    const bool fails = std::exchange(fails_next_, false);
    background_.start(
        [this, staged, name, fails, boxes = std::move(boxes)]() -> Result<std::string> {
            if (fails) {
                pipe_->stop();
                return fail(ErrorCode::Refused, "no space left on the device (train.faults)");
            }
            return write_files(staged, rank_, name, files_, shares_, boxes, *pipe_);
        });
    try {
        produce();
    } catch (...) {
        pipe_->abandon();
        throw;
    }
}

void PartWriter::produce() {
    auto file = files_.begin();
    const bool gathers = is_spread(step_, step_.chunks().front().parameters());
    for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
        const auto number = static_cast<std::size_t>(file - files_.begin());
        if (writes_[i])
            send_weights(plan_.weights[i], &*file++, &shares_[number]);
        else if (gathers)
            send_weights(plan_.weights[i], nullptr, nullptr);
    }
    if (model_.config.lora.is_set()) send_adapter(rank_ == 0 ? &*file++ : nullptr, false);
    if (has_averaged_adapter()) send_adapter(rank_ == 0 ? &*file++ : nullptr, true);
    for (const Content& content : plan_.states) send_state(content);
    for (const DistBlock& block : plan_.blocks)
        block.content.state.empty() ? send_own_weight(block.content) : send_state(block.content);
}

// Passes the elements of a tensor of type `type` to the writing thread. copy(to, begin) copies the
// elements from `begin` on to a CPU tensor.
void PartWriter::send(const StreamedFile& file, at::ScalarType type, std::int64_t elements,
                      const std::function<void(const at::Tensor& to, std::int64_t begin)>& copy) {
    const auto element = static_cast<std::int64_t>(c10::elementSize(type));
    if (sends_crc(file, elements * element, *pipe_)) {
        std::uint64_t crc = 0;
        const at::Tensor block = at::empty({std::min(kCrcElements, elements)}, type);
        for (std::int64_t begin = 0; begin < elements; begin += block.numel()) {
            const at::Tensor part = block.narrow(0, 0, std::min(block.numel(), elements - begin));
            copy(part, begin);
            crc = formats::crc32_of(
                static_cast<std::uint32_t>(crc),
                {static_cast<const std::byte*>(part.const_data_ptr()), part.nbytes()});
        }
        for (std::size_t sent = 0; sent < sizeof crc;) {
            const std::span<std::byte> room = pipe_->room(sizeof crc - sent);
            if (room.empty()) return;
            std::memcpy(room.data(), reinterpret_cast<const std::byte*>(&crc) + sent, room.size());
            pipe_->commit(room.size());
            sent += room.size();
        }
    }
    for (std::int64_t begin = 0; begin < elements;) {
        const std::span<std::byte> room =
            pipe_->room(static_cast<std::size_t>((elements - begin) * element));
        if (room.empty()) return;
        const std::int64_t count = std::ssize(room) / element;
        copy(at::from_blob(room.data(), {count}, at::TensorOptions(type)), begin);
        pipe_->commit(room.size());
        begin += count;
    }
}

// Passes the weights in a share of a file to the writing thread. If `file` is null, other replicas
// write the file. In that case, this rank only helps to join the rows of the weights, if each
// replica has only some of the rows (joined_main()).
void PartWriter::send_weights(const WeightFile& weights, const StreamedFile* file,
                              const FileShare* share) {
    std::size_t number = 0;  // index of the tensor in the file
    for (const std::vector<Content>& contents : weights.contents) {
        for (const Content& content : contents) {
            const Parameters& p = step_.chunks()[content.chunk].parameters();
            const std::size_t i = content.index;
            const std::int64_t elements = c10::multiply_integers(p.specs[i].sizes);
            // the whole weight as one tensor; undefined if the weight is stored as halves, which
            // copy_main() joins
            at::Tensor rows;
            if (is_spread(step_, p))
                rows = joined_main(p, i, step_.groups().dp).flatten();
            else if (p.flat_weight.is_same(p.flat_main))
                rows = p.weight[i].flatten();
            if (file == nullptr || !is_streamed(*file, *share, number++)) continue;
            send(*file, main_type(p), elements, [&](const at::Tensor& to, std::int64_t begin) {
                if (rows.defined())
                    to.copy_(rows.narrow(0, begin, to.numel()));
                else
                    copy_main(p, i, to, begin);
            });
        }
    }
}

// Passes rows of a main weight that this rank has.
void PartWriter::send_own_weight(const Content& content) {
    const Parameters& p = step_.chunks()[content.chunk].parameters();
    const std::int64_t row =
        c10::multiply_integers(p.specs[content.index].sizes) / p.specs[content.index].sizes[0];
    const std::int64_t first = (content.rows.begin - p.own[content.index].begin) * row;
    send(files_.back(), main_type(p), content.rows.count * row,
         [&](const at::Tensor& to, std::int64_t begin) {
             copy_main(p, content.index, to, first + begin);
         });
}

void PartWriter::send_state(const Content& content) {
    const Parameters& p = step_.chunks()[content.chunk].parameters();
    const at::Tensor state =
        step_.optimizers()[content.chunk].state().of(content.state, content.index);
    const std::int64_t first =
        content.is_whole ? 0 : content.rows.begin - p.own[content.index].begin;
    const at::Tensor rows = state.narrow(0, first, content.rows.count).flatten();
    send(files_.back(), rows.scalar_type(), rows.numel(),
         [&](const at::Tensor& to, std::int64_t begin) {
             copy_state(to, rows.narrow(0, begin, to.numel()));
         });
}

// Returns true if the job trains an adapter and its average.
bool PartWriter::has_averaged_adapter() const {
    const std::vector<StateTensors>& kinds = step_.optimizers().front().state().kinds;
    return model_.config.lora.is_set() &&
           std::ranges::any_of(kinds, [](const auto& kind) { return kind.ending == kEma; });
}

// Passes the adapter, or its average, to the writing thread of the first rank. The other ranks send
// their parts to the first rank; their `file` is null.
void PartWriter::send_adapter(const StreamedFile* file, bool averaged) {
    const std::vector<at::Tensor> factors = joined_factors(step_, averaged);
    if (file == nullptr) return;
    for (const std::size_t i : factors_) {
        const at::Tensor flat = factors[i].flatten();
        send(*file, flat.scalar_type(), flat.numel(),
             [&](const at::Tensor& to, std::int64_t begin) {
                 to.copy_(flat.narrow(0, begin, to.numel()));
             });
    }
}

bool PartWriter::is_done() {
    if (!outcome_) outcome_ = background_.poll();
    return outcome_.has_value();
}

void PartWriter::wait() {
    if (!outcome_) outcome_ = background_.wait();
}

Result<void> PartWriter::take() {
    running_ = false;
    if (!*outcome_) return tl::unexpected(outcome_->error());
    return {};
}

}  // namespace roll::train
