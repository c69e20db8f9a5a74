// What the ranks of an exchange agree on without talking: layout of messages, flag words, who sends which row where.
// Pure data and arithmetic; no memory of peers, no threads. Rules by number: docs/all2all.md.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "comm/all2all.h"

namespace hocket::comm {

enum class Direction : uint8_t { dispatch, combine };
std::string_view name(Direction direction);

/// Which message: the peer at its other end, the slot, the direction.
struct Channel {
  int peer = 0;
  int slot = 0;
  Direction direction = Direction::dispatch;
};

/// A flag word is generation (15 bits) << 48 | round (40 bits) << 8 | code (8 bits). The code sits in the low bits so
/// that the error of round n can never satisfy the wait for round n + 1 (rule 7).
inline constexpr uint64_t epoch_of(uint64_t generation, uint64_t round) { return generation << 40 | round; }
inline constexpr uint64_t word_of(uint64_t epoch, Code code) { return epoch << 8 | static_cast<uint64_t>(code); }
inline constexpr bool reached(uint64_t word, uint64_t epoch) { return word >= epoch << 8; }
inline constexpr Code code_of(uint64_t word) { return static_cast<Code>(word & 0xFF); }
inline constexpr uint64_t round_of(uint64_t epoch) { return epoch & ((uint64_t{1} << 40) - 1); }

/// Bytes of the messages of one slot; follows from Config alone.
/// dispatch: rows i32 | counts [local_experts] i32 | packed rows. Packed row: data | scales f32 | ids [top_k] i32.
/// combine: rows of hidden bf16. Parts of a message start at multiples of 16 bytes, messages at multiples of 64.
struct Layout {
  explicit Layout(const Config& config);
  int64_t data_bytes, scales_offset, ids_offset, row_bytes;  ///< of a packed row
  int64_t scales_per_row;
  int64_t rows_offset;                   ///< of a dispatch message: where packed rows start
  int64_t back_bytes;                    ///< of a combine row
  int64_t max_back;                      ///< rows of one combine message at most
  int64_t dispatch_bytes, combine_bytes;  ///< room for the largest message
  int64_t bytes(Direction direction) const {
    return direction == Direction::dispatch ? dispatch_bytes : combine_bytes;
  }
};

/// The first field that differs, with both values: "hidden is 256 on rank 0 and 512 on rank 1". Empty if none does.
std::string difference(const Config& a, const Config& b);

/// What one rank sends in a round, and where the answers will stand. Every place is a stable prefix sum over tokens.
class Plan {
 public:
  explicit Plan(const Config& config);  ///< allocates for max_tokens
  /// expert [tokens, top_k]. Not ok: nothing is sent and no answer is expected.
  Code build(const int32_t* expert, int64_t tokens);
  void clear(Code code);  ///< a round that failed: no rows
  Code code() const { return code_; }
  int64_t tokens() const { return tokens_; }
  /// Tokens whose row goes to `rank`, ascending; index in it = place of the row in the message.
  std::span<const int32_t> rows_to(int rank) const;
  /// Rows for each local expert of `rank`.
  std::span<const int32_t> counts(int rank) const;
  /// Row of the owner's combine message that answers choice `j` of token `t`; -1 if the choice is dropped.
  int32_t answer(int64_t t, int j) const { return answer_[static_cast<size_t>(t * top_k_ + j)]; }

 private:
  bool ids_are_valid(const int32_t* expert, int64_t tokens) const;
  uint64_t place_choices(const int32_t* choices, int32_t* answers);
  int ranks_, local_experts_, experts_, top_k_;
  int64_t max_tokens_;
  bool to_everyone_;  ///< allgather: each row goes to each rank
  Code code_ = Code::ok;
  int64_t tokens_ = 0;
  std::vector<int32_t> rows_, num_rows_;  ///< [ranks][max_tokens], [ranks]
  std::vector<int32_t> counts_;           ///< [ranks][local_experts]
  std::vector<int32_t> answer_, num_answers_;  ///< [max_tokens][top_k], [ranks]
};

/// The packed rows of one source, wherever they stand: in a message, or in place on their own rank.
struct SourceRows {
  int64_t rows = 0;
  const std::byte* data = nullptr;
  const std::byte* scales = nullptr;  ///< null with Wire::bf16
  const std::byte* ids = nullptr;     ///< [top_k] i32, global
  int64_t data_stride = 0, scales_stride = 0, ids_stride = 0;
  const int32_t* counts = nullptr;    ///< [local_experts]
};

/// Where an owner puts the rows of all sources: by expert, then source, then the sender's order.
class Inbound {
 public:
  struct Entry {
    int32_t row;       ///< of the source
    int32_t position;  ///< in Received::rows
  };
  explicit Inbound(const Config& config);
  /// counts and offsets from what the sources claim. Throws InvariantError if a claim is impossible.
  void set_counts(std::span<const SourceRows> sources);
  /// The entries of one source, in its order: rows ascending, then choices. Calls for different sources may run at
  /// the same time. Throws InvariantError if the ids do not agree with the counts.
  void place(int source, const SourceRows& rows);
  std::span<const Entry> entries(int source) const;
  std::span<const int32_t> counts() const { return counts_; }
  std::span<const int32_t> offsets() const { return offsets_; }
  void clear();  ///< nothing arrived

 private:
  int first_expert_, local_experts_, top_k_, align_;
  int64_t max_entries_, max_tokens_;
  std::vector<int32_t> counts_, offsets_;  ///< [local_experts], [local_experts + 1]
  std::vector<int32_t> begin_, end_;       ///< [ranks][local_experts]: next and last position of each source
  std::vector<int64_t> num_entries_;       ///< [ranks]
  device::Buffer entries_;                 ///< [ranks][max_entries] Entry, pages on demand
};

}  // namespace hocket::comm
