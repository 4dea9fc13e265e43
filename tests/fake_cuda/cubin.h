// Reads what a compiled GPU image says about its kernels.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace cubin {

// Bytes of the ELF image that starts here; 0 when it is none (PTX is not taken: the cubin is what carries the table).
size_t size(const void* image);

// Bytes of each parameter of a kernel in order; nothing when the image has no such kernel.
std::optional<std::vector<size_t>> parameter_sizes(const std::string& image, const std::string& kernel);

}  // namespace cubin
