#include "worker/train/data/teacher_values.hpp"

#include <cstring>
#include <string>

#include <ATen/ATen.h>

#include "common/hash.hpp"
#include "worker/train/ops/values.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExtension = ".topk";

// The start of a record. The ids follow as int32 [rows, top_k], then the log-probabilities as
// float32 [rows, top_k].
struct Header {
    std::uint64_t hash = 0;  // XXH3-64 of the record after this field
    std::uint64_t key = 0;
    std::uint32_t rows = 0, top_k = 0;

    std::size_t values() const { return std::size_t{rows} * top_k; }
    std::size_t bytes() const {
        return sizeof(Header) + values() * (sizeof(std::int32_t) + sizeof(float));
    }
};
static_assert(sizeof(Header) == 24);

std::uint64_t hash_of(std::span<const std::byte> record) {
    return hash64(record.subspan(sizeof(Header::hash)));
}

// Returns the header of the record at `offset`. The header's top_k is 0 if the file has no whole
// record there.
Header header_at(std::span<const std::byte> file, std::size_t offset) {
    Header header;
    if (file.size() - offset < sizeof header) return {};
    std::memcpy(&header, file.data() + offset, sizeof header);
    if (header.top_k == 0 || header.values() > file.size() || header.bytes() > file.size() - offset)
        return {};
    return header;
}

template <class T>
void append_bytes(std::string& text, const T* values, std::size_t count) {
    text.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

}  // namespace

std::uint64_t teacher_key(const data::Window& window, const spec::TrainSpec& spec) {
    const data::Tokens tokens = window.tokens();
    std::vector<std::int64_t> content;
    content.reserve(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) content.push_back(tokens[i]);
    if (spec.data.documents_apart)
        for (const std::size_t start : window.document_starts())
            content.push_back(static_cast<std::int64_t>(start));
    return hash64(std::as_bytes(std::span(content)), tokens.size());
}

Result<TeacherValuesFiles> TeacherValuesFiles::open(const fs::path& directory, std::int64_t top_k,
                                                    bool verify) {
    TeacherValuesFiles all;
    all.top_k_ = top_k;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(directory, none)) {
        if (entry.path().extension() != kExtension || entry.file_size(none) == 0) continue;
        ROLL_TRY(MappedFile file, MappedFile::open(entry.path()));
        const std::span<const std::byte> bytes = file.bytes();
        for (std::size_t offset = 0; offset < bytes.size();) {
            const Header header = header_at(bytes, offset);
            if (header.top_k == 0) break;
            const bool fits = header.top_k == static_cast<std::uint64_t>(top_k);
            const auto record = bytes.subspan(offset, header.bytes());
            if (fits && (!verify || hash_of(record) == header.hash))
                all.places_.emplace(header.key, Place{all.files_.size(), offset});
            offset += header.bytes();
        }
        all.files_.push_back(std::move(file));
        all.paths_.push_back(entry.path());
    }
    return all;
}

void TeacherValuesFiles::copy(std::uint64_t key, const at::Tensor& targets_T, std::int64_t begin,
                              const TeacherValues& values) const {
    const auto* targets = targets_T.const_data_ptr<std::int64_t>();
    std::vector<std::int64_t> rows;  // indices of the rows of `values` to fill
    for (std::int64_t i = 0; i < targets_T.numel(); ++i)
        if (targets[i] != ops::kIgnored) rows.push_back(begin + i);
    if (rows.empty()) return;
    const std::byte* record = nullptr;
    std::string damaged;
    const auto [first, last] = places_.equal_range(key);
    for (auto place = first; record == nullptr && place != last; ++place) {
        const auto& [file, offset] = place->second;
        const std::span<const std::byte> bytes = files_[file].bytes();
        const Header header = header_at(bytes, offset);
        const bool sound = header.rows == rows.size() &&
                           hash_of(bytes.subspan(offset, header.bytes())) == header.hash;
        if (sound)
            record = bytes.data() + offset;
        else
            damaged = paths_[file].string();
    }
    if (record == nullptr)
        throw RankFailure(
            1,
            damaged.empty()
                ? "the teacher's stored predictions lack tokens that the job needs, perhaps "
                  "because their files were deleted; submit the job again to compute these "
                  "predictions"
                : damaged +
                      " is damaged; delete this file, and the job computes the predictions again");
    const std::byte* const ids = record + sizeof(Header);
    const std::byte* const log_probs =
        ids + rows.size() * static_cast<std::size_t>(top_k_) * sizeof(std::int32_t);
    const auto top_k = static_cast<std::size_t>(top_k_);
    auto* const to_ids = values.ids_MK.data_ptr<std::int64_t>();
    auto* const to_log_probs = values.log_probs_MK.data_ptr<double>();
    for (std::size_t n = 0; n < rows.size(); ++n)
        for (std::size_t k = 0; k < top_k; ++k) {
            std::int32_t id = 0;
            float log_prob = 0;
            std::memcpy(&id, ids + (n * top_k + k) * sizeof id, sizeof id);
            std::memcpy(&log_prob, log_probs + (n * top_k + k) * sizeof log_prob, sizeof log_prob);
            const std::size_t to = static_cast<std::size_t>(rows[n]) * top_k + k;
            to_ids[to] = id;
            to_log_probs[to] = log_prob;
        }
}

Result<void> TeacherValuesWriter::append(std::uint64_t key, const at::Tensor& ids_NK,
                                         const at::Tensor& log_probs_NK) {
    if (!opened_) {
        ROLL_TRY_VOID(make_directories(path_.parent_path()));
        ROLL_TRY(file_, data::AppendFile::open(path_.string() + kExtension, 0));
        opened_ = true;
    }
    const Header header{.key = key,
                        .rows = static_cast<std::uint32_t>(ids_NK.size(0)),
                        .top_k = static_cast<std::uint32_t>(ids_NK.size(1))};
    const at::Tensor ids = ids_NK.to(at::kInt).contiguous(),
                     log_probs = log_probs_NK.to(at::kFloat).contiguous();
    std::string record;
    append_bytes(record, &header, 1);
    append_bytes(record, ids.const_data_ptr<std::int32_t>(), header.values());
    append_bytes(record, log_probs.const_data_ptr<float>(), header.values());
    const std::uint64_t hash = hash_of(std::as_bytes(std::span(record)));
    std::memcpy(record.data(), &hash, sizeof hash);
    return file_.append(record);
}

Result<void> TeacherValuesWriter::sync() { return opened_ ? file_.sync() : Result<void>(); }

}  // namespace roll::train
