// Files of torch.save: a zip with a pickle and one member for each storage. Read without executing
// anything; written so that torch.load(weights_only=True) takes them.
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

// A state dict; `others` are the keys of what is no tensor (None, TransformerEngine's
// _extra_state).
struct StateDict {
    std::vector<tensor::StridedView> tensors;  // info.name is the key
    std::vector<std::string> others;
};

class TorchFile {
  public:
    // Maps the file. Corrupt names the path.
    static Result<TorchFile> open(const std::filesystem::path& path);
    // A torch file inside another file, `path`, which must stay mapped as long as this lives.
    static Result<TorchFile> parse(const std::filesystem::path& path,
                                   std::span<const std::byte> bytes);

    const Pickle& pickle() const { return pickle_; }

    // The node as a tensor (a Parameter counts). Corrupt if it is a tensor with a hole in it;
    // nothing if it is something else.
    Result<std::optional<tensor::StridedView>> tensor(PickleId id) const;

    // A dict of tensors. Corrupt if the node is not a dict with text keys, or has a key twice.
    Result<StateDict> state_dict(PickleId id) const;

  private:
    TorchFile(std::filesystem::path path, std::span<const std::byte> bytes, Pickle pickle)
        : path_(std::move(path)),
          bytes_(bytes),
          pickle_(std::move(pickle)) {}
    tl::unexpected<Error> corrupt(const std::string& what) const;
    Result<tensor::StridedView> rebuild(const PickleNode& arguments, bool typed) const;

    std::filesystem::path path_;
    std::shared_ptr<const MappedFile> file_;  // of open()
    std::span<const std::byte> bytes_;
    Pickle pickle_;
    std::map<std::string, ZipMember, std::less<>> storages_;  // by key
};

// A dict of state dicts, {"model": {...}}; each tensor contiguous in a storage of its own. An empty
// section name stands for a plain state dict, and is then the only one.
struct TorchSection {
    std::string key;
    std::vector<tensor::TensorInfo> tensors;
    std::vector<std::string> nones = {};  // further names, of None
    bool nested = false;                  // a '/' in a name leads into a dict of its own
};

// Writes tensor by tensor: tensors in any order, the bytes of one in order.
class TorchFileWriter {
  public:
    // InvalidArgument: a dtype that torch cannot store so. `more` writes further keys of the dict,
    // each with its value. `earlier`: as of OutputFile.
    static Result<TorchFileWriter> create(const std::filesystem::path& path,
                                          std::vector<TorchSection> sections,
                                          const std::function<void(PickleWriter&)>& more = {},
                                          const std::filesystem::path& earlier = {});

    // `tensor` counts over all sections.
    Result<void> append(std::size_t tensor, std::span<const std::byte> bytes);
    // Every tensor is complete: headers, fsync, close.
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

// A whole file from memory: {key: {name: tensor, ...}}, or the inner dict alone if key is empty.
Result<void> write_torch_file(const std::filesystem::path& path, const std::string& key,
                              const std::vector<tensor::TensorView>& tensors);

// A file of one value without tensors.
Result<void> write_torch_pickle(const std::filesystem::path& path, const std::string& pickle);

}  // namespace roll::formats
