// Programs of ExecuTorch's own CUDA backend, as the runtime gives them to the delegate.

#include <dlfcn.h>
#include <elf.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "cuda_delegate_fixture.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

/// The backend, registered by the first test that asks for it.
BackendInterface* upstream() {
  BOOST_TEST_REQUIRE(aotip_delegate_stand_in("CudaBackend") == AOTIP_STAND_IN_OURS);
  return get_backend_class("CudaBackend");
}

struct Weight {
  std::string fqn;
  std::string key;
  uint64_t nbytes;
  uint32_t dtype;
  uint32_t device;
  int64_t offset;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

/// What executorch 1.5 stores, right or wrong.
struct WeightList {
  std::string magic = "ETCUDAFQN3";
  std::string blob = "1_so_blob";
  std::vector<Weight> weights = {{"layer.scale", "scale", 16, 6, 1, 1, {3}, {1}},
                                 {"calls", "calls", 8, 4, 1, 0, {}, {}},
                                 {"start", "start", 8, 4, 0, 0, {}, {}}};

  std::vector<uint8_t> encode() const {
    PayloadBuilder out;
    out.body.assign(magic.begin(), magic.end());
    out.str(blob).u32(static_cast<uint32_t>(weights.size()));
    for (const Weight& weight : weights) {
      out.str(weight.fqn).str(weight.key).u64(weight.nbytes).u32(weight.dtype).u32(weight.device);
      out.i64(weight.offset).u32(static_cast<uint32_t>(weight.sizes.size()));
      for (const auto* numbers : {&weight.sizes, &weight.strides}) {
        for (const int64_t number : *numbers) {
          out.i64(number);
        }
      }
    }
    return out.body;
  }
};

/// A program of one of the three generations, right until a test changes it.
struct UpstreamProgram {
  std::vector<uint8_t> processed;
  std::string method_name;
  NamedData data;

  explicit UpstreamProgram(int generation, const std::string& model = "ok") {
    const std::vector<uint8_t> blob =
        read_file(AOTIP_FAKE_CUDA_DIR "/fake_upstream_model_" + model + ".so");
    const std::string lines = "1_so_blob\n1_weights_blob";
    method_name = generation == 1 ? "forward" : "";
    const std::string prefix = generation == 1 ? "forward" : "1";
    data.set(prefix + "_so_blob", blob.data(), blob.size(), 8);
    if (generation == 3) {
      processed = WeightList().encode();
      const float scale[] = {-1, 1, 2, 3};
      const int64_t zero = 0;
      data.set("scale", scale, sizeof(scale));
      data.set("calls", &zero, sizeof(zero));
      data.set("start", &zero, sizeof(zero), 4);
      return;
    }
    processed.assign(lines.begin(), generation == 1 ? lines.begin() : lines.end());
    const float scale[] = {1, 2, 3};
    char packed[192] = {};
    std::memcpy(packed, scale, sizeof(scale));
    data.set(prefix + "_weights_blob", packed, sizeof(packed), 4);
  }

  const char* weights_key() const {
    return method_name.empty() ? "1_weights_blob" : "forward_weights_blob";
  }
};

/// A delegate of a program of upstream's.
class LoadedUpstream : public LoadedDelegate {
 public:
  explicit LoadedUpstream(const UpstreamProgram& program, const std::string& device = "cuda:0",
                          Span<BackendOption> options = {})
      : LoadedDelegate(upstream()) {
    std::vector<uint8_t> bytes = program.processed;
    const std::string mode = "ON";
    const CompileSpec specs[] = {
        {"platform", {nullptr, 0}},
        {"triton_kernel_mode", {const_cast<char*>(mode.data()), mode.size()}},
        {"target_device", {const_cast<char*>(device.data()), device.size()}},
        {"method_name",
         {const_cast<char*>(program.method_name.data()), program.method_name.size()}}};
    BackendInitContext context(nullptr, nullptr, "forward", &program.data,
                               Span<const BackendOption>(options.data(), options.size()));
    FreeableBuffer processed(bytes.data(), bytes.size(), nullptr);
    aotip_delegate_clear_error();
    const auto result = backend_->init(
        context, &processed, ArrayRef<CompileSpec>(specs, sizeof(specs) / sizeof(*specs)));
    handle_ = result.ok() ? result.get() : nullptr;
  }
};

/// Runs on `rows` rows of ones on the host and compares.
void check_run(const LoadedUpstream& loaded, int32_t rows, float added) {
  Call call(rows);
  BOOST_TEST_REQUIRE((loaded.run(call.args[0], call.args[1]) == Error::Ok), reason());
  BOOST_TEST(call.y->size(0) == rows);
  BOOST_TEST(call.result() == expected(rows, added), boost::test_tools::per_element());
}

template <typename Change>
void check_refused(int generation, const std::string& part, const Change& change) {
  UpstreamProgram program(generation);
  change(program);
  BOOST_TEST(!LoadedUpstream(program).ok(), part);
  check_reason(part);
  check_reason("CudaBackend: init of method 'forward'");
}

template <typename Change>
void check_list_refused(const std::string& part, const Change& change) {
  check_refused(3, part, [&](UpstreamProgram& program) {
    WeightList list;
    change(list);
    program.processed = list.encode();
  });
}

/// Calls `change(segment, entry)` for each entry of a shared object's dynamic section.
template <typename Change>
void change_dynamic(std::vector<uint8_t>& file, const Change& change) {
  Elf64_Ehdr header;
  std::memcpy(&header, file.data(), sizeof(header));
  for (size_t i = 0; i < header.e_phnum; ++i) {
    uint8_t* at = file.data() + header.e_phoff + i * sizeof(Elf64_Phdr);
    Elf64_Phdr segment;
    std::memcpy(&segment, at, sizeof(segment));
    if (segment.p_type != PT_DYNAMIC) {
      continue;
    }
    for (uint64_t k = 0; k < segment.p_filesz; k += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      std::memcpy(&entry, file.data() + segment.p_offset + k, sizeof(entry));
      change(&segment, &entry);
      std::memcpy(file.data() + segment.p_offset + k, &entry, sizeof(entry));
    }
    std::memcpy(at, &segment, sizeof(segment));
  }
}

size_t count_blob_mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("aoti_plugins_blob") != std::string::npos ? 1 : 0;
  }
  return count;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_upstream, Clean)

BOOST_AUTO_TEST_CASE(every_generation_runs_and_keeps_state) {
  for (int generation = 1; generation <= 3; ++generation) {
    const UpstreamProgram program(generation);
    const LoadedUpstream loaded(program);
    BOOST_TEST_REQUIRE(loaded.ok(), generation << ": " << reason());
    BOOST_TEST(program.data.open_buffers() == 0u);
    check_run(loaded, 2, 0);
    check_run(loaded, 5, 1);
    check_run(loaded, 0, 2);
    check_run(loaded, 2, 2);
  }
}

BOOST_AUTO_TEST_CASE(nothing_stays) {
  for (int generation = 1; generation <= 3; ++generation) {
    const UpstreamProgram program(generation);
    for (int i = 0; i < 5; ++i) {
      const LoadedUpstream loaded(program);
      BOOST_TEST_REQUIRE(loaded.ok(), reason());
      check_run(loaded, 2, 0);
      BOOST_TEST(count_blob_mappings() > 0u);
    }
    BOOST_TEST(count_blob_mappings() == 0u);
  }
}

BOOST_AUTO_TEST_CASE(memory_of_the_gpu_is_used_in_place) {
  const UpstreamProgram program(3);
  const LoadedUpstream loaded(program);
  BOOST_TEST_REQUIRE(loaded.ok(), reason());
  const DeviceMemory x(24);
  const DeviceMemory y(24);
  BOOST_TEST(run_on_gpu(loaded, 2, x.data, y.data, 0) == 1u);  // tells which allocation it is
  BOOST_TEST(run_on_gpu(loaded, 2, x.data, y.data, 1) == 0u);
}

BOOST_AUTO_TEST_CASE(the_device_is_the_one_of_the_compile_spec) {
  for (int generation = 1; generation <= 3; ++generation) {
    const UpstreamProgram program(generation);
    const LoadedUpstream loaded(program, "cuda:1");
    BOOST_TEST_REQUIRE(loaded.ok(), reason());
    check_run(loaded, 2, 0);
  }
  BOOST_TEST(!LoadedUpstream(UpstreamProgram(3), "cuda:7").ok());
  check_reason("there is no GPU cuda:7");
}

BOOST_AUTO_TEST_CASE(constants_on_the_host_stay_there) {
  UpstreamProgram program(3);
  const int64_t start = 10;
  program.data.set("start", &start, sizeof(start));
  const LoadedUpstream loaded(program);
  BOOST_TEST_REQUIRE(loaded.ok(), reason());
  check_run(loaded, 2, 10);
}

BOOST_AUTO_TEST_CASE(delegates_of_a_program_share_what_the_list_names) {
  const UpstreamProgram program(3);
  const UpstreamProgram other(3);
  const LoadedUpstream first(program);
  const size_t one = fake().device_nbytes();
  const LoadedUpstream second(program);
  BOOST_TEST(fake().device_nbytes() == one);
  const LoadedUpstream elsewhere(other);
  check_run(first, 2, 0);
  check_run(second, 2, 1);
  check_run(first, 2, 2);
  check_run(elsewhere, 2, 0);
}

BOOST_AUTO_TEST_CASE(calls_that_share_buffers_wait_for_each_other) {
  const UpstreamProgram listed(3);
  const UpstreamProgram packed(2);
  const auto records = [](const UpstreamProgram& program) {
    const LoadedUpstream loaded(program);
    check_run(loaded, 2, 0);
    const size_t before = fake().calls("cuEventRecord");
    check_run(loaded, 2, 1);
    return fake().calls("cuEventRecord") - before;
  };
  BOOST_TEST(records(listed) == records(packed) + 1);
}

BOOST_AUTO_TEST_CASE(graphs_are_for_whoever_asks) {
  const UpstreamProgram program(2);
  BackendOptions<2> options;
  BOOST_TEST((options.set_option("cuda_graphs", true) == Error::Ok));
  BOOST_TEST((options.set_option("use_shared_cuda_stream", true) == Error::Ok));
  const LoadedUpstream loaded(program, "cuda:0", options.view());
  BOOST_TEST_REQUIRE(loaded.ok(), reason());
  for (int i = 0; i < 4; ++i) {
    check_run(loaded, 2, static_cast<float>(i));
  }
  BOOST_TEST(fake().calls("cuGraphLaunch") > 0u);
}

BOOST_AUTO_TEST_CASE(options_of_upstream_are_ignored) {
  (void)upstream();
  BackendOptions<3> options;
  BOOST_TEST((options.set_option("skip_copy_output_to_cpu_for_method", "forward") == Error::Ok));
  BOOST_TEST((options.set_option("use_shared_cuda_stream", true) == Error::Ok));
  BOOST_TEST((options.set_option("allow_tf32", true) == Error::Ok));
  BOOST_TEST((set_option("CudaBackend", options.view()) == Error::Ok), reason());
  BackendOption found;
  std::strcpy(found.key, "allow_tf32");
  BOOST_TEST((get_option("AotiCudaBackend", {&found, 1}) == Error::Ok));
  BOOST_TEST(std::get<bool>(found.value));
  BackendOptions<1> old;
  BOOST_TEST((old.set_option("allow_tf32", false) == Error::Ok));
  BOOST_TEST((set_option("CudaBackend", old.view()) == Error::Ok), reason());
}

BOOST_AUTO_TEST_CASE(what_is_not_in_the_named_data_is_named) {
  check_refused(1, "blob 'forward_so_blob' of target",
                [](UpstreamProgram& p) { p.data.erase("forward_so_blob"); });
  check_refused(1, "blob 'so_blob' of target", [](UpstreamProgram& p) { p.method_name.clear(); });
  check_refused(1, "the weights 'forward_weights_blob' are not in the program or its data files",
                [](UpstreamProgram& p) { p.data.erase("forward_weights_blob"); });
  check_refused(2, "blob '1_so_blob' of target",
                [](UpstreamProgram& p) { p.data.erase("1_so_blob"); });
  check_refused(2, "the weights '1_weights_blob' are not in",
                [](UpstreamProgram& p) { p.data.erase("1_weights_blob"); });
  check_refused(3, "blob '1_so_blob' of target",
                [](UpstreamProgram& p) { p.data.erase("1_so_blob"); });
  check_refused(3, "the weights 'calls' are not in the program or its data files",
                [](UpstreamProgram& p) { p.data.erase("calls"); });
}

BOOST_AUTO_TEST_CASE(truncated_weights_are_refused) {
  for (int generation : {1, 2}) {
    for (size_t size : {0u, 64u, 191u}) {
      check_refused(generation, "bytes, the model has constants of 192", [&](UpstreamProgram& p) {
        const char packed[192] = {};
        p.data.set(p.weights_key(), packed, size);
      });
    }
  }
  check_refused(3, "the weights 'scale' have 15 bytes, the payload says 16",
                [](UpstreamProgram& p) {
                  const char scale[15] = {};
                  p.data.set("scale", scale, sizeof(scale));
                });
}

BOOST_AUTO_TEST_CASE(a_truncated_list_is_refused_wherever_it_ends) {
  const std::vector<uint8_t> whole = WeightList().encode();
  for (size_t size = 1; size < whole.size(); ++size) {
    UpstreamProgram program(3);
    program.processed.assign(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    BOOST_TEST(!LoadedUpstream(program).ok(), size);
  }
  check_refused(3, "entries[2].ndim at byte", [&](UpstreamProgram& p) { p.processed.pop_back(); });
  check_refused(3, "1 bytes follow the last entry, expected none",
                [&](UpstreamProgram& p) { p.processed.push_back(0); });
}

BOOST_AUTO_TEST_CASE(lists_that_cannot_be_right_are_refused) {
  check_list_refused("is of version 'ETCUDAFQN4', expected 'ETCUDAFQN3' (executorch 1.5)",
                     [](WeightList& list) { list.magic = "ETCUDAFQN4"; });
  check_list_refused("'calls' is listed twice",
                     [](WeightList& list) { list.weights[2].fqn = "calls"; });
  check_list_refused("entries[0].dtype at byte", [](WeightList& l) { l.weights[0].dtype = 99; });
  check_list_refused("dtype code 99 is not known", [](WeightList& l) { l.weights[0].dtype = 99; });
  check_list_refused("entries[1].device_type at byte",
                     [](WeightList& l) { l.weights[1].device = 2; });
  check_list_refused("code 2, expected 0 (cpu) or 1 (cuda)",
                     [](WeightList& l) { l.weights[1].device = 2; });
  check_list_refused("-1 is negative", [](WeightList& l) { l.weights[0].offset = -1; });
  check_list_refused("'layer.scale' reaches to byte 20 of storage 'scale', which has 16 bytes",
                     [](WeightList& l) { l.weights[0].offset = 2; });
  check_list_refused("exceed 64 bits",
                     [](WeightList& list) { list.weights[0].strides = {INT64_MAX}; });
  check_list_refused("-3 is negative", [](WeightList& l) { l.weights[0].sizes = {-3}; });
  check_list_refused("65 dims, expected at most 64", [](WeightList& list) {
    list.weights[0].sizes.assign(65, 1);
    list.weights[0].strides.assign(65, 1);
  });
  check_list_refused("the payload lacks constants of the model: 'start'",
                     [](WeightList& l) { l.weights.pop_back(); });
  check_list_refused("constant 'start' is int32 in the payload and int64 in the model",
                     [](WeightList& l) { l.weights[2].dtype = 3; });
}

BOOST_AUTO_TEST_CASE(a_list_with_a_wrong_byte_harms_nothing) {
  const std::vector<uint8_t> whole = WeightList().encode();
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const uint8_t flipped : {0x01, 0x80, 0xff}) {
      UpstreamProgram program(3);
      program.processed[i] = static_cast<uint8_t>(program.processed[i] ^ flipped);
      const LoadedUpstream loaded(program);
      BOOST_TEST((loaded.ok() || !reason().empty()), i);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_no_generation_stores_is_refused) {
  for (const std::string& text :
       {std::string("1_so_blob"), std::string("\n1_weights_blob"), std::string("a\n"),
        std::string("a\nb\nc"), std::string("a\0b\nc", 5), std::string("AOTIPLUG\x01\x02")}) {
    check_refused(2, "expected the keys of blob and weights on a line each",
                  [&](UpstreamProgram& p) { p.processed.assign(text.begin(), text.end()); });
  }
  check_refused(2, "10 bytes for the delegate that begin with 'AOTIPLUG..'",
                [](UpstreamProgram& program) {
                  const std::string ours = "AOTIPLUG\x01\x02";
                  program.processed.assign(ours.begin(), ours.end());
                });
}

BOOST_AUTO_TEST_CASE(functions_that_are_not_here_are_all_named) {
  const UpstreamProgram program(3, "unknown");
  BOOST_TEST(!LoadedUpstream(program).ok());
  check_reason(
      "blob '1_so_blob' calls 3 functions that this runtime does not have: "
      "aoti_torch_cuda_int2_plain_mm, aoti_torch_cuda_int3_plain_mm, cudaDeviceReset. ");
}

BOOST_AUTO_TEST_CASE(blobs_of_old_torch_cannot_take_packed_weights) {
  BOOST_TEST(!LoadedUpstream(UpstreamProgram(2, "old")).ok());
  check_reason("it was made with a PyTorch older than 2.9");
  const LoadedUpstream listed(UpstreamProgram(3, "old"));
  BOOST_TEST(listed.ok(), reason());
}

BOOST_AUTO_TEST_CASE(damaged_blobs_are_refused) {
  const std::vector<uint8_t> whole = read_file(AOTIP_FAKE_CUDA_DIR "/fake_upstream_model_ok.so");
  for (size_t size = 0; size < whole.size(); size += whole.size() / 29) {
    UpstreamProgram program(3);
    program.data.set("1_so_blob", whole.data(), size);
    const LoadedUpstream loaded(program);
    BOOST_TEST((loaded.ok() || reason().find("damaged") != std::string::npos ||
                reason().find("truncated") != std::string::npos || size < 64),
               size << ": " << reason());  // what is cut off may be of no use to the loader
  }
  const auto check_patched = [&](const std::string& message, const auto& patch) {
    std::vector<uint8_t> file = whole;
    patch(file);
    check_refused(3, message, [&](UpstreamProgram& program) {
      program.data.set("1_so_blob", file.data(), file.size());
    });
  };
  check_patched("it has no dynamic section", [](std::vector<uint8_t>& file) {
    change_dynamic(file, [](Elf64_Phdr* segment, Elf64_Dyn*) { segment->p_type = PT_NOTE; });
  });
  for (const int64_t tag : {DT_SYMTAB, DT_STRTAB, DT_RELA, DT_JMPREL, DT_RELASZ, DT_PLTRELSZ}) {
    for (const uint64_t value : {uint64_t{1} << 40, UINT64_MAX - 7}) {
      check_patched("blob '1_so_blob' is a damaged ELF file", [&](std::vector<uint8_t>& file) {
        change_dynamic(file, [&](Elf64_Phdr*, Elf64_Dyn* entry) {
          entry->d_un.d_val = entry->d_tag == tag ? value : entry->d_un.d_val;
        });
      });
    }
  }
  check_patched("the name of a symbol is not among its strings", [](std::vector<uint8_t>& file) {
    change_dynamic(file, [](Elf64_Phdr*, Elf64_Dyn* entry) {
      entry->d_un.d_val = entry->d_tag == DT_STRSZ ? 1 : entry->d_un.d_val;
    });
  });
  check_refused(3, "blob '1_so_blob' is not an ELF file", [](UpstreamProgram& program) {
    const std::string text(100, 'x');
    program.data.set("1_so_blob", text.data(), text.size());
  });
}

BOOST_AUTO_TEST_SUITE_END()
