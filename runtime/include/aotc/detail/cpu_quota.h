/* How much CPU time the control groups of this process allow: what a container is given. C11 and C++17; header-only; needs
 * the C library as POSIX.1-2008 has it. */
#ifndef AOTC_DETAIL_CPU_QUOTA_H_
#define AOTC_DETAIL_CPU_QUOTA_H_
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { AOTC_QUOTA_PATH = 1024 };

/* Behind the n-th space of a line; NULL: it has fewer. */
static inline char* aotc_quota_word(char* line, int n) {
  for (; line && n > 0; --n) {
    line = strchr(line, ' ');
    if (line) ++line;
  }
  return line;
}

/* Whether `name` is one of a list with commas. */
static inline int aotc_quota_lists(const char* list, const char* name) {
  const size_t n = strlen(name);
  for (; list; list = strchr(list, ','), list += list != NULL)
    if (strncmp(list, name, n) == 0 && (list[n] == 0 || list[n] == ',' || list[n] == '\n')) return 1;
  return 0;
}

/* Up to two numbers of a file; how many there are. "max" and what is negative are none. */
static inline int aotc_quota_read(const char* folder, const char* file, int64_t numbers[2]) {
  char path[AOTC_QUOTA_PATH], text[64];
  const char* at = text;
  FILE* f;
  size_t bytes;
  int n = 0;
  if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path || !(f = fopen(path, "re"))) return 0;
  bytes = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[bytes] = 0;
  while (n < 2 && *at >= '0' && *at <= '9') {
    for (numbers[n] = 0; *at >= '0' && *at <= '9' && numbers[n] < INT64_MAX / 20; ++at) numbers[n] = numbers[n] * 10 + (*at - '0');
    ++n;
    at += *at == ' ';
  }
  return n;
}

/* CPUs, rounded up, that one group may use; 0: as many as there are. */
static inline int32_t aotc_quota_of(const char* folder, int v2) {
  int64_t n[2] = {0, 0}, whole;
  if (v2 ? aotc_quota_read(folder, "cpu.max", n) != 2
         : aotc_quota_read(folder, "cpu.cfs_quota_us", n) < 1 || aotc_quota_read(folder, "cpu.cfs_period_us", n + 1) < 1)
    return 0;
  if (n[0] <= 0 || n[1] <= 0) return 0;
  whole = n[0] / n[1] + (n[0] % n[1] != 0);
  return whole > INT32_MAX ? 0 : (int32_t)whole;
}

/* The least of the group's and those above it, up to where the groups are mounted. `group`: its path as /proc/self/cgroup has it;
 * `top`: of the group that is mounted at `mount`. */
static inline int32_t aotc_quota_upwards(const char* root, const char* mount, const char* top, const char* group, int v2) {
  char folder[AOTC_QUOTA_PATH];
  const size_t n = strcmp(top, "/") == 0 ? 0 : strlen(top);
  const char* below = strncmp(group, top, n) == 0 && (group[n] == '/' || group[n] == 0) ? group + n : "";
  const size_t least = strlen(root) + strlen(mount);
  int32_t quota = 0;
  if (snprintf(folder, sizeof folder, "%s%s%s", root, mount, below) >= (int)sizeof folder) return 0;
  for (;;) {
    const int32_t q = aotc_quota_of(folder, v2);
    char* last;
    if (q > 0 && (quota == 0 || q < quota)) quota = q;
    last = strrchr(folder, '/');
    if (!last || (size_t)(last - folder) < least) return quota;
    *last = 0;
  }
}

/* Of the groups of the controller, as /proc/self/mountinfo says where they are. */
static inline int32_t aotc_quota_mounted(const char* root, const char* group, int v2) {
  char path[AOTC_QUOTA_PATH];
  char* line = NULL;
  size_t room = 0;
  int32_t quota = 0;
  FILE* f;
  if (snprintf(path, sizeof path, "%s/proc/self/mountinfo", root) >= (int)sizeof path || !(f = fopen(path, "re"))) return 0;
  while (getdelim(&line, &room, '\n', f) > 0) { /* id parent device top mount options [more] - type source options */
    char* rest = strstr(line, " - ");
    char *top, *mount, *options;
    int32_t q;
    if (!rest) continue;
    *rest = 0;
    rest += 3;
    if (strncmp(rest, v2 ? "cgroup2 " : "cgroup ", v2 ? 8 : 7) != 0) continue;
    options = aotc_quota_word(rest, 2);
    if (!v2 && !(options && aotc_quota_lists(options, "cpu"))) continue;
    top = aotc_quota_word(line, 3);
    mount = aotc_quota_word(line, 4);
    if (!mount) continue;
    top[strcspn(top, " ")] = 0;
    mount[strcspn(mount, " ")] = 0;
    q = aotc_quota_upwards(root, mount, top, group, v2);
    if (q > 0 && (quota == 0 || q < quota)) quota = q;
  }
  fclose(f);
  free(line);
  return quota;
}

/* CPUs, rounded up, whose time the control groups of this process allow; 0: they set no limit. root: "", or a folder that stands for "/".
 */
static inline int32_t aotc_cpu_quota(const char* root) {
  char path[AOTC_QUOTA_PATH];
  char* line = NULL;
  size_t room = 0;
  int32_t quota = 0;
  FILE* f;
  if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= (int)sizeof path || !(f = fopen(path, "re"))) return 0;
  while (getdelim(&line, &room, '\n', f) > 0) { /* id:controllers:path; version 2 has no controllers */
    char* group = strchr(line, ':');
    char* controllers = group ? group + 1 : NULL;
    int32_t q;
    group = controllers ? strchr(controllers, ':') : NULL;
    if (!group) continue;
    *group++ = 0;
    group[strcspn(group, "\n")] = 0;
    if (*controllers && !aotc_quota_lists(controllers, "cpu")) continue;
    q = aotc_quota_mounted(root, group, *controllers == 0);
    if (q > 0 && (quota == 0 || q < quota)) quota = q;
  }
  fclose(f);
  free(line);
  return quota;
}

#ifdef __cplusplus
}
#endif
#endif
