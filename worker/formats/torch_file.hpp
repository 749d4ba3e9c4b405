// Files of torch.save: a zip with a pickle and one member per storage. Reading executes nothing;
// written files load with torch.load(weights_only=True).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
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

// A state dict. `others` are the keys of entries that are not tensors (None, TransformerEngine's
// _extra_state).
struct StateDict {
    std::vector<tensor::StridedView> tensors;  // info.name is the key
    std::vector<std::string> others;
};

class TorchFile {
  public:
    // Maps the file. Fails with Corrupt and the path.
    static Result<TorchFile> open(const std::filesystem::path& path);
    // Reads a torch file inside the file `path`, whose mapping must outlive the result.
    static Result<TorchFile> parse(const std::filesystem::path& path,
                                   std::span<const std::byte> bytes);

    const Pickle& pickle() const { return pickle_; }

    // Returns the node as a tensor or Parameter; nullopt if it is neither. Fails with Corrupt if
    // the tensor is invalid.
    Result<std::optional<tensor::StridedView>> tensor(PickleId id) const;

    // Returns a dict of tensors. Fails with Corrupt if the node is not a dict with text keys or
    // repeats a key.
    Result<StateDict> state_dict(PickleId id) const;

  private:
    TorchFile(std::filesystem::path path, std::span<const std::byte> bytes, Pickle pickle)
        : path_(std::move(path)),
          bytes_(bytes),
          pickle_(std::move(pickle)) {}
    tl::unexpected<Error> corrupt(const std::string& what) const;
    Result<tensor::StridedView> rebuild(const PickleNode& arguments, bool typed) const;

    std::filesystem::path path_;
    std::shared_ptr<const MappedFile> file_;  // set by open()
    std::span<const std::byte> bytes_;
    Pickle pickle_;
    std::map<std::string, ZipMember, std::less<>> storages_;  // by key
};

// A state dict under a key, as in {"model": {...}}. Each tensor is contiguous in its own storage.
// An empty key means that the file is a plain state dict; it is then the only section.
struct TorchSection {
    std::string key;
    std::vector<tensor::TensorInfo> tensors;
    std::vector<std::string> nones = {};  // names with the value None
    bool nested = false;                  // a '/' in a name starts a nested dict
};

// Writes a torch file. Tensors may come in any order, the bytes of one in order.
class TorchFileWriter {
  public:
    // Fails with InvalidArgument if torch lacks a dtype. `more` writes further keys of the dict,
    // each with its value. `earlier` is passed to OutputFile.
    static Result<TorchFileWriter> create(const std::filesystem::path& path,
                                          std::vector<TorchSection> sections,
                                          const std::function<void(PickleWriter&)>& more = {},
                                          const std::filesystem::path& earlier = {});

    // `tensor` counts across all sections.
    Result<void> append(std::size_t tensor, std::span<const std::byte> bytes);
    // Requires complete tensors. Writes the headers, syncs and closes.
    Result<void> finish();

  private:
    friend Result<void> write_torch_pickle(const std::filesystem::path& path,
                                           const std::string& pickle);
    static Result<TorchFileWriter> begin(const std::filesystem::path& path,
                                         const std::string& pickle,
                                         const std::vector<std::int64_t>& storages,
                                         const std::filesystem::path& earlier = {});
    TorchFileWriter(tensor::OutputFile file, ZipLayout layout)
        : file_(std::move(file)),
          layout_(std::move(layout)) {}
    Result<void> append_to(std::size_t member, std::span<const std::byte> bytes);
    tensor::OutputFile file_;
    ZipLayout layout_;  // member 0 is the pickle, member 1 + i tensor i
    std::vector<std::int64_t> written_;
};

// Writes a whole file from memory: {key: {name: tensor, ...}}, or the inner dict alone if `key` is
// empty.
Result<void> write_torch_file(const std::filesystem::path& path, const std::string& key,
                              const std::vector<tensor::TensorView>& tensors);

// Writes a file of one value without tensors.
Result<void> write_torch_pickle(const std::filesystem::path& path, const std::string& pickle);

}  // namespace roll::formats
