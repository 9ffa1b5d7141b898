#include <algorithm>
#include <cstring>
#include <exception>
#include <set>
#include <string>
#include <vector>

#include "delegate/constants.h"
#include "delegate/rank_storages.h"
#include "delegate/sha256.h"
#include "ranks/world.h"

namespace aoti_plugins {
namespace {

using ::executorch::runtime::NamedDataMap;

/// Ends the key of a storage of which each rank has its own, in the payload; in the named data its
/// rank's number follows. Must match aoti_plugins/payload/contents.py.
constexpr char kRankKey[] = "@rank";
/// The key with it names the digests of all ranks' bytes.
constexpr char kTableEnding[] = "s";

bool is_of_rank(const StorageRef& ref) {
  const size_t length = std::strlen(kRankKey);
  return ref.key.size() >= length &&
         ref.key.compare(ref.key.size() - length, length, kRankKey) == 0;
}

/// The digests of all ranks' bytes of a storage, compared with that in the payload.
Status read_table(const NamedDataMap& map, const StorageRef& ref, int32_t world_size,
                  std::vector<Sha256>* ret) {
  const auto table = read_storage(map, {ref.key + kTableEnding, 0});
  if (!table.has_value()) {
    return Status::kFailed;
  }
  const size_t count = table->size() / sizeof(Sha256);
  AOTIP_CHECK(ref.sha256.has_value() && sha256(table->data(), table->size()) == *ref.sha256,
              "the digests of the weights '%s' of all ranks are not those of the payload: the "
              "program is damaged, get it again",
              ref.key.c_str());
  AOTIP_CHECK(count == static_cast<size_t>(world_size) && table->size() % sizeof(Sha256) == 0,
              "the program is for %zu ranks, and %d were started", count, world_size);
  ret->resize(count);
  std::memcpy(ret->data(), table->data(), table->size());
  return Status::kOk;
}

std::set<std::string> keys_of(const NamedDataMap& map) {
  std::set<std::string> keys;
  const auto count = map.get_num_keys();
  for (uint32_t i = 0; count.ok() && i < count.get(); ++i) {
    const auto key = map.get_key(i);
    if (key.ok()) {
      keys.insert(key.get());
    }
  }
  return keys;
}

/// Why a rank's weights are not there.
Status fail_missing(const std::set<std::string>& keys, const StorageRef& ref, int32_t rank) {
  std::string others;
  for (auto key = keys.lower_bound(ref.key);
       key != keys.end() && key->compare(0, ref.key.size(), ref.key) == 0; ++key) {
    const std::string number = key->substr(ref.key.size());
    if (!number.empty() && number.find_first_not_of("0123456789") == std::string::npos) {
      others += (others.empty() ? "" : ", ") + number;
    }
  }
  return fail(
      "the weights of rank %d are not in the program or its data files; %s%s. Load its own "
      "data file (.rank-%d.ptd) together with the program.",
      rank, others.empty() ? "those of no rank are" : "there are those of rank ", others.c_str(),
      rank);
}

/// Makes the keys and digests of a payload this rank's.
Status take_own(const NamedDataMap* map, const ranks::Place& place, Payload* payload) {
  std::set<std::string> keys;
  for (StorageRef& ref : payload->storages) {
    if (!is_of_rank(ref)) {
      continue;
    }
    AOTIP_CHECK(map != nullptr, "the program has weights but the runtime gives no named data");
    std::vector<Sha256> digests;
    AOTIP_RETURN_IF_FAILED(read_table(*map, ref, place.world_size, &digests));
    keys = keys.empty() ? keys_of(*map) : std::move(keys);
    const std::string own = ref.key + std::to_string(place.rank);
    if (keys.count(own) == 0) {
      return fail_missing(keys, ref, place.rank);
    }
    // What is not named by its content is compared with it.
    ref.is_signed = ref.is_signed || !is_content_key(ref.key);
    ref.key = own;
    ref.sha256 = digests[static_cast<size_t>(place.rank)];
  }
  return Status::kOk;
}

void add(const std::string& text, std::string* all) {
  *all += std::to_string(text.size()) + ":" + text;
}

/// What a program is, the same on all ranks.
Sha256 digest_of(const Payload& payload) {
  std::string all;
  add(payload.device, &all);
  add(payload.method, &all);
  for (const TargetArtifact& target : payload.targets) {
    add(target.name, &all);
    add(target.sha256.has_value() ? hex_digits(*target.sha256) : "", &all);
  }
  for (const StorageRef& ref : payload.storages) {
    add(ref.key, &all);
    add(ref.sha256.has_value() ? hex_digits(*ref.sha256) : "", &all);
  }
  return sha256(all.data(), all.size());
}

}  // namespace

Status join_ranks(const NamedDataMap* map, Payload* payload, int32_t* ret_local_rank) noexcept {
  try {
    ranks::World* world = ranks::world();
    AOTIP_RETURN_IF_NULL(world);
    const ranks::Place& place = world->place();
    ranks::Step step = ranks::Step::named(payload->method.c_str());
    const Sha256 digest = digest_of(*payload);
    std::memcpy(step.digest, digest.data(), digest.size());
    std::string problem;
    if (take_own(map, place, payload) != Status::kOk) {
      problem = last_failure();
    }
    AOTIP_RETURN_IF_FAILED(world->agree(step, problem));
    *ret_local_rank = place.local_rank;
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("joining the ranks of the program: %s", error.what());
  }
}

}  // namespace aoti_plugins
