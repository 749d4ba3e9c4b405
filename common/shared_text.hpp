// A text that can share its start and its end with a similar text, used for the documents of jobs.
// The documents of an array's jobs differ in only a few characters. Without sharing, documents
// would take most of a job's memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace roll {

class SharedText {
  public:
    SharedText& operator=(std::string text);

    std::string text() const;
    std::size_t size() const { return head_ + own_.size() + tail_; }
    std::size_t own_size() const { return own_.size(); }  // number of characters not shared

    // Shares the start and the end of this text with `other`, or with the text that `other` already
    // shares. Does nothing if less than half of this text can be shared. text() does not change.
    void share_with(const SharedText& other);

    friend bool operator==(const SharedText& a, const SharedText& b) {
        return a.size() == b.size() && a.text() == b.text();
    }

  private:
    std::shared_ptr<const std::string> shared_{};
    std::size_t head_ = 0;  // the text starts with the first head_ characters of *shared_
    std::size_t tail_ = 0;  // the text ends with the last tail_ characters of *shared_
    std::string own_{};     // the characters between the shared start and the shared end
};

}  // namespace roll
