// Keeps values that forward saves for backward outside the memory of the device
// (train.activation_offload).
//
// A store copies the memory of saved tensors, and the caller then frees this memory. When backward
// needs the tensors, the store copies the bytes into new memory. The bits do not change. Used from
// one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace roll::train {

// The copy of a tensor's memory. The destructor frees the copy.
class KeptBytes {
  public:
    virtual ~KeptBytes() = default;
    virtual void fetch() = 0;       // begins to read the copy
    virtual at::Tensor take() = 0;  // returns the bytes, in new memory of the device
};

class SavedStore {
  public:
    SavedStore(at::Device device, std::int64_t least);
    virtual ~SavedStore() = default;
    SavedStore(const SavedStore&) = delete;
    SavedStore& operator=(const SavedStore&) = delete;

    // Copies bytes_N. The caller may free bytes_N immediately.
    virtual std::unique_ptr<KeptBytes> keep(const at::Tensor& bytes_N) = 0;

    // Returns true if the tensor's memory is large enough to be worth a copy.
    bool takes(const at::Tensor& tensor) const;
    // Returns the largest number of bytes that were in the store at once.
    std::int64_t most() const { return most_; }

  protected:
    void count(std::int64_t bytes);  // adds to the number of bytes in the store

  private:
    at::Device device_;
    std::int64_t least_, now_ = 0, most_ = 0;
};

// Tensors with less memory stay where they are. There are few such tensors, and for each of them, a
// request to the disk would take longer than the copy.
inline constexpr std::int64_t kLeastSaved = 64 << 10;

// Returns a store in a file on the file system of `folder`. `reserved`: bytes of disk space that
// are reserved at the start; the file grows if it needs more space. Throws RankFailure(refused) if
// the disk has no space.
std::shared_ptr<SavedStore> file_store(const std::filesystem::path& folder, std::int64_t reserved,
                                       std::int64_t least = kLeastSaved);

// Returns a store in the memory that `host_memory` allocates (Backend::host_memory). On a GPU,
// copies run on a separate stream, at the same time as the computation.
using HostMemory = std::function<at::Tensor(std::int64_t size, const at::TensorOptions& options)>;
std::shared_ptr<SavedStore> host_store(at::Device device, HostMemory host_memory,
                                       std::int64_t least = kLeastSaved);

// Values that are in a store, for example those of one layer.
class ParkedValues {
  public:
    // Moves the values into the store. Each entry points to a tensor. The tensor may be undefined.
    // Afterwards, the moved tensors are undefined. Tensors that share memory share memory again
    // after restore().
    void park(SavedStore& store, std::span<at::Tensor* const> values);

    // Begins to read the values.
    void fetch();

    // Moves the values back. `values` must be the pointers that were passed to park(), in the same
    // order. Does nothing if there are no values in the store.
    void restore(std::span<at::Tensor* const> values);

  private:
    // How a tensor views a block of memory. Several tensors may share a block.
    struct View {
        std::size_t place = 0;   // index in the list of values
        std::size_t memory = 0;  // index in kept_
        caffe2::TypeMeta type;
        std::vector<std::int64_t> sizes, strides;
        std::int64_t offset = 0;  // offset in the memory, in elements
    };

    std::vector<View> views_;
    std::vector<std::unique_ptr<KeptBytes>> kept_;
};

}  // namespace roll::train
