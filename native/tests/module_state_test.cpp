// Methods of one program share their state under ExecuTorch's own runtime, and two loads of a
// program do not: on ExecuTorch's `Module`, with everything that it can load from.

#include <aoti_plugins/delegate.h>
#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/extension/data_loader/file_data_loader.h>
#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor_ptr_maker.h>
#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch/runtime/backend/options.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using ::executorch::extension::BufferDataLoader;
using ::executorch::extension::FileDataLoader;
using ::executorch::extension::make_tensor_ptr;
using ::executorch::extension::Module;
using ::executorch::runtime::BackendOptions;
using ::executorch::runtime::DataLoader;
using ::executorch::runtime::Error;
using ::executorch::runtime::LoadBackendOptionsMap;

const std::string kPrograms = AOTIP_TEST_PROGRAMS;

/// The bytes of a file, aligned as a program has to be.
class Bytes {
 public:
  explicit Bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> read{std::istreambuf_iterator<char>(file),
                                 std::istreambuf_iterator<char>()};
    storage_.resize(read.size() / sizeof(Block) + 1);
    nbytes_ = read.size();
    std::copy(read.begin(), read.end(), reinterpret_cast<char*>(storage_.data()));
  }
  std::unique_ptr<DataLoader> loader() const {
    return std::make_unique<BufferDataLoader>(storage_.data(), nbytes_);
  }

 private:
  struct alignas(64) Block {
    char bytes[64];
  };
  std::vector<Block> storage_;
  size_t nbytes_ = 0;
};

using ModulePtr = std::unique_ptr<Module>;

/// How a program is loaded; buffers are the same ones each time.
enum class Source {
  kFile,
  kMap,
  kBuffer,
  kFileWithData,
  kMapWithData,
  kBufferWithDataInFile,
  kBufferWithData
};
constexpr Source kSources[] = {Source::kFile,          Source::kMap,
                               Source::kBuffer,        Source::kFileWithData,
                               Source::kMapWithData,   Source::kBufferWithDataInFile,
                               Source::kBufferWithData};

std::ostream& operator<<(std::ostream& out, Source source) {
  return out << "source " << static_cast<int>(source);
}

ModulePtr load(Source source) {
  static const Bytes whole(kPrograms + "/fake_program.pte");
  static const Bytes program(kPrograms + "/external.pte");
  static const Bytes data(kPrograms + "/external.ptd");
  const std::string path = kPrograms + "/fake_program.pte";
  const std::string with_data = kPrograms + "/external.pte";
  const std::string data_path = kPrograms + "/external.ptd";
  switch (source) {
    case Source::kFile:
      return std::make_unique<Module>(path, Module::LoadMode::File);
    case Source::kMap:
      return std::make_unique<Module>(path, Module::LoadMode::Mmap);
    case Source::kBuffer:
      return std::make_unique<Module>(whole.loader());
    case Source::kFileWithData:
      return std::make_unique<Module>(with_data, data_path, Module::LoadMode::File);
    case Source::kMapWithData:
      return std::make_unique<Module>(with_data, data_path, Module::LoadMode::Mmap);
    case Source::kBufferWithDataInFile:
      return std::make_unique<Module>(program.loader(), nullptr, nullptr, nullptr,
                                      std::make_unique<FileDataLoader>(std::move(
                                          FileDataLoader::from(data_path.c_str()).get())));
    default:
      return std::make_unique<Module>(program.loader(), nullptr, nullptr, nullptr, data.loader());
  }
}

/// How many calls of methods with the same state came before this one: the model adds it.
int calls_before(Module& module, const char* method) {
  auto x = make_tensor_ptr({2, 3}, std::vector<float>(6, 1.0f));
  const auto result = module.execute(method, ::executorch::runtime::EValue(*x));
  BOOST_TEST_REQUIRE(result.ok(), aotip_delegate_last_error());
  return static_cast<int>(result.get()[0].toTensor().const_data_ptr<float>()[0]) - 1;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(module_state)

BOOST_DATA_TEST_CASE(methods_of_one_load_share_and_two_loads_do_not,
                     boost::unit_test::data::make(kSources), source) {
  const ModulePtr one = load(source);
  const ModulePtr other = load(source);
  // The methods of both are loaded in turn, so that no order of loads can tell them apart.
  for (const char* method : {"forward", "again"}) {
    for (Module* module : {one.get(), other.get()}) {
      BOOST_TEST_REQUIRE((module->load_method(method) == Error::Ok), aotip_delegate_last_error());
    }
  }
  BOOST_TEST(calls_before(*one, "forward") == 0);
  BOOST_TEST(calls_before(*one, "again") == 1);
  BOOST_TEST(calls_before(*one, "forward") == 2);
  BOOST_TEST(calls_before(*other, "again") == 0);
  BOOST_TEST(calls_before(*other, "forward") == 1);
}

BOOST_AUTO_TEST_CASE(a_method_that_is_loaded_later_finds_the_values_of_now) {
  const ModulePtr module = load(Source::kFile);
  BOOST_TEST(calls_before(*module, "forward") == 0);
  BOOST_TEST(calls_before(*module, "again") == 1);
  BOOST_TEST(module->unload_method("forward"));
  BOOST_TEST(calls_before(*module, "forward") == 2);
  module->unload_method("forward");
  module->unload_method("again");
  BOOST_TEST(calls_before(*module, "again") == 0);  // nobody had it any more
}

BOOST_AUTO_TEST_CASE(loads_one_after_the_other_begin_anew) {
  for (int i = 0; i < 20; ++i) {  // at the same addresses, as likely as not
    const ModulePtr module = load(kSources[i % 2 == 0 ? 2 : 6]);
    BOOST_TEST(calls_before(*module, "forward") == 0);
  }
}

BOOST_AUTO_TEST_CASE(modules_over_one_program_are_sessions_of_their_own) {
  const ModulePtr first = load(Source::kMap);
  BOOST_TEST_REQUIRE((first->load() == Error::Ok));
  Module second(first->program());
  for (const char* method : {"forward", "again"}) {
    for (Module* module : {first.get(), &second}) {
      BOOST_TEST_REQUIRE((module->load_method(method) == Error::Ok), aotip_delegate_last_error());
    }
  }
  BOOST_TEST(calls_before(*first, "forward") == 0);
  BOOST_TEST(calls_before(second, "forward") == 0);
  BOOST_TEST(calls_before(*first, "again") == 1);
  BOOST_TEST(calls_before(second, "again") == 1);
}

BOOST_AUTO_TEST_CASE(options_of_a_load_keep_apart_and_join) {
  const auto load_with = [](Module& module, const char* method, int id) {
    BackendOptions<1> options;
    BOOST_TEST((options.set_option("shared_state", id) == Error::Ok));
    LoadBackendOptionsMap map;
    BOOST_TEST((map.set_options("AotiCpuBackend", options.view()) == Error::Ok));
    BOOST_TEST_REQUIRE((module.load_method(method, nullptr, nullptr, &map) == Error::Ok));
  };
  const ModulePtr one = load(Source::kFile);
  const ModulePtr other = load(Source::kFile);
  load_with(*one, "forward", 0);
  load_with(*one, "again", 77);
  load_with(*other, "again", 77);
  BOOST_TEST(calls_before(*one, "forward") == 0);
  BOOST_TEST(calls_before(*one, "again") == 0);
  BOOST_TEST(calls_before(*other, "again") == 1);
  BOOST_TEST(calls_before(*other, "forward") == 0);  // with the program's state, which is another
}

BOOST_AUTO_TEST_CASE(threads_take_turns) {
  constexpr int kCalls = 200;
  const ModulePtr module = load(Source::kFile);
  for (const char* method : {"forward", "again"}) {
    BOOST_TEST_REQUIRE((module->load_method(method) == Error::Ok), aotip_delegate_last_error());
  }
  std::vector<std::thread> threads;
  for (const char* name : {"forward", "again"}) {
    auto* method = module->method(name).get();
    threads.emplace_back([method] {
      auto x = make_tensor_ptr({2, 3}, std::vector<float>(6, 1.0f));
      for (int i = 0; i < kCalls; ++i) {
        (void)method->set_input(*x, 0);
        (void)method->execute();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  BOOST_TEST(calls_before(*module, "forward") == 2 * kCalls);
}

BOOST_AUTO_TEST_SUITE_END()
