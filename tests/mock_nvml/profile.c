#include "profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ENTRIES_AT_MOST 4096
#define LINE_AT_MOST 1024

struct entry {
    char *section;
    char *key;
    char *value;
};

static struct entry entries[ENTRIES_AT_MOST];
static size_t entry_count;

static char *trimmed(char *text) {
    while (*text == ' ' || *text == '\t') text++;
    char *end = text + strlen(text);
    while (end > text && strchr(" \t\r\n", end[-1]) != NULL) *--end = '\0';
    return text;
}

static int refuse(const char *path, int line, const char *why) {
    fprintf(stderr, "mock NVML: %s:%d: %s\n", path, line, why);
    return NVML_ERROR_UNKNOWN;
}

static void forget(void) {
    for (size_t i = 0; i < entry_count; i++) {
        free(entries[i].section);
        free(entries[i].key);
        free(entries[i].value);
    }
    entry_count = 0;
}

static int take_line(const char *path, int line, char *text, char *section) {
    char *content = trimmed(text);
    if (*content == '\0' || *content == '#') return NVML_SUCCESS;
    size_t length = strlen(content);
    if (*content == '[') {
        if (content[length - 1] != ']' || length > 60) return refuse(path, line, "a section is [name]");
        memcpy(section, content + 1, length - 2);
        section[length - 2] = '\0';
        return NVML_SUCCESS;
    }
    char *equals = strchr(content, '=');
    if (equals == NULL || *section == '\0') return refuse(path, line, "a line is 'key = value' within a [section]");
    if (entry_count == ENTRIES_AT_MOST) return refuse(path, line, "too many lines");
    *equals = '\0';
    entries[entry_count++] = (struct entry){strdup(section), strdup(trimmed(content)), strdup(trimmed(equals + 1))};
    return NVML_SUCCESS;
}

int profile_load(void) {
    const char *path = getenv("MATS_MOCK_NVML");
    if (path == NULL) return refuse("MATS_MOCK_NVML", 0, "the variable names no profile");
    FILE *file = fopen(path, "r");
    if (file == NULL) return refuse(path, 0, strerror(errno));
    forget();
    char text[LINE_AT_MOST], section[64] = "";
    int result = NVML_SUCCESS;
    for (int line = 1; result == NVML_SUCCESS && fgets(text, sizeof text, file) != NULL; line++) {
        result = take_line(path, line, text, section);
    }
    fclose(file);
    return result;
}

static const char *own_text(const char *section, const char *key) {
    for (size_t i = 0; i < entry_count; i++) {
        if (strcmp(entries[i].section, section) == 0 && strcmp(entries[i].key, key) == 0) return entries[i].value;
    }
    return NULL;
}

const char *profile_text(const char *section, const char *key) {
    const char *own = own_text(section, key);
    bool shared = own == NULL && strcmp(section, "system") != 0 && strchr(section, '.') == NULL;
    return shared ? own_text("all", key) : own;
}

bool profile_has(const char *section) {
    for (size_t i = 0; i < entry_count; i++) {
        if (strcmp(entries[i].section, section) == 0) return true;
    }
    return false;
}

static void sleep_for(double seconds) {
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

int profile_answer(const char *section, const char *key, const char **rest) {
    const char *text = profile_text(section, key);
    if (text == NULL) return NVML_ERROR_NOT_SUPPORTED;
    if (*text == '@') {
        char *end;
        sleep_for(strtod(text + 1, &end));
        while (*end == ' ') end++;
        text = end;
    }
    if (*text == '!') return atoi(text + 1);
    *rest = text;
    return NVML_SUCCESS;
}

int profile_numbers(const char *section, const char *key, unsigned long long *numbers, size_t count) {
    const char *text;
    int result = profile_answer(section, key, &text);
    if (result != NVML_SUCCESS) return result;
    for (size_t i = 0; i < count; i++) {
        char *end;
        numbers[i] = strtoull(text, &end, 0);
        while (*end == ' ') end++;
        bool last = i + 1 == count;
        if (end == text || *end != (last ? '\0' : ',')) {
            fprintf(stderr, "mock NVML: [%s] %s: wants %zu numbers\n", section, key, count);
            return NVML_ERROR_UNKNOWN;
        }
        text = end + 1;
    }
    return NVML_SUCCESS;
}

int profile_number(const char *section, const char *key, unsigned long long *number) {
    return profile_numbers(section, key, number, 1);
}
