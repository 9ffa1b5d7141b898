#include "runner/checked_loader.h"

#include "runner/failure.h"
#include "runner/flatbuffer.h"

namespace aoti_plugins::runner {
namespace {

using ::executorch::runtime::DataLoader;
using ::executorch::runtime::FreeableBuffer;
using ::executorch::runtime::Result;
using ::executorch::runtime::to_string;
using SegmentInfo = DataLoader::SegmentInfo;

int32_t load_failed(const std::string& what, Error error) {
  return failed(error, "reading %s failed (%s)", what.c_str(), to_string(error));
}

}  // namespace

CheckedLoader::CheckedLoader(std::unique_ptr<DataLoader> file, size_t file_nbytes,
                             FreeableBuffer flatbuffer)
    : file_(std::move(file)), file_nbytes_(file_nbytes), flatbuffer_(std::move(flatbuffer)) {}

int32_t CheckedLoader::open(std::unique_ptr<DataLoader> file, const FileKind& kind,
                            const std::string& what, std::unique_ptr<DataLoader>* ret) {
  const SegmentInfo info(SegmentInfo::Type::Program);
  const auto file_nbytes = file->size();
  if (!file_nbytes.ok()) {
    return load_failed(what, file_nbytes.error());
  }
  try {
    if (file_nbytes.get() < kHeaderNbytes) {
      damaged("no file is shorter than %zu", kHeaderNbytes);
    }
    auto header = file->load(0, kHeaderNbytes, info);
    if (!header.ok()) {
      return load_failed(what, header.error());
    }
    const FileExtent extent =
        kind.read_extent(static_cast<const uint8_t*>(header.get().data()), file_nbytes.get());
    if (extent.flatbuffer_nbytes < kHeaderNbytes || extent.flatbuffer_nbytes > file_nbytes.get()) {
      damaged("the header says that %llu of them are the flatbuffer",
              static_cast<unsigned long long>(extent.flatbuffer_nbytes));
    }
    auto flatbuffer = file->load(0, extent.flatbuffer_nbytes, info);
    if (!flatbuffer.ok()) {
      return load_failed(what, flatbuffer.error());
    }
    kind.check(static_cast<const uint8_t*>(flatbuffer.get().data()), extent, file_nbytes.get());
    *ret = std::make_unique<CheckedLoader>(std::move(file), file_nbytes.get(),
                                           std::move(flatbuffer.get()));
    return 0;
  } catch (const Damaged& found) {
    return failed(Error::InvalidProgram,
                  "%s is not a %s that this runtime can load (%zu bytes: %s); it may be cut off or "
                  "damaged: lower the model again",
                  what.c_str(), kind.name, file_nbytes.get(), found.what());
  }
}

Result<FreeableBuffer> CheckedLoader::load(size_t offset, size_t size,
                                           const SegmentInfo& info) const {
  if (!has(offset, size)) {
    return Error::InvalidProgram;
  }
  if (offset == 0 && size <= flatbuffer_.size()) {
    return FreeableBuffer(flatbuffer_.data(), size, nullptr);
  }
  return file_->load(offset, size, info);
}

Error CheckedLoader::load_into(size_t offset, size_t size, const SegmentInfo& info,
                               void* buffer) const {
  return has(offset, size) ? file_->load_into(offset, size, info, buffer) : Error::InvalidProgram;
}

}  // namespace aoti_plugins::runner
