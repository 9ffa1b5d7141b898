#pragma once

#include <aoti_plugins/shim.h>

#include <vector>

namespace aoti_plugins {

/// The handles that a model has made with `aoti_torch_new_tensor_handle` and not deleted.
///
/// AOTInductor's container makes a handle for each constant that its user manages and forgets it
/// (torch 2.11 to 2.13, `MaybeOwningAtenTensorHandle`), so unloading a model would leak them. The
/// delegate watches the container while it takes the constants and while it is deleted, and deletes
/// what is left.
class HandleLog {
 public:
  /// While one lives, this thread's new and deleted handles go to `log`.
  class Watch {
   public:
    explicit Watch(HandleLog& log) noexcept;
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    HandleLog* outer_;
  };

  /// Called by the shims; does nothing on a thread without a watch.
  static void note_new(AtenTensorHandle handle);
  static void note_deleted(AtenTensorHandle handle) noexcept;

  /// Deletes the handles that nobody has deleted.
  void delete_rest() noexcept;

 private:
  std::vector<AtenTensorHandle> handles_;
};

}  // namespace aoti_plugins
