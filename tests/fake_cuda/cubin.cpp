// The parameter table of a cubin: an ELF file whose section `.nv.info.KERNEL` lists attributes, among them one for each
// parameter. The layout was read from images made by NVRTC and nvcc 13.0 and is checked by a test against the source.
#include "cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace cubin {
namespace {

// An attribute opens with its format and its kind, then 16 bits: a value, or the length of what follows.
constexpr unsigned char kFormatSized = 4;
constexpr unsigned char kParameter = 0x17;
constexpr unsigned kSizeShift = 18;

struct ParameterAttribute {
  uint32_t index;
  uint16_t ordinal;
  uint16_t offset;
  uint32_t flags;
};

template <class T>
bool read(const std::string& image, size_t offset, T& value) {
  if (offset + sizeof value > image.size()) return false;
  memcpy(&value, image.data() + offset, sizeof value);
  return true;
}

std::vector<size_t> parameters(const std::string& info) {
  std::vector<std::pair<unsigned, size_t>> found;
  for (size_t at = 0; at + 4 <= info.size();) {
    const unsigned char format = (unsigned char)info[at], kind = (unsigned char)info[at + 1];
    uint16_t length = 0;
    memcpy(&length, info.data() + at + 2, sizeof length);
    ParameterAttribute attribute;
    if (format == kFormatSized && kind == kParameter && read(info, at + 4, attribute)) {
      found.emplace_back(attribute.ordinal, attribute.flags >> kSizeShift);
    }
    at += format == kFormatSized ? 4 + length : 4;
  }
  std::sort(found.begin(), found.end());
  std::vector<size_t> sizes;
  for (const auto& [ordinal, bytes] : found) sizes.push_back(bytes);
  return sizes;
}

}  // namespace

size_t size(const void* image) {
  Elf64_Ehdr header;
  if (memcmp(image, ELFMAG, SELFMAG) != 0) return 0;
  memcpy(&header, image, sizeof header);
  const size_t sections = header.e_shoff + size_t(header.e_shnum) * header.e_shentsize;
  const size_t programs = header.e_phoff + size_t(header.e_phnum) * header.e_phentsize;
  return std::max(sections, programs);
}

std::optional<std::vector<size_t>> parameter_sizes(const std::string& image, const std::string& kernel) {
  Elf64_Ehdr header;
  Elf64_Shdr names, section;
  if (!read(image, 0, header)) return std::nullopt;
  if (!read(image, header.e_shoff + size_t(header.e_shstrndx) * header.e_shentsize, names)) return std::nullopt;
  const std::string wanted = ".nv.info." + kernel;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    if (!read(image, header.e_shoff + size_t(i) * header.e_shentsize, section)) break;
    const size_t name = names.sh_offset + section.sh_name;
    if (name >= image.size() || wanted != image.c_str() + name) continue;
    return parameters(image.substr(section.sh_offset, section.sh_size));
  }
  return std::nullopt;
}

}  // namespace cubin
