#include "worker/train/save/streamed_file.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "common/files.hpp"
#include "common/hash.hpp"
#include "common/tensor/safetensors.hpp"
#include "worker/formats/dcp.hpp"

namespace roll::train {
namespace {

constexpr std::int64_t kBlock = std::int64_t{4} << 20;  // number of bytes written at a time

using Spans = std::array<std::span<const std::byte>, 2>;

// An output file of which this rank writes a share. The rank that owns the file also hashes the
// whole file.
class HashedFile {
  public:
    static Result<HashedFile> create(const std::filesystem::path& path, const FileShare& share) {
        ROLL_TRY_VOID(make_directories(path.parent_path()));
        ROLL_TRY(tensor::OutputFile file, share.is_whole() ? tensor::OutputFile::create(path)
                                                           : tensor::OutputFile::open_shared(path));
        return HashedFile(std::move(file), share);
    }
    // Continues at another place of the file. Only for a rank that does not own the file.
    void seek(std::int64_t place) { place_ = place; }
    // Takes the next bytes of the file, and writes those that are in the share.
    Result<void> append(std::span<const std::byte> bytes) {
        ROLL_TRY_VOID(write(bytes, share_.begin, std::min(share_.end, share_.tail)));
        if (share_.own) {
            ROLL_TRY_VOID(write(bytes, share_.tail, std::numeric_limits<std::int64_t>::max()));
            hash_->add(bytes);
        }
        place_ += std::ssize(bytes);
        return {};
    }
    Result<void> append(const std::string& text) { return append(tensor::as_bytes(text)); }
    WrittenFile take(const std::string& name) && {
        std::optional<checkpoint::FileEntry> entry;
        if (share_.own) entry = {name, static_cast<std::uint64_t>(place_), hash_->value()};
        return {std::move(entry), std::move(file_)};
    }

  private:
    HashedFile(tensor::OutputFile file, const FileShare& share)
        : file_(std::move(file)),
          share_(share),
          hash_(std::make_unique<Hash64>()) {}

    // Writes those of the next bytes that are in [begin, end) of the file.
    Result<void> write(std::span<const std::byte> bytes, std::int64_t begin, std::int64_t end) {
        const std::int64_t first = std::max(begin, place_);
        const std::int64_t last = std::min(end, place_ + std::ssize(bytes));
        if (first >= last) return {};
        return file_.write_at(first, bytes.subspan(static_cast<std::size_t>(first - place_),
                                                   static_cast<std::size_t>(last - first)));
    }

    tensor::OutputFile file_;
    FileShare share_;
    std::unique_ptr<Hash64> hash_;
    std::int64_t place_ = 0;  // offset of the next byte
};

// Returns the offset of the first byte after tensor `i`.
std::int64_t end_of(const StreamedFile& file, std::size_t i) {
    return file.begins[i] + file.sizes[i];
}

Result<Spans> taken(checkpoint::BytePipe& pipe, std::int64_t size) {
    const Spans spans = pipe.await(static_cast<std::size_t>(size));
    if (spans[0].empty())
        return fail(ErrorCode::Failed, "the training step that saves the checkpoint has failed");
    return spans;
}

// Takes the next tensor's CRC-32 from the pipe, or computes it from the tensor's bytes. Returns 0
// if the file needs no CRC-32.
Result<std::uint32_t> next_crc(const StreamedFile& file, std::int64_t size,
                               checkpoint::BytePipe& pipe) {
    if (!file.has_crc || size == 0) return 0;
    if (!sends_crc(file, size, pipe)) {
        ROLL_TRY(const Spans all, taken(pipe, size));
        return formats::crc32_of(formats::crc32_of(0, all[0]), all[1]);
    }
    ROLL_TRY(const Spans sent, taken(pipe, sizeof(std::uint64_t)));
    std::uint64_t crc = 0;
    std::memcpy(&crc, sent[0].data(), sent[0].size());
    if (!sent[1].empty())
        std::memcpy(reinterpret_cast<std::byte*>(&crc) + sent[0].size(), sent[1].data(),
                    sent[1].size());
    pipe.release(sizeof crc);
    return static_cast<std::uint32_t>(crc);
}

}  // namespace

Result<StreamedFile> torch_stream(const std::string& path,
                                  const std::vector<formats::TorchSection>& sections) {
    ROLL_TRY(formats::TorchImage made, formats::torch_image(path, sections));
    const auto image = std::make_shared<formats::TorchImage>(std::move(made));
    StreamedFile file{.path = path, .has_crc = true};
    std::vector<formats::ZipMember>& members = image->layout.members();
    members.front().crc = formats::crc32_of(0, tensor::as_bytes(image->pickle));
    // the members are the pickle, the tensors, and two marks
    const std::size_t tensors = members.size() - 3;
    for (std::size_t i = 0; i < tensors; ++i) file.sizes.push_back(members[i + 1].size);
    for (std::size_t i = 0; i < 2; ++i)
        members[tensors + 1 + i].crc = formats::crc32_of(0, tensor::as_bytes(image->marks[i]));
    file.front = [image](std::size_t i, std::uint32_t crc) {
        image->layout.members()[i + 1].crc = crc;
        const std::string start = i > 0 ? "" : image->layout.header(0) + image->pickle;
        return start + image->layout.header(i + 1);
    };
    file.back = [image, tensors] {
        std::string text;
        for (std::size_t i = 0; i < 2; ++i)
            text += image->layout.header(tensors + 1 + i) + std::string(image->marks[i]);
        return text + image->layout.directory();
    };
    file.bytes = image->layout.size();
    for (std::size_t i = 0; i < tensors; ++i) file.begins.push_back(members[i + 1].begin);
    return file;
}

Result<StreamedFile> distcp_stream(const std::string& path,
                                   const std::vector<tensor::TensorInfo>& infos) {
    const auto items = std::make_shared<std::vector<formats::DistcpItem>>();
    StreamedFile file{.path = path, .has_crc = true};
    for (const tensor::TensorInfo& info : infos) {
        ROLL_TRY(formats::DistcpItem item, formats::distcp_item(info));
        file.sizes.push_back(item.content().size);
        file.bytes += item.layout.size();
        items->push_back(std::move(item));
    }
    file.front = [items](std::size_t i, std::uint32_t crc) {
        (*items)[i].content().crc = crc;
        return (i > 0 ? back_of((*items)[i - 1]) : "") + front_of((*items)[i]);
    };
    file.back = [items] { return items->empty() ? "" : back_of(items->back()); };
    return file;
}

Result<StreamedFile> safetensors_stream(const std::string& path,
                                        std::vector<tensor::TensorInfo>& infos) {
    ROLL_TRY(tensor::SafetensorsLayout layout,
             tensor::layout_safetensors(std::move(infos), {{"format", "pt"}}));
    StreamedFile file{.path = path, .bytes = layout.header.file_size};
    infos.clear();
    for (tensor::SafetensorsEntry& entry : layout.header.entries) {
        file.sizes.push_back(entry.end - entry.begin);
        infos.push_back(std::move(entry.info));
    }
    file.front = [prefix = std::move(layout.prefix)](std::size_t i, std::uint32_t) {
        return i > 0 ? std::string() : prefix;
    };
    file.back = [] { return std::string(); };
    return file;
}

FileShare share_of(const StreamedFile& file, const std::vector<std::int64_t>& shares, int replica,
                   bool own) {
    constexpr std::int64_t kPage = 1 << 16;  // the largest page of the usual processors
    const std::int64_t all = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
    if (all == 0) return {.end = own ? file.bytes : 0, .own = own};
    const std::int64_t tail = end_of(file, file.sizes.size() - 1) / kPage * kPage;
    std::int64_t before = 0;
    const auto place = [&] {
        const double part = static_cast<double>(before) / static_cast<double>(all);
        return static_cast<std::int64_t>(part * static_cast<double>(tail)) / kPage * kPage;
    };
    for (int i = 0; i < replica; ++i) before += shares[static_cast<std::size_t>(i)];
    FileShare share{.begin = place(), .own = own, .tail = tail};
    before += shares[static_cast<std::size_t>(replica)];
    share.end = before == all ? tail : place();
    return share;
}

bool is_streamed(const StreamedFile& file, const FileShare& share, std::size_t i) {
    if (share.own) return true;
    const std::int64_t begin = i == 0 ? 0 : end_of(file, i - 1);
    return begin < share.end && share.begin < end_of(file, i) && share.begin < share.end;
}

std::int64_t written_bytes(const StreamedFile& file, const FileShare& share) {
    const std::int64_t end = std::min({share.end, share.tail, file.bytes});
    const std::int64_t tail = share.own ? std::max<std::int64_t>(file.bytes - share.tail, 0) : 0;
    return std::max<std::int64_t>(end - share.begin, 0) + tail;
}

bool sends_crc(const StreamedFile& file, std::int64_t size, const checkpoint::BytePipe& pipe) {
    return file.has_crc && static_cast<std::size_t>(size) > pipe.capacity();
}

Result<WrittenFile> write_streamed(const std::filesystem::path& directory, const StreamedFile& file,
                                   const FileShare& share, checkpoint::BytePipe& pipe) {
    ROLL_TRY(HashedFile out, HashedFile::create(directory / file.path, share));
    const std::int64_t block = std::min(kBlock, static_cast<std::int64_t>(pipe.capacity()));
    for (std::size_t i = 0; i < file.sizes.size(); ++i) {
        if (!is_streamed(file, share, i)) continue;
        if (!share.own) out.seek(i == 0 ? 0 : end_of(file, i - 1));
        ROLL_TRY(const std::uint32_t crc, next_crc(file, file.sizes[i], pipe));
        ROLL_TRY_VOID(out.append(file.front(i, crc)));
        for (std::int64_t left = file.sizes[i]; left > 0;) {
            const std::int64_t size = std::min(left, block);
            ROLL_TRY(const Spans spans, taken(pipe, size));
            for (const auto& span : spans) ROLL_TRY_VOID(out.append(span));
            pipe.release(static_cast<std::size_t>(size));
            left -= size;
        }
    }
    if (share.own) ROLL_TRY_VOID(out.append(file.back()));
    return std::move(out).take(file.path);
}

}  // namespace roll::train
