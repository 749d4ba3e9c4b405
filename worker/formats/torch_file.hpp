// Files of torch.save: a zip with a pickle and one member per storage. Reading executes no code.
// Written files can be loaded with torch.load(weights_only=True).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "common/error.hpp"
#include "common/files.hpp"
#include "common/tensor/output_file.hpp"
#include "common/tensor/view.hpp"
#include "worker/formats/pickle.hpp"
#include "worker/formats/pickle_writer.hpp"
#include "worker/formats/zip.hpp"

namespace roll::formats {

// The entries of a state dict. `others` are the keys whose values are not tensors, such as None or
// TransformerEngine's _extra_state.
struct StateDict {
    std::vector<tensor::StridedView> tensors;  // the tensors; info.name is the key
    std::vector<std::string> others;
};

class TorchFile {
  public:
    // Maps and parses a file. Fails with Corrupt if the file is invalid; the message has its path.
    static Result<TorchFile> open(const std::filesystem::path& path);
    // Parses a torch file whose bytes are a part of the file `path`, for example of a .distcp file.
    // The mapping of `path` must outlive the result.
    static Result<TorchFile> parse(const std::filesystem::path& path,
                                   std::span<const std::byte> bytes);

    const Pickle& pickle() const { return pickle_; }

    // Returns the node as a tensor, which may be wrapped in a Parameter. Returns nullopt if the
    // node is not a tensor. Fails with Corrupt if the tensor is invalid.
    Result<std::optional<tensor::StridedView>> tensor(PickleId id) const;

    // Returns the entries of a dict of tensors. Fails with Corrupt if the node is not a dict with
    // text keys, or if the dict repeats a key.
    Result<StateDict> state_dict(PickleId id) const;

  private:
    TorchFile(std::filesystem::path path, std::span<const std::byte> bytes, Pickle pickle)
        : path_(std::move(path)),
          bytes_(bytes),
          pickle_(std::move(pickle)) {}
    tl::unexpected<Error> corrupt(const std::string& what) const;
    Result<tensor::StridedView> rebuild(const PickleNode& arguments, bool typed) const;

    std::filesystem::path path_;
    std::shared_ptr<const MappedFile> file_;  // the file's mapping, if open() made it
    std::span<const std::byte> bytes_;
    Pickle pickle_;
    // archive members with the tensors' storages, by storage key
    std::map<std::string, ZipMember, std::less<>> storages_;
};

// A state dict that is written under a key, as in {"model": {...}}. Each tensor is contiguous and
// has its own storage. If the key is empty, the file itself is the state dict; then no other
// section may exist.
struct TorchSection {
    std::string key;
    std::vector<tensor::TensorInfo> tensors;
    std::vector<std::string> nones = {};  // names of entries whose value is None
    bool nested = false;                  // true: a '/' in a name starts a nested dict
};

// A torch file that is written from front to back: for each member of `layout` its header and
// content, then the central directory. Member 0 is the pickle, member 1 + i is tensor i, and the
// last two members are `marks`.
struct TorchImage {
    std::string pickle;
    std::array<std::string_view, 2> marks;
    ZipLayout layout;
};

// Returns the image of a file named `path`. `more` writes further keys of the file's dict and their
// values. Fails with InvalidArgument if torch does not have the data type of a tensor.
Result<TorchImage> torch_image(const std::filesystem::path& path,
                               const std::vector<TorchSection>& sections,
                               const std::function<void(PickleWriter&)>& more = {});

// Writes a torch file. Tensors may be appended in any order. The bytes of one tensor must be
// appended in order.
class TorchFileWriter {
  public:
    // Creates the file that torch_image() describes. If its content equals the content of the file
    // `earlier`, the new file becomes a link to `earlier`, as with OutputFile.
    static Result<TorchFileWriter> create(const std::filesystem::path& path,
                                          std::vector<TorchSection> sections,
                                          const std::function<void(PickleWriter&)>& more = {},
                                          const std::filesystem::path& earlier = {});

    // Appends bytes to a tensor. `tensor` is the tensor's number, counted across all sections.
    Result<void> append(std::size_t tensor, std::span<const std::byte> bytes);
    // Writes the headers, syncs and closes. Requires that every tensor is complete.
    Result<void> finish();

  private:
    friend Result<void> write_torch_pickle(const std::filesystem::path& path,
                                           const std::string& pickle);
    static Result<TorchFileWriter> begin(const std::filesystem::path& path, TorchImage image,
                                         const std::filesystem::path& earlier = {});
    TorchFileWriter(tensor::OutputFile file, ZipLayout layout)
        : file_(std::move(file)),
          layout_(std::move(layout)) {}
    Result<void> append_to(std::size_t member, std::span<const std::byte> bytes);
    tensor::OutputFile file_;
    ZipLayout layout_;  // member 0 is the pickle, member 1 + i is tensor i
    std::vector<std::int64_t> written_;
};

// Writes a torch file with one value that contains no tensors. `pickle` is the pickled value.
Result<void> write_torch_pickle(const std::filesystem::path& path, const std::string& pickle);

}  // namespace roll::formats
