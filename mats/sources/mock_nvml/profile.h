/* A profile: what a machine's driver answers, read from a text file (README.md tells its form). */
#ifndef MATS_MOCK_PROFILE_H
#define MATS_MOCK_PROFILE_H

#include <stdbool.h>
#include <stddef.h>

/* Codes of nvmlReturn_t, as NVIDIA's NVML API reference lists them. */
enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999,
};

/* Reads the file named by MATS_MOCK_NVML. 0, or a code after a message on stderr: a broken profile is never answered from. */
int profile_load(void);

/* The text of a key: first of "[section]", then of "[all]" unless the section is "system". NULL when it is not there. */
const char *profile_text(const char *section, const char *key);

/* Waits and fails as the value says ("@SECONDS value", "!CODE"); on success *rest is what is left of it. */
int profile_answer(const char *section, const char *key, const char **rest);

/* A whole number, decimal or 0x...; NOT_SUPPORTED where the key is not there. */
int profile_number(const char *section, const char *key, unsigned long long *number);

/* ``count`` numbers separated by commas. */
int profile_numbers(const char *section, const char *key, unsigned long long *numbers, size_t count);

/* Whether any key of a section is there. */
bool profile_has(const char *section);

#endif
