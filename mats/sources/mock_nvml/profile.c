#include "profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ENTRIES_AT_MOST 4096
#define LINE_AT_MOST 4096
#define DEPTH_AT_MOST 4 /* of profiles that are like another */

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

static bool add(const char *section, const char *key, const char *value) {
    if (entry_count == ENTRIES_AT_MOST) return false;
    entries[entry_count++] = (struct entry){strdup(section), strdup(key), strdup(value)};
    return true;
}

/* "key.FIRST-LAST" stands for as many keys. */
static bool add_range(const char *section, char *key, const char *value) {
    char *dot = strrchr(key, '.'), *end, *numbered;
    unsigned long first = dot == NULL ? 0 : strtoul(dot + 1, &end, 10);
    if (dot == NULL || end == dot + 1 || *end != '-') return add(section, key, value);
    unsigned long last = strtoul(end + 1, &numbered, 10);
    if (*numbered != '\0' || last < first) return add(section, key, value);
    *dot = '\0';
    bool room = true;
    for (unsigned long number = first; room && number <= last; number++) {
        char one[96];
        snprintf(one, sizeof one, "%.60s.%lu", key, number);
        room = add(section, one, value);
    }
    return room;
}

static int take_line(const char *path, int line, char *text, char *section) {
    if (strchr(text, '\n') == NULL && strlen(text) + 1 >= LINE_AT_MOST) return refuse(path, line, "the line is too long");
    char *content = trimmed(text);
    if (*content == '\0' || *content == '#' || *content == '|') return NVML_SUCCESS;
    size_t length = strlen(content);
    if (*content == '[') {
        if (content[length - 1] != ']' || length > 60) return refuse(path, line, "a section is [name]");
        memcpy(section, content + 1, length - 2);
        section[length - 2] = '\0';
        return NVML_SUCCESS;
    }
    char *equals = strchr(content, '=');
    if (equals == NULL || *section == '\0') return refuse(path, line, "a line is 'key = value' within a [section]");
    *equals = '\0';
    char *key = trimmed(content), *value = trimmed(equals + 1);
    return add_range(section, key, value) ? NVML_SUCCESS : refuse(path, line, "too many lines");
}

static int take_file(const char *path, FILE *file) {
    char text[LINE_AT_MOST], section[64] = "";
    int result = NVML_SUCCESS;
    for (int line = 1; result == NVML_SUCCESS && fgets(text, sizeof text, file) != NULL; line++) {
        result = take_line(path, line, text, section);
    }
    fclose(file);
    return result;
}

/* The profile NAME beside ``path``, else in the folder of those that are built in; its place in ``found``. */
static FILE *open_base(const char *path, const char *name, char *found, size_t room) {
    const char *slash = strrchr(path, '/'), *built_in = getenv("MATS_MOCK_NVML_PROFILES");
    int folder = slash == NULL ? 1 : (int)(slash - path);
    snprintf(found, room, "%.*s/%s.profile", folder, slash == NULL ? "." : path, name);
    FILE *file = fopen(found, "r");
    if (file != NULL || built_in == NULL) return file;
    snprintf(found, room, "%s/%s.profile", built_in, name);
    return fopen(found, "r");
}

static const char *own_text(const char *section, const char *key) {
    for (size_t i = 0; i < entry_count; i++) {
        if (strcmp(entries[i].section, section) == 0 && strcmp(entries[i].key, key) == 0) return entries[i].value;
    }
    return NULL;
}

/* What stands in the first file wins, since it is found first; "like = NAME" adds those of NAME behind it. */
int profile_load(void) {
    const char *first = getenv("MATS_MOCK_NVML");
    if (first == NULL) return refuse("MATS_MOCK_NVML", 0, "the variable names no profile");
    char path[4096];
    snprintf(path, sizeof path, "%s", first);
    FILE *file = fopen(path, "r");
    if (file == NULL) return refuse(path, 0, strerror(errno));
    forget();
    for (int depth = 0; depth < DEPTH_AT_MOST; depth++) {
        size_t start = entry_count;
        int result = take_file(path, file);
        if (result != NVML_SUCCESS) return result;
        const char *like = NULL;
        for (size_t i = start; i < entry_count && like == NULL; i++) {
            if (strcmp(entries[i].section, "system") == 0 && strcmp(entries[i].key, "like") == 0) like = entries[i].value;
        }
        if (like == NULL) return NVML_SUCCESS;
        char found[sizeof path];
        file = open_base(path, like, found, sizeof found);
        if (file == NULL) return refuse(path, 0, "there is no profile that it is like");
        memcpy(path, found, sizeof path);
    }
    return refuse(first, 0, "too many profiles that are like another");
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
    if (strcmp(text, "!crash") == 0) abort();
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
