#include "mps/driver/pipeline_archive.h"

#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "mps/driver/gpu.h"
#include "mps/driver/metal_values.h"

namespace aoti_plugins::mps {
namespace {

/// FNV-1a. Two kernels with one archive only miss each other's code.
uint64_t digest(const std::string& text, uint64_t hash = 0xcbf29ce484222325) {
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

/// The file for a kernel's machine code; empty when nobody wants one.
std::string archive_path(const char* name, const std::string& source) {
  const char* folder = std::getenv("AOTI_PLUGINS_METAL_ARCHIVES");
  if (folder == nullptr || folder[0] == '\0') {
    return {};
  }
  char file[64];
  std::snprintf(file, sizeof(file), "/%016" PRIx64 "-%d.metalar",
                digest(name, digest(gpu().name, digest(source))), macos_version());
  return folder + std::string(file);
}

Owned make_descriptor(Id function) {
  Owned descriptor = make_object("MTLComputePipelineDescriptor");
  send<void, Id>(descriptor.get(), selectors().setComputeFunction, function);
  return descriptor;
}

/// Opens an archive, or makes an empty one where the path is empty. Empty when it fails.
Owned open_archive(const std::string& path) {
  const Owned descriptor = make_object("MTLBinaryArchiveDescriptor");
  if (!path.empty()) {
    send<void, Id>(descriptor.get(), selectors().setUrl, make_file_url(path));
  }
  Id error = nullptr;
  return Owned(send<Id, Id, Id*>(gpu().device, selectors().newArchive, descriptor.get(), &error));
}

Owned pipeline_from_archive(Id function, const std::string& path) {
  if (access(path.c_str(), R_OK) != 0) {
    return {};
  }
  const Owned archive = open_archive(path);
  if (!archive) {
    return {};
  }
  const Owned descriptor = make_descriptor(function);
  send<void, Id>(
      descriptor.get(), selectors().setBinaryArchives,
      send<Id, Id>(objc().get_class("NSArray"), selectors().arrayWithObject, archive.get()));
  Id error = nullptr;
  return Owned(send<Id, Id, UInteger, Id*, Id*>(gpu().device, selectors().newPipelineOf,
                                                descriptor.get(), kPipelineOptionNone, nullptr,
                                                &error));
}

/// Writes a file of this process's own first: others may read and write the same archive.
void write_archive(Id function, const std::string& path) {
  const Owned archive = open_archive({});
  const Owned descriptor = make_descriptor(function);
  const std::string draft = path + "." + std::to_string(getpid());
  Id error = nullptr;
  if (send<unsigned char, Id, Id*>(archive.get(), selectors().addFunctions, descriptor.get(),
                                   &error) != 0 &&
      send<unsigned char, Id, Id*>(archive.get(), selectors().serializeToURL, make_file_url(draft),
                                   &error) != 0 &&
      std::rename(draft.c_str(), path.c_str()) == 0) {
    return;
  }
  (void)unlink(draft.c_str());
}

}  // namespace

Status make_pipeline(Id function, const char* name, const std::string& source, Owned* ret) {
  const std::string path = archive_path(name, source);
  if (!path.empty()) {
    *ret = pipeline_from_archive(function, path);
    if (*ret) {
      return Status::kOk;
    }
  }
  Id error = nullptr;
  *ret = Owned(send<Id, Id, Id*>(gpu().device, selectors().newPipeline, function, &error));
  AOTIP_CHECK(static_cast<bool>(*ret), "the GPU makes no pipeline of kernel '%s': %s", name,
              error_text(error).c_str());
  if (!path.empty()) {
    write_archive(function, path);
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::mps
