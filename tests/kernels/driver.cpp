// Runs kernels of one flavour from a script on standard input, so that a sanitizer can watch them. One line a step:
//   buffer NAME BYTES                              memory of exactly that size, zeroed, on a cache line
//   launch KERNEL BLOCKS THREADS WORKERS ARG...    ARG is a number, or @NAME for a buffer
//   expect NAME INDEX VALUE                        the 64-bit word at INDEX of a buffer
// Exit code 0: every step done; 3: an expectation failed; 4: the script is wrong. A sanitizer ends it with its own.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace mats_cpu {
struct Kernel;
}
const mats_cpu::Kernel* MATS_FIND(const char* name);
void MATS_RUN(const mats_cpu::Kernel* kernel, void* const* arguments, unsigned blocks, unsigned threads,
              unsigned workers);

namespace {

using Word = unsigned long long;

std::map<std::string, Word*> buffers;

[[noreturn]] void reject(const std::string& line) {
  std::cerr << "driver: cannot do: " << line << std::endl;
  std::exit(4);
}

Word* find_buffer(const std::string& name, const std::string& line) {
  const auto found = buffers.find(name);
  if (found == buffers.end()) reject(line);
  return found->second;
}

void make_buffer(std::istringstream& words, const std::string& line) {
  std::string name;
  std::size_t bytes = 0;
  if (!(words >> name >> bytes)) reject(line);
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, bytes) != 0) reject(line);
  std::memset(memory, 0, bytes);
  std::free(buffers[name]);
  buffers[name] = static_cast<Word*>(memory);
}

void launch(std::istringstream& words, const std::string& line) {
  std::string name, text;
  unsigned blocks = 0, threads = 0, workers = 0;
  if (!(words >> name >> blocks >> threads >> workers)) reject(line);
  const mats_cpu::Kernel* kernel = MATS_FIND(name.c_str());
  if (kernel == nullptr) reject(line);
  std::vector<Word> slots;
  while (words >> text) {
    slots.push_back(text[0] == '@' ? reinterpret_cast<std::uintptr_t>(find_buffer(text.substr(1), line))
                                   : std::strtoull(text.c_str(), nullptr, 0));
  }
  std::vector<void*> arguments;
  for (Word& slot : slots) arguments.push_back(&slot);
  MATS_RUN(kernel, arguments.data(), blocks, threads, workers);
}

void expect(std::istringstream& words, const std::string& line) {
  std::string name;
  std::size_t index = 0;
  Word value = 0;
  if (!(words >> name >> index >> value)) reject(line);
  const Word seen = find_buffer(name, line)[index];
  if (seen == value) return;
  std::cerr << "driver: " << line << ": it is " << seen << std::endl;
  std::exit(3);
}

}  // namespace

int main() {
  std::string line, verb;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    if (!(words >> verb)) continue;
    if (verb == "buffer")
      make_buffer(words, line);
    else if (verb == "launch")
      launch(words, line);
    else if (verb == "expect")
      expect(words, line);
    else
      reject(line);
  }
  for (const auto& [name, memory] : buffers) std::free(memory);
  return 0;
}
