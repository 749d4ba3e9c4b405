// Like std::optional, but the value is on the heap, so that an empty object takes only 8 bytes.
// Copying copies the value, and == compares the values. A const Boxed gives only const access to
// its value.
#pragma once

#include <memory>
#include <utility>

#include "common/check.hpp"

namespace roll {

template <class T>
class Boxed {
  public:
    using value_type = T;

    Boxed() = default;
    Boxed(const Boxed& other) : value_(other ? std::make_unique<T>(*other) : nullptr) {}
    Boxed(Boxed&&) noexcept = default;
    Boxed& operator=(const Boxed& other) {
        if (this != &other) *this = Boxed(other);
        return *this;
    }
    Boxed& operator=(Boxed&&) noexcept = default;
    Boxed& operator=(T value) {
        value_ = std::make_unique<T>(std::move(value));
        return *this;
    }
    ~Boxed() = default;

    bool has_value() const { return value_ != nullptr; }
    explicit operator bool() const { return has_value(); }
    const T& operator*() const { return *value_; }
    T& operator*() { return *value_; }
    const T* operator->() const { return value_.get(); }
    T* operator->() { return value_.get(); }
    const T& value() const {
        ROLL_CHECK(has_value());
        return *value_;
    }
    void reset() { value_.reset(); }

    friend bool operator==(const Boxed& a, const Boxed& b) {
        return a && b ? *a == *b : a.has_value() == b.has_value();
    }

  private:
    std::unique_ptr<T> value_;
};

}  // namespace roll
