/* A stand-in for NVIDIA's libnvidia-ml.so.1 that answers from a profile, so that real clients of NVML run without a GPU.
 *
 * It is no driver and no evidence about one: what it answers is what the profile says. A key that is not in the profile
 * is answered with NOT_SUPPORTED, as a driver does for what a board lacks. Structures carry the layout and the versions
 * of NVIDIA's public NVML API reference. build.py leaves out the symbols that a profile of an old driver names.
 */
#include "profile.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define VERSION(type, number) ((unsigned)sizeof(type) | (unsigned)(number) << 24)
#define GPUS_AT_MOST 16
#define INSTANCES_AT_MOST 7
#define FIELDS_AT_MOST 4096

typedef int result_t;
typedef unsigned long long u64;
typedef struct device {
    char section[16]; /* "0" for a GPU, "0.1" for the second MIG device of it */
    int gpu;
    int instance; /* -1 for a whole GPU */
} device_t;

static device_t devices[GPUS_AT_MOST][INSTANCES_AT_MOST + 1];
static bool running;
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;

/* ---- asking the profile ---- */

/* What a GPU still answers that has fallen off the bus or needs a reset: the driver has it in its own memory. */
static bool is_remembered(const char *key) {
    static const char *const remembered[] = {"uuid", "name", "index", "minor", "serial", "field.226", "field.227", "field.230", NULL};
    for (size_t i = 0; remembered[i] != NULL; i++) {
        if (strcmp(key, remembered[i]) == 0) return true;
    }
    return strncmp(key, "pci.", 4) == 0;
}

static result_t usable(const device_t *device, const char *key) {
    if (!running) return NVML_ERROR_UNINITIALIZED;
    if (device == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    u64 ignored;
    if (is_remembered(key) || profile_text(device->section, "every_call") == NULL) return NVML_SUCCESS;
    return profile_number(device->section, "every_call", &ignored);
}

static result_t number(const device_t *device, const char *key, u64 *value) {
    result_t result = usable(device, key);
    return result != NVML_SUCCESS ? result : profile_number(device->section, key, value);
}

static result_t numbers(const device_t *device, const char *key, u64 *values, size_t count) {
    result_t result = usable(device, key);
    return result != NVML_SUCCESS ? result : profile_numbers(device->section, key, values, count);
}

static result_t copied(const char *text, char *buffer, unsigned room) {
    if (buffer == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= room) return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return NVML_SUCCESS;
}

static result_t words(const device_t *device, const char *key, char *buffer, unsigned room) {
    const char *text;
    result_t result = usable(device, key);
    if (result == NVML_SUCCESS) result = profile_answer(device->section, key, &text);
    return result != NVML_SUCCESS ? result : copied(text, buffer, room);
}

static result_t system_words(const char *key, char *buffer, unsigned room) {
    const char *text;
    if (!running) return NVML_ERROR_UNINITIALIZED;
    result_t result = profile_answer("system", key, &text);
    return result != NVML_SUCCESS ? result : copied(text, buffer, room);
}

static result_t small(const device_t *device, const char *key, unsigned *value) {
    u64 wide = 0;
    result_t result = number(device, key, &wide);
    if (result == NVML_SUCCESS) *value = (unsigned)wide;
    return result;
}

static result_t pair(const device_t *device, const char *key, unsigned *first, unsigned *second) {
    u64 values[2];
    result_t result = numbers(device, key, values, 2);
    if (result != NVML_SUCCESS) return result;
    *first = (unsigned)values[0];
    *second = (unsigned)values[1];
    return NVML_SUCCESS;
}

/* ---- starting, counting, finding ---- */

EXPORT result_t nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&starting);
    result_t result = running ? NVML_SUCCESS : profile_load();
    const char *rest;
    if (result == NVML_SUCCESS && !running && profile_text("system", "init") != NULL) {
        result = profile_answer("system", "init", &rest);
    }
    for (int gpu = 0; result == NVML_SUCCESS && !running && gpu < GPUS_AT_MOST; gpu++) {
        for (int place = 0; place <= INSTANCES_AT_MOST; place++) {
            device_t *device = &devices[gpu][place];
            device->gpu = gpu;
            device->instance = place - 1;
            if (place == 0) snprintf(device->section, sizeof device->section, "%d", gpu);
            else snprintf(device->section, sizeof device->section, "%d.%d", gpu, place - 1);
        }
    }
    running = running || result == NVML_SUCCESS;
    pthread_mutex_unlock(&starting);
    return result;
}

EXPORT result_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
EXPORT result_t nvmlInit(void) { return nvmlInitWithFlags(0); }

EXPORT result_t nvmlShutdown(void) {
    if (!running) return NVML_ERROR_UNINITIALIZED;
    running = false;
    return NVML_SUCCESS;
}

EXPORT const char *nvmlErrorString(result_t code) {
    static const char *const texts[] = {
        [0] = "Success", [1] = "Uninitialized", [2] = "Invalid Argument", [3] = "Not Supported",
        [4] = "Insufficient Permissions", [6] = "Not Found", [7] = "Insufficient Size", [9] = "Driver Not Loaded",
        [10] = "Timeout", [12] = "NVML Shared Library Not Found", [13] = "Function Not Found",
        [14] = "infoROM is corrupted", [15] = "GPU is lost", [16] = "GPU requires reset",
        [17] = "The operating system has blocked the request", [18] = "Driver/library version mismatch",
        [25] = "Argument version mismatch",
    };
    bool known = code >= 0 && (size_t)code < sizeof texts / sizeof *texts && texts[code] != NULL;
    return known ? texts[code] : "Unknown Error";
}

EXPORT result_t nvmlDeviceGetCount_v2(unsigned *count) {
    if (!running) return NVML_ERROR_UNINITIALIZED;
    u64 value;
    result_t result = profile_number("system", "count", &value);
    if (result == NVML_SUCCESS) *count = value > GPUS_AT_MOST ? GPUS_AT_MOST : (unsigned)value;
    return result;
}

static result_t handed(device_t *device, device_t **handle) {
    const char *rest;
    *handle = device;
    if (profile_text(device->section, "handle") == NULL) return NVML_SUCCESS;
    return profile_answer(device->section, "handle", &rest);
}

EXPORT result_t nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t **handle) {
    unsigned count;
    result_t result = nvmlDeviceGetCount_v2(&count);
    if (result != NVML_SUCCESS) return result;
    return index < count ? handed(&devices[index][0], handle) : NVML_ERROR_INVALID_ARGUMENT;
}

static result_t find(const char *key, const char *wanted, bool with_instances, device_t **handle) {
    unsigned count;
    result_t result = nvmlDeviceGetCount_v2(&count);
    if (result != NVML_SUCCESS) return result;
    for (unsigned gpu = 0; gpu < count; gpu++) {
        for (int place = 0; place <= (with_instances ? INSTANCES_AT_MOST : 0); place++) {
            const char *text = profile_text(devices[gpu][place].section, key);
            if (text != NULL && strcasecmp(text, wanted) == 0) return handed(&devices[gpu][place], handle);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

EXPORT result_t nvmlDeviceGetHandleByUUID(const char *uuid, device_t **handle) {
    return find("uuid", uuid, true, handle);
}

EXPORT result_t nvmlDeviceGetHandleByPciBusId_v2(const char *address, device_t **handle) {
    char full[32];
    snprintf(full, sizeof full, "%s%s", strlen(address) == 12 ? "0000" : "", address);
    return find("pci.address", full, false, handle);
}

EXPORT result_t nvmlDeviceGetIndex(device_t *device, unsigned *index) {
    result_t result = usable(device, "index");
    if (result == NVML_SUCCESS) *index = (unsigned)(device->instance < 0 ? device->gpu : device->instance);
    return result;
}

typedef struct {
    char address_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char address[32];
} pci_t;

/* An address in both of the lengths in which NVML writes it. */
static result_t located(const char *text, pci_t *pci) {
    memset(pci, 0, sizeof *pci);
    if (sscanf(text, "%x:%x:%x.", &pci->domain, &pci->bus, &pci->device) != 3) return NVML_ERROR_UNKNOWN;
    snprintf(pci->address, sizeof pci->address, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    snprintf(pci->address_legacy, sizeof pci->address_legacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff,
             pci->device & 0xff);
    return NVML_SUCCESS;
}

EXPORT result_t nvmlDeviceGetPciInfo_v3(device_t *device, pci_t *pci) {
    const char *text;
    u64 id = 0, subsystem = 0;
    result_t result = usable(device, "pci.address");
    if (result == NVML_SUCCESS) result = profile_answer(device->section, "pci.address", &text);
    if (result == NVML_SUCCESS) result = located(text, pci);
    if (result != NVML_SUCCESS) return result;
    (void)profile_number(device->section, "pci.device", &id);
    (void)profile_number(device->section, "pci.subsystem", &subsystem);
    pci->device_id = (unsigned)id;
    pci->subsystem_id = (unsigned)subsystem;
    return NVML_SUCCESS;
}

/* ---- calls that are one word, one number or two ---- */

#define SYSTEM_TEXT(function, key) \
    EXPORT result_t function(char *buffer, unsigned room) { return system_words(key, buffer, room); }
#define TEXT(function, key) \
    EXPORT result_t function(device_t *device, char *buffer, unsigned room) { return words(device, key, buffer, room); }
#define NUMBER(function, key) \
    EXPORT result_t function(device_t *device, unsigned *value) { return small(device, key, value); }
#define WIDE(function, key) \
    EXPORT result_t function(device_t *device, u64 *value) { return number(device, key, value); }
#define PAIR(function, key) \
    EXPORT result_t function(device_t *device, unsigned *first, unsigned *second) { return pair(device, key, first, second); }
/* One number of several that share a key: "key.KIND" */
#define CHOSEN(function, key) \
    EXPORT result_t function(device_t *device, unsigned kind, unsigned *value) { \
        char full[48]; \
        snprintf(full, sizeof full, key ".%u", kind); \
        return small(device, full, value); \
    }

SYSTEM_TEXT(nvmlSystemGetDriverVersion, "driver")
/* The library's own version is told without a driver, as NVIDIA's does. */
EXPORT result_t nvmlSystemGetNVMLVersion(char *buffer, unsigned room) {
    const char *text;
    result_t result = profile_answer("system", "nvml", &text);
    return result != NVML_SUCCESS ? result : copied(text, buffer, room);
}
TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
TEXT(nvmlDeviceGetBoardPartNumber, "part")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom.image")
NUMBER(nvmlDeviceGetMinorNumber, "minor")
NUMBER(nvmlDeviceGetArchitecture, "architecture")
NUMBER(nvmlDeviceGetMemoryBusWidth, "memory.bus")
NUMBER(nvmlDeviceGetBrand, "brand")
NUMBER(nvmlDeviceGetPowerUsage, "power")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power.enforced")
NUMBER(nvmlDeviceGetPowerManagementLimit, "power.limit")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power.default")
NUMBER(nvmlDeviceGetPerformanceState, "pstate")
NUMBER(nvmlDeviceGetPowerState, "pstate")
NUMBER(nvmlDeviceGetFanSpeed, "fan")
NUMBER(nvmlDeviceGetPersistenceMode, "persistence")
NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
NUMBER(nvmlDeviceGetDisplayActive, "display.active")
NUMBER(nvmlDeviceGetDisplayMode, "display.mode")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.generation")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.generation.maximum")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie.width.maximum")
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie.generation.device")
NUMBER(nvmlDeviceGetPcieReplayCounter, "pcie.replays")
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, "retired.pending")
NUMBER(nvmlDeviceGetMultiGpuBoard, "multi_gpu_board")
WIDE(nvmlDeviceGetVirtualizationMode, "virtualisation")
WIDE(nvmlDeviceGetCurrentClocksEventReasons, "clocks.reasons")
WIDE(nvmlDeviceGetCurrentClocksThrottleReasons, "clocks.reasons")
WIDE(nvmlDeviceGetSupportedClocksEventReasons, "clocks.reasons.supported")
WIDE(nvmlDeviceGetTotalEnergyConsumption, "energy")
PAIR(nvmlDeviceGetEccMode, "ecc.mode")
PAIR(nvmlDeviceGetMigMode, "mig.mode")
PAIR(nvmlDeviceGetDriverModel_v2, "driver_model")
PAIR(nvmlDeviceGetDriverModel, "driver_model")
PAIR(nvmlDeviceGetCudaComputeCapability, "capability")
PAIR(nvmlDeviceGetGspFirmwareMode, "gsp.mode")
PAIR(nvmlDeviceGetPowerManagementLimitConstraints, "power.constraints")
PAIR(nvmlDeviceGetEncoderUtilization, "busy.encoder")
PAIR(nvmlDeviceGetDecoderUtilization, "busy.decoder")
CHOSEN(nvmlDeviceGetClockInfo, "clock")
CHOSEN(nvmlDeviceGetMaxClockInfo, "clock.maximum")
CHOSEN(nvmlDeviceGetTemperature, "temperature")
CHOSEN(nvmlDeviceGetTemperatureThreshold, "temperature.threshold")
CHOSEN(nvmlDeviceGetNvLinkState, "nvlink.state")
CHOSEN(nvmlDeviceGetNvLinkVersion, "nvlink.version")
CHOSEN(nvmlDeviceGetNvLinkRemoteDeviceType, "nvlink.remote")

typedef struct {
    unsigned gpu, memory;
} busy_t;

EXPORT result_t nvmlDeviceGetUtilizationRates(device_t *device, busy_t *busy) {
    return pair(device, "busy", &busy->gpu, &busy->memory);
}

EXPORT result_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    u64 value;
    if (!running) return NVML_ERROR_UNINITIALIZED;
    result_t result = profile_number("system", "cuda", &value);
    if (result == NVML_SUCCESS) *version = (int)value;
    return result;
}

EXPORT result_t nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

EXPORT result_t nvmlSystemGetProcessName(unsigned pid, char *buffer, unsigned room) {
    char key[32];
    snprintf(key, sizeof key, "process.%u", pid);
    result_t result = system_words(key, buffer, room);
    return result == NVML_ERROR_NOT_SUPPORTED ? NVML_ERROR_NOT_FOUND : result;
}

EXPORT result_t nvmlDeviceGetGspFirmwareVersion(device_t *device, char *buffer) {
    return words(device, "gsp.version", buffer, 64);
}

EXPORT result_t nvmlDeviceGetInforomVersion(device_t *device, unsigned object, char *buffer, unsigned room) {
    char key[32];
    snprintf(key, sizeof key, "inforom.%u", object);
    return words(device, key, buffer, room);
}

EXPORT result_t nvmlDeviceValidateInforom(device_t *device) {
    u64 ignored;
    return number(device, "inforom.valid", &ignored);
}

EXPORT result_t nvmlDeviceGetNumFans(device_t *device, unsigned *count) { return small(device, "fans", count); }

/* ---- memory ---- */

typedef struct {
    u64 total, free, used;
} memory_t;
typedef struct {
    unsigned version;
    u64 total, reserved, free, used;
} memory_v2_t;

/* memory = TOTAL, RESERVED, USED (bytes). The older call counts what is reserved as used. */
EXPORT result_t nvmlDeviceGetMemoryInfo(device_t *device, memory_t *memory) {
    u64 values[3];
    result_t result = numbers(device, "memory", values, 3);
    if (result != NVML_SUCCESS) return result;
    *memory = (memory_t){values[0], values[0] - values[1] - values[2], values[1] + values[2]};
    return NVML_SUCCESS;
}

EXPORT result_t nvmlDeviceGetMemoryInfo_v2(device_t *device, memory_v2_t *memory) {
    u64 values[3];
    if (memory->version != VERSION(memory_v2_t, 2)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    result_t result = numbers(device, "memory", values, 3);
    if (result != NVML_SUCCESS) return result;
    *memory = (memory_v2_t){memory->version, values[0], values[1], values[0] - values[1] - values[2], values[2]};
    return NVML_SUCCESS;
}

EXPORT result_t nvmlDeviceGetBAR1MemoryInfo(device_t *device, memory_t *window) {
    u64 values[2];
    result_t result = numbers(device, "bar1", values, 2);
    if (result == NVML_SUCCESS) *window = (memory_t){values[0], values[0] - values[1], values[1]};
    return result;
}

/* ---- errors of the memory ---- */

EXPORT result_t nvmlDeviceGetTotalEccErrors(device_t *device, unsigned kind, unsigned counter, u64 *count) {
    char key[48];
    snprintf(key, sizeof key, "ecc.%s.%s", counter ? "aggregate" : "volatile", kind ? "uncorrected" : "corrected");
    return number(device, key, count);
}

EXPORT result_t nvmlDeviceGetMemoryErrorCounter(device_t *device, unsigned kind, unsigned counter, unsigned place,
                                                u64 *count) {
    char key[64];
    snprintf(key, sizeof key, "ecc.%s.%s.%u", counter ? "aggregate" : "volatile", kind ? "uncorrected" : "corrected",
             place);
    return number(device, key, count);
}

typedef struct {
    unsigned version;
    u64 counts[11];
    unsigned exceeded;
} sram_t;

/* ecc.sram = parity, SEC-DED and corrected of the card's life; the same since the driver loaded; five places; exceeded */
EXPORT result_t nvmlDeviceGetSramEccErrorStatus(device_t *device, sram_t *status) {
    u64 values[12];
    if (status->version != VERSION(sram_t, 1)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    result_t result = numbers(device, "ecc.sram", values, 12);
    if (result != NVML_SUCCESS) return result;
    memcpy(status->counts, values, sizeof status->counts);
    status->exceeded = (unsigned)values[11];
    return NVML_SUCCESS;
}

EXPORT result_t nvmlDeviceGetRemappedRows(device_t *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                          unsigned *failed) {
    u64 values[4];
    result_t result = numbers(device, "remap", values, 4);
    if (result != NVML_SUCCESS) return result;
    *corrected = (unsigned)values[0], *uncorrected = (unsigned)values[1];
    *pending = (unsigned)values[2], *failed = (unsigned)values[3];
    return NVML_SUCCESS;
}

EXPORT result_t nvmlDeviceGetRowRemapperHistogram(device_t *device, unsigned *banks) {
    u64 values[5];
    result_t result = numbers(device, "remap.banks", values, 5);
    for (int i = 0; result == NVML_SUCCESS && i < 5; i++) banks[i] = (unsigned)values[i];
    return result;
}

/* retired.CAUSE = how many pages; their addresses are made up, one page apart. */
static result_t retired(device_t *device, unsigned cause, unsigned *count, u64 *addresses, u64 *times) {
    char key[32];
    u64 pages;
    snprintf(key, sizeof key, "retired.%u", cause);
    result_t result = number(device, key, &pages);
    if (result != NVML_SUCCESS) return result;
    unsigned room = *count;
    *count = (unsigned)pages;
    if (pages != 0 && (room < pages || addresses == NULL)) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (u64 i = 0; i < pages; i++) {
        addresses[i] = (i + 1) << 16 | cause << 12;
        if (times != NULL) times[i] = 1700000000 + i;
    }
    return NVML_SUCCESS;
}

EXPORT result_t nvmlDeviceGetRetiredPages(device_t *device, unsigned cause, unsigned *count, u64 *addresses) {
    return retired(device, cause, count, addresses, NULL);
}

EXPORT result_t nvmlDeviceGetRetiredPages_v2(device_t *device, unsigned cause, unsigned *count, u64 *addresses,
                                             u64 *times) {
    return retired(device, cause, count, addresses, times);
}

typedef struct {
    unsigned version, first, second;
} versioned_pair_t;
typedef struct {
    unsigned version, value;
} versioned_t;

EXPORT result_t nvmlDeviceGetRepairStatus(device_t *device, versioned_pair_t *status) {
    if (status->version != VERSION(versioned_pair_t, 1)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return pair(device, "repair", &status->first, &status->second);
}

static result_t versioned(device_t *device, const char *key, versioned_t *status) {
    if (status->version != VERSION(versioned_t, 1)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return small(device, key, &status->value);
}

EXPORT result_t nvmlDeviceGetUnrepairableMemoryFlag_v1(device_t *device, versioned_t *flag) {
    return versioned(device, "unrepairable", flag);
}

EXPORT result_t nvmlDeviceGetAddressingMode(device_t *device, versioned_t *mode) {
    return versioned(device, "addressing", mode);
}

EXPORT result_t nvmlDeviceGetMarginTemperature(device_t *device, versioned_t *margin) {
    return versioned(device, "temperature.margin", margin);
}

/* ---- heat and time held down ---- */

EXPORT result_t nvmlDeviceGetTemperatureV(device_t *device, versioned_pair_t *temperature) {
    if (temperature->version != VERSION(versioned_pair_t, 1)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return nvmlDeviceGetTemperature(device, temperature->first, &temperature->second);
}

typedef struct {
    u64 reference, held;
} violation_t;

EXPORT result_t nvmlDeviceGetViolationStatus(device_t *device, unsigned policy, violation_t *status) {
    char key[32];
    snprintf(key, sizeof key, "held.%u", policy);
    status->reference = 0;
    return number(device, key, &status->held);
}

/* ---- where it sits ---- */

/* numa = NODE; cpus = FIRST, LAST */
static result_t bits(device_t *device, const char *key, size_t count, unsigned size, unsigned long *mask) {
    u64 values[2];
    result_t result = numbers(device, key, values, count);
    if (result != NVML_SUCCESS) return result;
    if (count == 1) values[1] = values[0];
    if (values[1] >= 64ULL * size) return NVML_ERROR_INSUFFICIENT_SIZE;
    memset(mask, 0, size * sizeof *mask);
    for (u64 bit = values[0]; bit <= values[1]; bit++) mask[bit / 64] |= 1UL << bit % 64;
    return NVML_SUCCESS;
}

EXPORT result_t nvmlDeviceGetMemoryAffinity(device_t *device, unsigned size, unsigned long *nodes, unsigned scope) {
    (void)scope;
    return bits(device, "numa", 1, size, nodes);
}

EXPORT result_t nvmlDeviceGetCpuAffinity(device_t *device, unsigned size, unsigned long *processors) {
    return bits(device, "cpus", 2, size, processors);
}

/* topology.OTHER = level of the nearest common part; topology for all others */
EXPORT result_t nvmlDeviceGetTopologyCommonAncestor(device_t *device, device_t *other, unsigned *level) {
    if (other == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    char key[32];
    snprintf(key, sizeof key, "topology.%d", other->gpu);
    bool own = device != NULL && profile_text(device->section, key) != NULL;
    return small(device, own ? key : "topology", level);
}

/* ---- links ---- */

EXPORT result_t nvmlDeviceGetNvLinkRemotePciInfo_v2(device_t *device, unsigned link, pci_t *pci) {
    char key[32];
    const char *text;
    snprintf(key, sizeof key, "nvlink.pci.%u", link);
    result_t result = usable(device, key);
    if (result == NVML_SUCCESS) result = profile_answer(device->section, key, &text);
    return result != NVML_SUCCESS ? result : located(text, pci);
}

EXPORT result_t nvmlDeviceGetNvLinkErrorCounter(device_t *device, unsigned link, unsigned counter, u64 *count) {
    char key[48];
    snprintf(key, sizeof key, "nvlink.errors.%u.%u", counter, link);
    return number(device, key, count);
}

typedef struct {
    unsigned version;
    unsigned char cluster[16];
    result_t status;
    unsigned clique;
    unsigned char state;
    unsigned health_mask;
} fabric_v2_t;
typedef struct {
    unsigned version;
    unsigned char cluster[16];
    result_t status;
    unsigned clique;
    unsigned char state;
    unsigned health_mask;
    unsigned char summary;
} fabric_v3_t;

/* fabric = STATE, STATUS, CLIQUE, HEALTH MASK, SUMMARY */
EXPORT result_t nvmlDeviceGetGpuFabricInfoV(device_t *device, fabric_v3_t *info) {
    u64 values[5];
    bool third = info->version == VERSION(fabric_v3_t, 3);
    if (!third && info->version != VERSION(fabric_v2_t, 2)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    result_t result = numbers(device, "fabric", values, 5);
    if (result != NVML_SUCCESS) return result;
    memset(info->cluster, 0xab, sizeof info->cluster);
    info->state = (unsigned char)values[0];
    *(unsigned *)((char *)info + offsetof(fabric_v2_t, state)) = (unsigned)values[0]; /* clients read it as a word */
    info->status = (result_t)values[1];
    info->clique = (unsigned)values[2];
    info->health_mask = (unsigned)values[3];
    if (third) info->summary = (unsigned char)values[4];
    return NVML_SUCCESS;
}

typedef struct {
    unsigned field, scope;
    long long time, latency;
    unsigned type;
    result_t result;
    union {
        double real;
        u64 wide;
    } value;
} field_t;

/* field.NUMBER, or field.NUMBER.SCOPE where the scope is not 0; the call itself only fails as a whole GPU does. */
EXPORT result_t nvmlDeviceGetFieldValues(device_t *device, int count, field_t *fields) {
    if (!running) return NVML_ERROR_UNINITIALIZED;
    if (device == NULL || count < 0 || count > FIELDS_AT_MOST) return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < count; i++) {
        char key[48];
        snprintf(key, sizeof key, "field.%u.%u", fields[i].field, fields[i].scope);
        bool alone = fields[i].scope == 0 && device != NULL && profile_text(device->section, key) == NULL;
        if (alone) snprintf(key, sizeof key, "field.%u", fields[i].field);
        fields[i].time = fields[i].latency = 0;
        fields[i].type = 3; /* unsigned long long */
        fields[i].value.wide = 0;
        fields[i].result = number(device, key, &fields[i].value.wide);
    }
    return NVML_SUCCESS;
}

/* ---- processes: "PID BYTES" separated by commas; "-" for bytes that the system does not tell ---- */

typedef struct {
    unsigned pid;
    u64 memory;
    unsigned gpu_instance, compute_instance;
} process_t;

static result_t processes(device_t *device, const char *key, unsigned *count, process_t *list) {
    const char *text;
    result_t result = usable(device, key);
    if (result == NVML_SUCCESS) result = profile_answer(device->section, key, &text);
    if (result != NVML_SUCCESS) return result;
    unsigned found = 0, room = *count;
    while (*text != '\0') {
        char *end;
        process_t process = {(unsigned)strtoul(text, &end, 10), ~0ULL, ~0u, ~0u};
        if (end == text) return NVML_ERROR_UNKNOWN;
        while (*end == ' ') end++;
        if (*end == '-') end++;
        else process.memory = strtoull(end, &end, 0);
        if (list != NULL && found < room) list[found] = process;
        found++;
        while (*end == ' ' || *end == ',') end++;
        text = end;
    }
    *count = found;
    return found > room || (found > 0 && list == NULL) ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define PROCESSES(function, key) \
    EXPORT result_t function(device_t *device, unsigned *count, process_t *list) { \
        return processes(device, key, count, list); \
    }
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "processes.compute")
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "processes.compute")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "processes.graphics")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "processes.graphics")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, "processes.mps")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "processes.mps")

/* Use by process: nothing has been sampled, which NVML says so. */
EXPORT result_t nvmlDeviceGetProcessUtilization(device_t *device, void *samples, unsigned *count, u64 since) {
    (void)samples, (void)since;
    result_t result = usable(device, "processes.sampled");
    if (result != NVML_SUCCESS) return result;
    *count = 0;
    return NVML_ERROR_NOT_FOUND;
}

/* ---- MIG: the sections [0.0], [0.1] ... are the instances of GPU 0 ---- */

EXPORT result_t nvmlDeviceGetMaxMigDeviceCount(device_t *device, unsigned *count) {
    return small(device, "mig.maximum", count);
}

EXPORT result_t nvmlDeviceGetMigDeviceHandleByIndex(device_t *device, unsigned index, device_t **handle) {
    unsigned most;
    result_t result = nvmlDeviceGetMaxMigDeviceCount(device, &most);
    if (result != NVML_SUCCESS) return result;
    if (device->instance >= 0 || index >= most || index >= INSTANCES_AT_MOST) return NVML_ERROR_INVALID_ARGUMENT;
    device_t *instance = &devices[device->gpu][index + 1];
    if (!profile_has(instance->section)) return NVML_ERROR_NOT_FOUND;
    *handle = instance;
    return NVML_SUCCESS;
}

EXPORT result_t nvmlDeviceIsMigDeviceHandle(device_t *device, unsigned *is) {
    result_t result = usable(device, "index");
    if (result == NVML_SUCCESS) *is = device->instance >= 0;
    return result;
}

EXPORT result_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device_t *device, device_t **parent) {
    result_t result = usable(device, "index");
    if (result == NVML_SUCCESS && device->instance < 0) result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS) *parent = &devices[device->gpu][0];
    return result;
}

NUMBER(nvmlDeviceGetGpuInstanceId, "gpu_instance")
NUMBER(nvmlDeviceGetComputeInstanceId, "compute_instance")

typedef struct {
    unsigned multiprocessors, others[7];
    u64 memory_mib;
} attributes_t;

/* attributes = MULTIPROCESSORS, MEMORY IN MiB */
EXPORT result_t nvmlDeviceGetAttributes_v2(device_t *device, attributes_t *attributes) {
    u64 values[2];
    result_t result = numbers(device, "attributes", values, 2);
    if (result == NVML_SUCCESS) *attributes = (attributes_t){(unsigned)values[0], {0}, values[1]};
    return result;
}
