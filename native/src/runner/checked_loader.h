#pragma once

#include <executorch/runtime/core/data_loader.h>

#include <memory>
#include <string>

#include "runner/file_check.h"

namespace aoti_plugins::runner {

/// A file whose flatbuffer was checked. ExecuTorch gets the very bytes that were, and nothing from
/// behind the end of the file.
class CheckedLoader final : public ::executorch::runtime::DataLoader {
 public:
  using DataLoader = ::executorch::runtime::DataLoader;
  using FreeableBuffer = ::executorch::runtime::FreeableBuffer;

  /// 0, or a code after `failed()`, which calls the file `what`.
  static int32_t open(std::unique_ptr<DataLoader> file, const FileKind& kind,
                      const std::string& what, std::unique_ptr<DataLoader>* ret);

  CheckedLoader(std::unique_ptr<DataLoader> file, size_t file_nbytes, FreeableBuffer flatbuffer);

  ::executorch::runtime::Result<FreeableBuffer> load(size_t offset, size_t size,
                                                     const SegmentInfo& info) const override;
  ::executorch::runtime::Error load_into(size_t offset, size_t size, const SegmentInfo& info,
                                         void* buffer) const override;
  ::executorch::runtime::Result<size_t> size() const override { return file_nbytes_; }

  /// The bytes that were checked; they stay as long as this does.
  const FreeableBuffer& flatbuffer() const { return flatbuffer_; }

 private:
  bool has(size_t offset, size_t size) const {
    return offset <= file_nbytes_ && size <= file_nbytes_ - offset;
  }

  std::unique_ptr<DataLoader> file_;
  size_t file_nbytes_;
  FreeableBuffer flatbuffer_;
};

}  // namespace aoti_plugins::runner
