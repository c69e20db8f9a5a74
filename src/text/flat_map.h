// A hash map from 64-bit keys to small values: open addressing, no deletion. Faster to build and to
// read than std::unordered_map, which matters for 300,000 merges and for every pair of every word.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hocket::text {

/// REQUIRES: no key is ~0. Reading from several threads is safe.
template <class Value>
class FlatMap {
 public:
  void reserve(size_t entries) {
    size_t wanted = 16;
    while (wanted < entries * 2) wanted *= 2;
    if (wanted > slots_.size()) rehash(wanted);
  }
  /// The value of `key`, default constructed if it is new.
  Value& operator[](uint64_t key) {
    if ((size_ + 1) * 2 > slots_.size()) reserve(size_ + 1 + size_);
    Slot& slot = slots_[locate(key)];
    if (slot.key == kEmpty) {
      slot.key = key;
      ++size_;
    }
    return slot.value;
  }
  const Value* find(uint64_t key) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[locate(key)];
    return slot.key == kEmpty ? nullptr : &slot.value;
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    Value value{};
  };
  size_t locate(uint64_t key) const {
    uint64_t mixed = (key ^ key >> 32) * 0x9E3779B97F4A7C15u;
    mixed ^= mixed >> 29;
    size_t i = mixed & (slots_.size() - 1);
    while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
    return i;
  }
  void rehash(size_t slots) {
    std::vector<Slot> old(slots);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key != kEmpty) slots_[locate(slot.key)] = slot;
    }
  }
  std::vector<Slot> slots_;
  size_t size_ = 0;
};

}  // namespace hocket::text
